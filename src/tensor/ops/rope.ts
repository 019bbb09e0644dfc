/** Rotary positions. */
import { ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";

/**
 * Turns each pair of each head (elements c and headDim / 2 + c) by the angle of its place. x: [batch, seq, heads x headDim];
 * angles: fp32 [seq, headDim], cosines of all pairs and then their sines, of the place of each row.
 */
export function rope(tape: Tape, x: Tensor, angles: Tensor): Tensor {
  const [batch, seq, width] = x.shape as [number, number, number];
  const [places, headDim] = angles.shape as [number, number];
  if (x.shape.length !== 3 || places !== seq || headDim % 2 !== 0 || width % headDim !== 0 || angles.dtype !== "f32")
    throw new ShapeError(
      "rope",
      `[${x.shape.join(", ")}] with angles [${angles.shape.join(", ")}] ${angles.dtype}`,
      "[batch, seq, heads x headDim] with fp32 angles [seq, headDim], headDim even",
    );
  const shape = { rows: batch * seq, places, heads: width / headDim, headDim, dtype: x.dtype };
  const turn = (from: Tensor, into: Tensor, inverse: boolean): Tensor => {
    const spans = { x: from.span, angles: angles.span, y: into.span };
    tape.device.issue("compute", "rope", { ...shape, ...spans, inverse });
    return into;
  };
  const y = turn(x, tape.make(x.shape, x.dtype, x.requiresGradient), false);
  const backward = (dy: Tensor) => [
    turn(dy, dy.exclusive ? dy.retain() : Tensor.allocate(tape.device, dy.shape, dy.dtype), true),
  ];
  return tape.record("rope", [x], y, [angles], backward, false);
}
