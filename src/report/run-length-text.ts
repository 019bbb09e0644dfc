/** Days and money of a run, for a terminal. */
import type { RunLength } from "../planner/run-length.ts";
import { sizeText } from "./inverse-report.ts";
import { formatCount } from "./numbers.ts";
import { wrap } from "./wrap.ts";

/** @param assumed where the speed is from */
export function renderRunLength({ tokens, days, deviceHours, cost, utilisation }: RunLength, assumed: string): string {
  const money = cost === undefined ? "" : `, ${formatCount(cost)} at that price`;
  const share = utilisation === undefined ? "" : ` That uses ${(100 * utilisation).toFixed(0)} % of the devices' peak.`;
  const time = days >= 2 ? `${days.toFixed(1)} days` : `${(24 * days).toFixed(1)} hours`;
  return wrap(
    `${sizeText(tokens)} tokens take ${time}: ${formatCount(deviceHours)} hours of a device${money}.${share} Speed: ${assumed}.`,
  );
}
