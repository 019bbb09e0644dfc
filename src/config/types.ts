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
  readonly sizes: SizesConfig;
  readonly overlapComm: boolean;
  readonly activationCheckpointing: boolean;
  readonly stepsPerPrint: number;
  readonly sources: ReadonlyMap<string, ValueSource>;
}
