/** Sizes that the plan settled on, under DeepSpeed's names (less a prefix, for width), and why: left-out ones are derived. */
import type { Plan } from "../plan/plan.ts";
import type { PlannedSizes } from "../plan/sizes.ts";
import { formatCount } from "./numbers.ts";
import { renderTable } from "./table.ts";

const names: Readonly<Record<keyof PlannedSizes, string>> = {
  reduceBucket: "reduce_bucket_size",
  allgatherBucket: "allgather_bucket_size",
  prefetch: "stage3_prefetch_bucket_size",
  liveParameters: "stage3_max_live_parameters",
  reuseDistance: "stage3_max_reuse_distance",
  persistence: "stage3_param_persistence_threshold",
  subGroup: "sub_group_size",
};

/** Those that act only where parameters are sharded. */
const ofSharding: readonly (keyof PlannedSizes)[] = ["prefetch", "liveParameters", "reuseDistance", "persistence"];

export function renderSizes({ sizes, residences }: Pick<Plan, "sizes" | "residences">): string {
  const isSharded = residences.parameters.split === "shard";
  const used = (Object.keys(names) as (keyof PlannedSizes)[]).filter((key) => isSharded || !ofSharding.includes(key));
  return renderTable({
    columns: [
      { header: "zero_optimization.(stage3_)", align: "left" },
      { header: "elements", align: "right" },
      { header: "because", align: "left" },
    ],
    rows: used.map((key) => [names[key].replace("stage3_", ""), formatCount(sizes[key].elements), sizes[key].why]),
  });
}
