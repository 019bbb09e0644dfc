/** Layer normalisation. */
import { ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";
import type { Weight } from "../weight.ts";

/** (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; statistics in fp32. */
export function layerNorm(tape: Tape, x: Tensor, weight: Weight, bias: Weight, epsilon: number): Tensor {
  const { rows, cols, dtype } = x;
  if (weight.shape[0] !== cols)
    throw new ShapeError(`layerNorm ${weight.name}`, `an input of width ${cols}`, `width ${weight.shape[0]}, the weight's`);
  const y = tape.make(x.shape, dtype, x.requiresGradient || weight.trainable);
  const mean = tape.make([rows], "f32");
  const rstd = tape.make([rows], "f32");
  tape.device.issue("compute", "layerNorm", {
    rows, cols, dtype, epsilon, x: x.span, gamma: weight.value.span, beta: bias.value.span, y: y.span,
    mean: mean.span, rstd: rstd.span,
  });
  return tape.record("layerNorm", [x], y, [x, mean, rstd], (dy, existing) => {
    const held = existing(0);
    const dx = held ?? Tensor.allocate(tape.device, x.shape, dtype);
    const dGamma = weight.trainable ? weight.takeGradient() : undefined;
    const dBeta = bias.trainable ? bias.takeGradient() : undefined;
    tape.device.issue("compute", "layerNormBackward", {
      rows, cols, dtype, dy: dy.span, x: x.span, gamma: weight.value.span, mean: mean.span, rstd: rstd.span, dx: dx.span,
      accumulateInput: held !== undefined, dgamma: dGamma?.tensor.span ?? null, dbeta: dBeta?.tensor.span ?? null,
      accumulateParameters: dGamma?.accumulate ?? false,
    });
    return [dx];
  });
}
