/** How reports speak of a placement. */
import type { Tier } from "../device/ledger.ts";
import type { Offload } from "../plan/placement.ts";
import { tierOf } from "../plan/residence.ts";

export const isPlain = ({ offloadOptimizer, offloadParam }: Offload): boolean =>
  offloadOptimizer === "none" && offloadParam === "none";

const on: Readonly<Record<Tier, string>> = { device: "on the device", host: "on the host", disk: "on disk" };

/** "without offload", "with optimizer states on the host": what follows the stage. */
export function offloadName(offload: Offload): string {
  const { offloadOptimizer, offloadParam } = offload;
  if (isPlain(offload)) return "without offload";
  if (offloadOptimizer === offloadParam) return `with optimizer states and parameters ${on[tierOf[offloadParam]]}`;
  return `with optimizer states ${on[tierOf[offloadOptimizer]]}`;
}
