/** What of a model is trained: `shunya.freeze` and `shunya.lora`. */

import type { UsedPath } from "./keys.ts";
import type { Settings } from "./reader.ts";
import type { LoraConfig } from "./types.ts";

const withoutRank = [
  "shunya.lora.alpha",
  "shunya.lora.targets",
  "shunya.lora.dropout",
  "shunya.lora.rank_stabilized",
] as const satisfies readonly UsedPath[];

export function resolveTuning(settings: Settings): {
  readonly freeze: readonly string[];
  readonly lora: LoraConfig | undefined;
} {
  const freeze = settings.get("shunya.freeze") ?? [];
  const rank = settings.get("shunya.lora.rank");
  if (rank === undefined) {
    const given = withoutRank.find((path) => settings.has(path));
    if (given !== undefined && !settings.isUnreadable("shunya.lora.rank"))
      settings.error(given, "found without a rank; write shunya.lora.rank (--lora-rank 8), or leave this out");
    return { freeze, lora: undefined };
  }
  if (freeze.length > 0)
    settings.error(
      "shunya.freeze",
      "found beside shunya.lora, which freezes everything but its adapters; leave one of the two out",
    );
  const lora = {
    rank,
    alpha: settings.get("shunya.lora.alpha"),
    targets: settings.get("shunya.lora.targets"),
    dropout: settings.get("shunya.lora.dropout"),
    rankStabilized: settings.get("shunya.lora.rank_stabilized"),
  };
  return { freeze, lora };
}
