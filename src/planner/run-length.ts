/** Days and money for a number of tokens, from a step's time. */
import type { StepTime } from "./step-time.ts";
import { utilisation } from "./utilisation.ts";

export interface RunLength {
  readonly tokens: number;
  readonly days: number;
  /** Hours of all devices together. */
  readonly deviceHours: number;
  /** In the unit of the price; undefined without one. */
  readonly cost: number | undefined;
  /** Operations of the model over the devices' peak, recomputation counted; undefined where no peak is known. */
  readonly utilisation: number | undefined;
}

/** @param price of an hour of one device @param peakPerSecond of one device, operations */
export function runLength(
  tokens: number,
  { tokensPerSecond, operations, seconds }: Pick<StepTime, "tokensPerSecond" | "operations" | "seconds">,
  { ranks, price, peakPerSecond }: { ranks: number; price: number | undefined; peakPerSecond: number | undefined },
): RunLength {
  const runSeconds = tokens / tokensPerSecond;
  const deviceHours = (ranks * runSeconds) / 3600;
  return {
    tokens,
    days: runSeconds / 86400,
    deviceHours,
    cost: price === undefined ? undefined : price * deviceHours,
    utilisation: peakPerSecond === undefined ? undefined : utilisation(operations / seconds, ranks, peakPerSecond),
  };
}
