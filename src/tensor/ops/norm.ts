/** Layer normalisation, and the kind that only scales. */
import { ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";
import type { Weight } from "../weight.ts";

/** (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; statistics in fp32. */
export function layerNorm(tape: Tape, x: Tensor, weight: Weight, bias: Weight, epsilon: number): Tensor {
  const { rows, cols, dtype } = x;
  if (weight.shape[0] !== cols)
    throw new ShapeError(
      `layerNorm ${weight.name}`,
      `an input of width ${cols}`,
      `width ${weight.shape[0]}, the weight's`,
    );
  const y = tape.make(x.shape, dtype, x.requiresGradient || weight.trainable || bias.trainable);
  const mean = tape.make([rows], "f32");
  const rstd = tape.make([rows], "f32");
  tape.device.issue("compute", "layerNorm", {
    rows,
    cols,
    dtype,
    epsilon,
    x: x.span,
    gamma: weight.value.span,
    beta: bias.value.span,
    y: y.span,
    mean: mean.span,
    rstd: rstd.span,
  });
  return tape.record("layerNorm", [x], y, [x, mean, rstd], (dy, existing) => {
    const held = existing(0);
    const dx = held ?? Tensor.allocate(tape.device, x.shape, dtype);
    const parameters = parameterGradients(tape, weight, bias);
    tape.device.issue("compute", "layerNormBackward", {
      rows,
      cols,
      dtype,
      dy: dy.span,
      x: x.span,
      gamma: weight.value.span,
      mean: mean.span,
      rstd: rstd.span,
      dx: dx.span,
      accumulateInput: held !== undefined,
      dgamma: parameters.dGamma,
      dbeta: parameters.dBeta,
      accumulateParameters: parameters.accumulate,
    });
    parameters.spare?.release();
    return [dx];
  });
}

/** x / sqrt(mean(x^2) + epsilon) * weight over the last dimension; statistics in fp32. */
export function rmsNorm(tape: Tape, x: Tensor, weight: Weight, epsilon: number): Tensor {
  const { rows, cols, dtype } = x;
  if (weight.shape[0] !== cols)
    throw new ShapeError(
      `rmsNorm ${weight.name}`,
      `an input of width ${cols}`,
      `width ${weight.shape[0]}, the weight's`,
    );
  const y = tape.make(x.shape, dtype, x.requiresGradient || weight.trainable);
  const rstd = tape.make([rows], "f32");
  const shape = { rows, cols, dtype };
  const gamma = weight.value.span;
  tape.device.issue("compute", "rmsNorm", { ...shape, epsilon, x: x.span, gamma, y: y.span, rstd: rstd.span });
  return tape.record("rmsNorm", [x], y, [x, rstd], (dy, existing) => {
    const held = existing(0);
    const dx = held ?? Tensor.allocate(tape.device, x.shape, dtype);
    const gradient = weight.trainable ? weight.takeGradient() : undefined;
    tape.device.issue("compute", "rmsNormBackward", {
      ...shape,
      dy: dy.span,
      x: x.span,
      gamma: weight.value.span,
      rstd: rstd.span,
      dx: dx.span,
      accumulateInput: held !== undefined,
      dgamma: gradient?.tensor.span ?? null,
      accumulateParameter: gradient?.accumulate ?? false,
    });
    return [dx];
  });
}

/**
 * The kernel makes both gradients or none, and adds to both or to none: where only one is wanted the other goes to scratch,
 * and where only one is to be added to the other starts at zero.
 */
function parameterGradients(tape: Tape, weight: Weight, bias: Weight) {
  const wanted = [weight, bias].map((w) => (w.trainable ? w.takeGradient() : undefined));
  const given = wanted.filter((g) => g !== undefined);
  const accumulate = given.some((g) => g.accumulate);
  for (const { tensor, accumulate: adds } of given) {
    const zero = { count: tensor.elements, dtype: tensor.dtype, value: 0, dst: tensor.span };
    if (accumulate && !adds) tape.device.issue("compute", "fill", zero);
  }
  const spare =
    given.length === 1 ? Tensor.allocate(tape.device, weight.shape, tape.dtype, { label: "scratch" }) : undefined;
  const [dGamma, dBeta] = wanted.map((g) => (g?.tensor ?? spare)?.span ?? null);
  return { dGamma: dGamma!, dBeta: dBeta!, accumulate, spare };
}
