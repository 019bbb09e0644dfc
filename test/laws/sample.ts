// Seeded random settings for the equality laws: everything that must not change a bit.
import { fileURLToPath } from "node:url";
import { philox4x32, words } from "../../src/data/philox.ts";

/** Where swap files of tests lie. */
export const swapFolder = fileURLToPath(new URL("../..", import.meta.url));

/** The same draws for the same seed, anywhere. */
export class Draws {
  readonly #key: [number, number];
  #drawn = 0;

  constructor(seed: number) {
    this.#key = words(seed);
  }

  pick<T>(choices: readonly T[]): T {
    const out = new Uint32Array(4);
    philox4x32(Uint32Array.of(this.#drawn++, 0, 0, 0), ...this.#key, out);
    return choices[out[0]! % choices.length]!;
  }
}

/** Settings of one run. Undefined: left out of the configuration. */
export interface Setting {
  readonly stage: 0 | 1 | 2 | 3;
  readonly checkpointing: boolean;
  readonly overlap: boolean | undefined;
  readonly reduceBucket: number | undefined;
  readonly allgatherBucket: number | undefined;
  readonly prefetch: number | undefined;
  readonly live: number | undefined;
  readonly reuse: number | undefined;
  readonly subGroup: number | undefined;
  readonly persistence: number | undefined;
  readonly threads: number;
  /** Where optimizer states live, from stage 1 on, and the share of sub-groups that do. */
  readonly optimizerTier: "none" | "cpu" | "nvme";
  readonly ratio: number | undefined;
  /** Where parameters live, at stage 3. */
  readonly parameterTier: "none" | "cpu" | "nvme";
  readonly isDelayed: boolean;
  /** Elements of a rank's parameters that stay in host memory although parameters are on disk. */
  readonly parametersInHost: number | undefined;
}

export const plainSetting = (stage: Setting["stage"]): Setting => ({
  stage,
  checkpointing: false,
  overlap: undefined,
  reduceBucket: undefined,
  allgatherBucket: undefined,
  prefetch: undefined,
  live: undefined,
  reuse: undefined,
  subGroup: undefined,
  persistence: undefined,
  threads: 1,
  optimizerTier: "none",
  ratio: undefined,
  parameterTier: "none",
  isDelayed: false,
  parametersInHost: undefined,
});

export function drawSetting(draws: Draws, stages: readonly Setting["stage"][]): Setting {
  return {
    stage: draws.pick(stages),
    checkpointing: draws.pick([false, true]),
    overlap: draws.pick([undefined, false, true]),
    reduceBucket: draws.pick([undefined, 1000, 4096, 20_011, 1e9]),
    allgatherBucket: draws.pick([undefined, 1000, 4096, 20_011, 1e9]),
    prefetch: draws.pick([undefined, 0, 9000, 1e9]),
    live: draws.pick([undefined, 0, 1e9]),
    reuse: draws.pick([undefined, undefined, 20_000, 1e9]),
    subGroup: draws.pick([undefined, 301, 4096, 1e9]),
    persistence: draws.pick([undefined, 0, 0, 40, 1e9]),
    threads: draws.pick([1, 2]),
    optimizerTier: draws.pick(["none", "cpu", "nvme"]),
    ratio: draws.pick([undefined, undefined, 0.3, 0.75]),
    parameterTier: draws.pick(["none", "cpu", "nvme"]),
    isDelayed: false,
    parametersInHost: draws.pick([undefined, undefined, 5000]),
  };
}

/** DeepSpeed's JSON for a setting; `base` holds what the compared runs share. */
export function jsonOf(setting: Setting, base: object): object {
  const { stage, optimizerTier, ratio, parameterTier, parametersInHost } = setting;
  const place = (device: string): object => ({ device, ...(device === "nvme" && { nvme_path: swapFolder }) });
  const offload = {
    ...(stage > 0 && optimizerTier !== "none" && { offload_optimizer: { ...place(optimizerTier), ratio: ratio ?? 1 } }),
    ...(stage === 3 &&
      parameterTier !== "none" && {
        offload_param: { ...place(parameterTier), ...(parametersInHost && { max_in_cpu: parametersInHost }) },
      }),
  };
  // A sub-group is a page on disk at least.
  const subGroup =
    [optimizerTier, parameterTier].includes("nvme") && setting.subGroup === 301 ? 4096 : setting.subGroup;
  const given = (entries: Record<string, unknown>): object =>
    Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
  return {
    ...base,
    shunya: { activation_checkpointing: setting.checkpointing, delayed_update: setting.isDelayed },
    zero_optimization: given({
      ...offload,
      stage: setting.stage,
      overlap_comm: setting.overlap,
      reduce_bucket_size: setting.reduceBucket,
      allgather_bucket_size: setting.allgatherBucket,
      stage3_prefetch_bucket_size: setting.prefetch,
      stage3_max_live_parameters: setting.live,
      stage3_max_reuse_distance: setting.reuse,
      sub_group_size: subGroup,
      stage3_param_persistence_threshold: setting.persistence,
    }),
  };
}
