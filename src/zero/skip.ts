/** Words for steps that are not applied because something was not finite, and for the end of a run that has too many of them. */
import type { ResolvedConfig } from "../config/types.ts";
import type { FlatState } from "./flat.ts";
import type { EngineProgress } from "./progress.ts";

/** @param flats with gradients that are not finite, first the one that was made first */
export function describeNonFinite(loss: number, flats: readonly FlatState[]): string {
  if (!Number.isFinite(loss)) return `the loss is ${loss}`;
  return `the gradients of ${flats[0]!.layout.name} are not finite`;
}

export interface Stop {
  readonly config: Pick<ResolvedConfig, "precision" | "lossScale">;
  /** After the step that stops. */
  readonly progress: EngineProgress;
  readonly why: "scale at its minimum" | "too many skips";
  /** The first thing that was not finite. */
  readonly culprit: string;
}

/** The last words of a run that stops for its numbers. */
export function describeStop({ config, progress, why, culprit }: Stop): string {
  const { attempted, updates, consecutiveSkips, lossScale } = progress;
  const skips = consecutiveSkips === 1 ? "this step was skipped" : `${consecutiveSkips} steps in a row were skipped`;
  const steps = attempted === 1 ? "1 step" : `${attempted} steps`;
  const scale = why === "scale at its minimum" ? `, and the loss scale is at its minimum of ${lossScale.scale}` : "";
  return (
    `step ${attempted}: ${culprit}; ${skips}${scale}. Of ${steps} ${updates} ${updates === 1 ? "was" : "were"} applied, ` +
    `and no parameter was changed since. ${advice(config)}`
  );
}

function advice({ precision, lossScale }: Stop["config"]): string {
  const usual = "A lower learning rate, a longer warm-up or gradient clipping usually helps";
  if (precision === "fp16")
    return `${usual}; so does bf16 (bf16.enabled), which has the range of fp32${lossScale?.kind === "static" ? ", or a loss scale that adapts (fp16.loss_scale: 0)" : ""}`;
  return precision === "bf16" ? `${usual}; fp32 tells whether it is a matter of precision` : usual;
}
