/** Precision: element types, the loss scale, skipped steps, and how gradients travel. */

import type { Settings } from "./reader.ts";
import type { ElementType, GradientReductionConfig, LossScaleConfig, Precision, Stage } from "./types.ts";

export interface PrecisionConfig {
  readonly precision: Precision;
  readonly lossScale: LossScaleConfig | undefined;
  readonly skipsOverflow: boolean;
  readonly gradientAccumulationType: ElementType;
}

export function resolvePrecision(settings: Settings): PrecisionConfig {
  const fp16 = settings.get("fp16.enabled");
  const bf16 = settings.get("bf16.enabled");
  if (fp16 && bf16)
    settings.error(
      "bf16.enabled",
      "fp16 and bf16 are both enabled; set one of the two to false (bf16 needs no loss scale)",
    );
  const precision = fp16 ? "fp16" : bf16 ? "bf16" : "fp32";
  checkModelTypes(settings, precision);
  return {
    precision,
    lossScale: fp16 ? lossScaleOf(settings) : undefined,
    skipsOverflow: fp16 || (bf16 && settings.get("bf16.check_grad_overflow")),
    gradientAccumulationType: accumulationType(settings, precision),
  };
}

/** DeepSpeed's two wishes about types must agree with the section that decides. */
function checkModelTypes(settings: Settings, precision: Precision): void {
  for (const path of ["data_types.param_dtype", "data_types.buffer_dtype"] as const) {
    const type = settings.get(path);
    if (type !== undefined && type !== precision)
      settings.error(
        path,
        `found "${type}"; this trains in ${precision}: enable ${type} in its own section, or remove this`,
      );
  }
}

function lossScaleOf(settings: Settings): LossScaleConfig {
  const scale = settings.get("fp16.loss_scale");
  if (scale > 0) return { kind: "static", scale };
  const window = settings.get("fp16.loss_scale_window");
  const minScale = settings.get("fp16.min_loss_scale");
  for (const [path, value] of [
    ["fp16.loss_scale_window", window],
    ["fp16.min_loss_scale", minScale],
  ] as const)
    if (value === 0)
      settings.error(path, "found 0; wanted a positive whole number where the loss scale is dynamic (loss_scale 0)");
  const initialScale = 2 ** settings.get("fp16.initial_scale_power");
  if (minScale > initialScale)
    settings.error(
      "fp16.min_loss_scale",
      `found ${minScale}, above the first scale ${initialScale} (initial_scale_power); lower it, or raise initial_scale_power`,
    );
  return {
    kind: "dynamic",
    initialScale,
    window,
    hysteresis: settings.get("fp16.hysteresis"),
    consecutiveHysteresis: settings.get("fp16.consecutive_hysteresis"),
    minScale,
  };
}

function accumulationType(settings: Settings, precision: Precision): ElementType {
  const type = settings.get("data_types.grad_accum_dtype") ?? precision;
  if (precision === "fp32" && type !== "fp32")
    settings.error("data_types.grad_accum_dtype", `found "${type}"; wanted "fp32" when training in fp32`);
  return type;
}

/** How the gradients of all ranks become one; `worldSize` ranks. */
export function resolveReduction(settings: Settings, stage: Stage, worldSize: number): GradientReductionConfig {
  const prescales = settings.get("prescale_gradients");
  const factor = settings.get("gradient_predivide_factor");
  const operation = settings.get("gradient_allreduce_op");
  const dividing = prescales ? "prescale_gradients" : factor === 1 ? undefined : "gradient_predivide_factor";
  if (operation === "sum" && stage === 3)
    settings.error(
      "gradient_allreduce_op",
      'found "sum"; stage 3 has "mean" only, as in DeepSpeed: remove it, or use stage 2',
    );
  if (dividing !== undefined && stage >= 2 && settings.get("zero_optimization.reduce_scatter"))
    settings.error(
      dividing,
      `stage ${stage} with reduce_scatter divides gradients once, after their sum, as in DeepSpeed: ` +
        `remove ${dividing}, or write "reduce_scatter": false in zero_optimization`,
    );
  if (prescales && factor !== 1)
    settings.warn("gradient_predivide_factor", "prescale_gradients goes first, as in DeepSpeed, so this is not used");
  if (operation === "sum" && dividing !== undefined)
    settings.warn(dividing, 'a sum is not divided, so this is not used with gradient_allreduce_op "sum"');
  return {
    type: settings.get("communication_data_type"),
    operation,
    divideBefore: operation === "sum" ? 1 : prescales ? worldSize : factor,
  };
}
