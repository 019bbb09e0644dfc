/** Products with a weight matrix. */
import { ShapeError } from "../../errors/errors.ts";
import type { Backward, Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";
import type { Weight } from "../weight.ts";

/** How a weight of `inputs` x `outputs` lies in memory: GPT-2's Conv1D is "inOut", PyTorch's nn.Linear is "outIn". */
export type WeightLayout = "inOut" | "outIn";

export interface LinearOptions {
  readonly layout: WeightLayout;
  /** Apply GELU (tanh form) to the result, fused into the product. */
  readonly gelu?: boolean;
  /** Added to the result, in place: nobody may need its values any more. Not together with `gelu`. */
  readonly onto?: Tensor;
}

const strides = (layout: WeightLayout, inputs: number, outputs: number) =>
  layout === "inOut" ? { input: outputs, output: 1 } : { input: 1, output: inputs };

/** y[..., o] = act(sum_i x[..., i] W(i, o) + bias[o]), or that plus `onto`. x: [..., inputs]; returns [..., outputs]. */
export function linear(
  tape: Tape,
  x: Tensor,
  weight: Weight,
  bias: Weight | undefined,
  options: LinearOptions,
): Tensor {
  const [first, second] = weight.shape as [number, number];
  const [inputs, outputs] = options.layout === "inOut" ? [first, second] : [second, first];
  if (x.cols !== inputs)
    throw new ShapeError(
      `linear ${weight.name}`,
      `an input of width ${x.cols}`,
      `width ${inputs}, the weight's input size`,
    );
  const w = strides(options.layout, inputs, outputs);
  const { onto, gelu = false } = options;
  const ofOwn = x.requiresGradient || weight.trainable || (bias?.trainable ?? false);
  const wanted = ofOwn || (onto?.requiresGradient ?? false);
  const shape = [...x.shape.slice(0, -1), outputs];
  const y = onto ? tape.own(onto.view(shape, wanted && tape.training)) : tape.make(shape, x.dtype, wanted);
  const preActivation = gelu && tape.recording && wanted ? tape.make(shape, x.dtype) : null;
  tape.device.issue("compute", "matmul", {
    m: x.rows,
    n: outputs,
    k: inputs,
    dtype: x.dtype,
    a: x.span,
    aRowStride: inputs,
    aDepthStride: 1,
    b: weight.value.span,
    bRowStride: w.output,
    bDepthStride: w.input,
    c: y.span,
    ldc: outputs,
    cType: x.dtype,
    accumulate: onto !== undefined,
    bias: bias?.value.span ?? null,
    biasType: x.dtype,
    gelu,
    preActivation: preActivation?.span ?? null,
  });
  const saved = [...(weight.trainable ? [x] : []), ...(preActivation ? [preActivation] : [])];
  const backward: Backward = (dy, existing) => {
    const dPre = preActivation ? geluGradient(dy, preActivation) : dy.retain();
    weightGradient(tape, x, dPre, weight, options.layout);
    if (bias?.trainable) columnSum(tape, dPre, bias);
    const dx = x.requiresGradient ? inputGradient(tape, dPre, weight, w, x, existing(0)) : undefined;
    dPre.release();
    return onto ? [dx, dy.retain()] : [dx];
  };
  return tape.record("linear", onto ? [x, onto] : [x], y, saved, backward, x.requiresGradient);
}

/** The gradient before the activation; over `dy` itself where nobody else holds it. The caller owns the reference. */
function geluGradient(dy: Tensor, preActivation: Tensor): Tensor {
  const dx = dy.exclusive ? dy.retain() : Tensor.allocate(dy.device, dy.shape, dy.dtype);
  const args = { count: dy.elements, dtype: dy.dtype, dy: dy.span, x: preActivation.span, dx: dx.span };
  dy.device.issue("compute", "geluBackward", args);
  return dx;
}

/** Added to `held`, where several products start from one input (queries, keys and values; a gate and what it gates). */
function inputGradient(
  tape: Tape,
  dy: Tensor,
  weight: Weight,
  w: { input: number; output: number },
  x: Tensor,
  held: Tensor | undefined,
): Tensor {
  const dx = held ?? Tensor.allocate(tape.device, x.shape, x.dtype);
  tape.device.issue("compute", "matmul", {
    m: x.rows,
    n: x.cols,
    k: dy.cols,
    dtype: x.dtype,
    a: dy.span,
    aRowStride: dy.cols,
    aDepthStride: 1,
    b: weight.value.span,
    bRowStride: w.input,
    bDepthStride: w.output,
    c: dx.span,
    ldc: x.cols,
    cType: x.dtype,
    accumulate: held !== undefined,
    bias: null,
    biasType: x.dtype,
    gelu: false,
    preActivation: null,
  });
  return dx;
}

function weightGradient(tape: Tape, x: Tensor, dy: Tensor, weight: Weight, layout: WeightLayout): void {
  if (!weight.trainable) return;
  const { tensor: dw, accumulate } = weight.takeGradient();
  const [rows, cols] = layout === "inOut" ? [x, dy] : [dy, x];
  tape.device.issue("compute", "matmul", {
    m: rows.cols,
    n: cols.cols,
    k: x.rows,
    dtype: x.dtype,
    a: rows.span,
    aRowStride: 1,
    aDepthStride: rows.cols,
    b: cols.span,
    bRowStride: 1,
    bDepthStride: cols.cols,
    c: dw.span,
    ldc: cols.cols,
    cType: dw.dtype,
    accumulate,
    bias: null,
    biasType: x.dtype,
    gelu: false,
    preActivation: null,
  });
}

function columnSum(tape: Tape, dy: Tensor, bias: Weight): void {
  const { tensor: db, accumulate } = bias.takeGradient();
  const args = { rows: dy.rows, cols: dy.cols, ld: dy.cols, dtype: dy.dtype, x: dy.span, out: db.span, accumulate };
  tape.device.issue("compute", "columnSum", args);
}
