/** Element by element: sums, GELU, the gate of SwiGLU, dropout, and another shape for the same elements. */
import { dtypeBytes } from "../../device/dtype.ts";
import { ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { type Shape, Tensor } from "../tensor.ts";

function sameShape(op: string, a: Tensor, b: Tensor): void {
  if (a.shape.length !== b.shape.length || a.shape.some((size, i) => size !== b.shape[i]))
    throw new ShapeError(op, `[${a.shape.join(", ")}] and [${b.shape.join(", ")}]`, "two tensors of one shape");
}

/** a + b, of one shape. */
export function add(tape: Tape, a: Tensor, b: Tensor): Tensor {
  sameShape("add", a, b);
  const out = tape.make(a.shape, a.dtype, a.requiresGradient || b.requiresGradient);
  tape.device.issue("compute", "add", { count: a.elements, dtype: a.dtype, a: a.span, b: b.span, out: out.span });
  return tape.record("add", [a, b], out, [], (dy) => [dy.retain(), dy.retain()], false);
}

/** a * b, element by element, of one shape. */
export function multiply(tape: Tape, a: Tensor, b: Tensor): Tensor {
  sameShape("multiply", a, b);
  const out = tape.make(a.shape, a.dtype, a.requiresGradient || b.requiresGradient);
  const product = (x: Tensor, y: Tensor, into: Tensor): Tensor => {
    tape.device.issue("compute", "multiply", {
      count: x.elements,
      dtype: x.dtype,
      a: x.span,
      b: y.span,
      out: into.span,
    });
    return into;
  };
  const times = (dy: Tensor, other: Tensor): Tensor =>
    product(dy, other, Tensor.allocate(tape.device, dy.shape, dy.dtype));
  product(a, b, out);
  return tape.record("multiply", [a, b], out, [a, b], (dy) => [times(dy, b), times(dy, a)], false);
}

/** x * factor. */
export function scale(tape: Tape, x: Tensor, factor: number): Tensor {
  const times = (from: Tensor, into: Tensor): Tensor => {
    const args = { count: from.elements, dtype: from.dtype, x: from.span, factor, out: into.span };
    tape.device.issue("compute", "scale", args);
    return into;
  };
  const out = times(x, tape.make(x.shape, x.dtype, x.requiresGradient));
  const backward = (dy: Tensor) => [times(dy, Tensor.allocate(tape.device, dy.shape, dy.dtype))];
  return tape.record("scale", [x], out, [], backward, false);
}

/** GELU in its tanh form ("gelu_new" of GPT-2). */
export function gelu(tape: Tape, x: Tensor): Tensor {
  const y = tape.make(x.shape, x.dtype, x.requiresGradient);
  tape.device.issue("compute", "gelu", { count: x.elements, dtype: x.dtype, x: x.span, y: y.span });
  const backward = (dy: Tensor) => {
    const dx = Tensor.allocate(tape.device, x.shape, x.dtype);
    const args = { count: x.elements, dtype: x.dtype, dy: dy.span, x: x.span, dx: dx.span };
    tape.device.issue("compute", "geluBackward", args);
    return [dx];
  };
  return tape.record("gelu", [x], y, [x], backward, false);
}

/** silu(gate) * up, of one shape: what SwiGLU does between its products. */
export function siluMultiply(tape: Tape, gate: Tensor, up: Tensor): Tensor {
  sameShape("siluMultiply", gate, up);
  const { dtype, elements: count } = gate;
  const y = tape.make(gate.shape, dtype, gate.requiresGradient || up.requiresGradient);
  tape.device.issue("compute", "siluMultiply", { count, dtype, gate: gate.span, up: up.span, y: y.span });
  const backward = (dy: Tensor) => {
    const dgate = Tensor.allocate(tape.device, gate.shape, dtype);
    const dup = dy.exclusive ? dy.retain() : Tensor.allocate(tape.device, up.shape, dtype);
    const spans = { dy: dy.span, gate: gate.span, up: up.span, dgate: dgate.span, dup: dup.span };
    tape.device.issue("compute", "siluMultiplyBackward", { count, dtype, ...spans });
    return [dgate, dup];
  };
  return tape.record("siluMultiply", [gate, up], y, [gate, up], backward, false);
}

/**
 * Zeroes elements with probability `probability` while training and scales the others by 1 / (1 - probability). Which ones
 * depends on (seed, attempted step, `name`, global sample, element) alone (contracts 22). x: [samples, ...].
 */
export function dropout(tape: Tape, x: Tensor, probability: number, name: string): Tensor {
  if (probability === 0 || !tape.training) return x;
  const key = tape.random.dropout(name);
  const firstElement = tape.random.firstSample * (x.elements / x.shape[0]!);
  const drop = (from: Tensor, into: Tensor): Tensor => {
    const args = {
      count: from.elements,
      dtype: from.dtype,
      x: from.span,
      out: into.span,
      probability,
      key,
      firstElement,
    };
    tape.device.issue("compute", "dropout", args);
    return into;
  };
  const out = drop(x, tape.make(x.shape, x.dtype, x.requiresGradient));
  const backward = (dy: Tensor) => [
    drop(dy, dy.exclusive ? dy.retain() : Tensor.allocate(tape.device, dy.shape, dy.dtype)),
  ];
  return tape.record("dropout", [x], out, [], backward, false);
}

/** Row `index` of x, all its dimensions but the last taken as rows: [1, cols]. */
export function row(tape: Tape, x: Tensor, index: number): Tensor {
  const bytes = x.cols * dtypeBytes[x.dtype];
  const out = tape.make([1, x.cols], x.dtype, x.requiresGradient);
  tape.device.issue("compute", "copy", { bytes, src: x.at(index * x.cols), dst: out.span });
  const backward = (dy: Tensor) => {
    const dx = Tensor.allocate(tape.device, x.shape, x.dtype);
    tape.device.issue("compute", "fill", { count: x.elements, dtype: x.dtype, value: 0, dst: dx.span });
    tape.device.issue("compute", "copy", { bytes, src: dy.span, dst: dx.at(index * x.cols) });
    return [dx];
  };
  return tape.record("row", [x], out, [], backward, false);
}

/** The same elements, in the same order, under another shape. */
export function reshape(tape: Tape, x: Tensor, shape: Shape): Tensor {
  const y = tape.own(x.view(shape));
  return tape.record("reshape", [x], y, [], (dy) => [dy.view(x.shape)], false);
}
