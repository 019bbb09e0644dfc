/** The one frozen object that a configuration file, flags and defaults resolve to. Nothing later reads raw input or fills a default. */

export type Precision = "fp32" | "bf16";
export type Stage = 0 | 1 | 2 | 3;

export interface OptimizerConfig {
  readonly type: "Adam" | "AdamW";
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  readonly biasCorrection: boolean;
}

export interface WarmupConfig {
  readonly warmupSteps: number;
  readonly warmupType: "log" | "linear";
}

/** Learning-rate schedules with DeepSpeed's names. */
export type ScheduleConfig =
  | (WarmupConfig & { readonly type: "WarmupLR"; readonly minLearningRate: number; readonly maxLearningRate: number })
  | (WarmupConfig & {
      readonly type: "WarmupDecayLR";
      readonly minLearningRate: number;
      readonly maxLearningRate: number;
      readonly totalSteps: number;
    })
  | (WarmupConfig & {
      readonly type: "WarmupCosineLR";
      readonly totalSteps: number;
      /** Shares of the optimizer's learning rate: where the warm-up begins, and where the cosine ends. */
      readonly minRatio: number;
      readonly cosMinRatio: number;
    })
  | {
      readonly type: "LRRangeTest";
      readonly minLearningRate: number;
      readonly stepSize: number;
      readonly stepRate: number;
      readonly staircase: boolean;
    };

/** Sizes in elements. Undefined: left out of the file, derived from the model by the plan, which says so. */
export interface SizesConfig {
  readonly reduceBucketSize: number | undefined;
  readonly allgatherBucketSize: number | undefined;
  readonly prefetchBucketSize: number | undefined;
  readonly paramPersistenceThreshold: number | undefined;
  readonly maxLiveParameters: number | undefined;
  readonly maxReuseDistance: number | undefined;
  readonly subGroupSize: number | undefined;
}

/** Where a value came from, by DeepSpeed's dotted path. */
export type ValueSource = "file" | "flag" | "derived" | "default";

export interface ResolvedConfig {
  readonly stage: Stage;
  readonly precision: Precision;
  readonly worldSize: number;
  readonly trainBatch: number;
  readonly microBatch: number;
  readonly gradientAccumulation: number;
  /** 0: no clipping. */
  readonly gradientClipping: number;
  /** fp32 keeps gradients between micro-batches in 4 bytes in 16-bit training; undefined: the parameters' own type. */
  readonly gradientAccumulationType: "fp32" | undefined;
  readonly optimizer: OptimizerConfig;
  /** Undefined: the learning rate is constant. */
  readonly schedule: ScheduleConfig | undefined;
  readonly sizes: SizesConfig;
  readonly overlapComm: boolean;
  readonly activationCheckpointing: boolean;
  readonly stepsPerPrint: number;
  readonly sources: ReadonlyMap<string, ValueSource>;
}
