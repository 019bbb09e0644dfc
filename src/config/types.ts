/** The one frozen object that a configuration file, flags and defaults resolve to. Nothing later reads raw input or fills a default. */

export type ElementType = "fp32" | "bf16" | "fp16";
/** The element type of parameters, activations and produced gradients. */
export type Precision = ElementType;
export type Stage = 0 | 1 | 2 | 3;
export type OffloadDevice = "none" | "cpu" | "nvme";

interface OptimizerBase {
  readonly learningRate: number;
  readonly weightDecay: number;
}

/** Optimizers with DeepSpeed's and PyTorch's names and parameters. */
export type OptimizerConfig =
  | (OptimizerBase & {
      readonly type: "Adam" | "AdamW";
      readonly beta1: number;
      readonly beta2: number;
      readonly epsilon: number;
      readonly biasCorrection: boolean;
    })
  | (OptimizerBase & { readonly type: "Lion"; readonly beta1: number; readonly beta2: number })
  | (OptimizerBase & {
      readonly type: "SGD";
      readonly momentum: number;
      readonly dampening: number;
      readonly nesterov: boolean;
    })
  | (OptimizerBase & {
      readonly type: "Adagrad";
      readonly epsilon: number;
      readonly learningRateDecay: number;
      readonly initialAccumulator: number;
    });

/** Parameters that are updated with numbers of their own (`shunya.parameter_groups`); the first group that matches a name has it. */
export interface ParameterGroupConfig {
  /** Patterns of parameter names: `*` stands for any characters, all else for itself. */
  readonly match: readonly string[];
  /** Undefined: the optimizer's. */
  readonly learningRate: number | undefined;
  readonly weightDecay: number | undefined;
}

/** Low-rank adapters (Hu et al., 2021), with PEFT's words. */
export interface LoraConfig {
  readonly rank: number;
  readonly alpha: number;
  /** Last parts of the names of layers, or "all-linear". Undefined: PEFT's for the model. */
  readonly targets: readonly string[] | undefined;
  readonly dropout: number;
  /** alpha / sqrt(rank) in place of alpha / rank. */
  readonly rankStabilized: boolean;
}

export interface WarmupConfig {
  readonly warmupSteps: number;
  readonly warmupType: "log" | "linear";
}

/** Learning-rate schedules with DeepSpeed's names. */
export type ScheduleConfig =
  | (WarmupConfig & {
      readonly type: "WarmupLR";
      readonly minLearningRate: number;
      /** Undefined: the learning rate of the optimizer, or of the parameter group. */
      readonly maxLearningRate: number | undefined;
    })
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
    }
  | {
      readonly type: "OneCycle";
      readonly minLearningRate: number;
      readonly maxLearningRate: number;
      readonly decayRate: number;
      readonly firstStepSize: number;
      readonly secondStepSize: number;
      /** 0: no decay after the cycle. */
      readonly decayStepSize: number;
      /** Undefined: the momentum (Adam's and Lion's beta1) does not cycle. */
      readonly momentum:
        | { readonly minMomentum: number; readonly maxMomentum: number; readonly decayRate: number }
        | undefined;
    };

/** What the loss is multiplied by before the backward pass, so that small gradients do not vanish in fp16. */
export type LossScaleConfig =
  | { readonly kind: "static"; readonly scale: number }
  | {
      readonly kind: "dynamic";
      readonly initialScale: number;
      /** Updates without overflow between two doublings. */
      readonly window: number;
      /** Overflows before the scale is halved. */
      readonly hysteresis: number;
      readonly consecutiveHysteresis: boolean;
      readonly minScale: number;
    };

/** How gradients of all ranks become one. */
export interface GradientReductionConfig {
  /** Element type of gradients on their way between ranks (`communication_data_type`). Undefined: the one that they have. */
  readonly type: ElementType | undefined;
  readonly operation: "mean" | "sum";
  /** What a rank's gradients are divided by before they are sent; what is left of the mean is divided afterwards. */
  readonly divideBefore: number;
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

/** A metrics folder in a format that other tools read. */
export interface MonitorConfig {
  readonly outputPath: string;
  readonly jobName: string;
}

export interface FlopsProfilerConfig {
  /** The step whose profile is shown, from 1. */
  readonly profileStep: number;
  /** How many levels of module names are shown; -1: all. */
  readonly moduleDepth: number;
  /** How many modules are named as the most expensive. */
  readonly topModules: number;
  readonly detailed: boolean;
  /** Undefined: standard output. */
  readonly outputFile: string | undefined;
}

export interface CommsLoggerConfig {
  /** A line for each collective of a step, not only the summary. */
  readonly verbose: boolean;
}

/** What a run reports beside its progress line. Undefined: off. */
export interface ReportingConfig {
  /** Undefined: the default of the command. */
  readonly stepsPerPrint: number;
  readonly wallClockBreakdown: boolean;
  readonly memoryBreakdown: boolean;
  readonly dumpState: boolean;
  readonly commsLogger: CommsLoggerConfig | undefined;
  readonly flopsProfiler: FlopsProfilerConfig | undefined;
  readonly csvMonitor: MonitorConfig | undefined;
  readonly tensorboard: MonitorConfig | undefined;
}

/** Which host memory is page-locked; false where nothing of the kind is offloaded. */
export interface PinConfig {
  /** Optimizer states, and gradients on their way to them. */
  readonly optimizer: boolean;
  readonly parameters: boolean;
}

/** The disk tier, and how it is asked (`aio`, `nvme_path`, buffers of the offload sections). */
export interface DiskConfig {
  /** Folders, one a drive; none where nothing is offloaded to disk. */
  readonly folders: readonly string[];
  readonly blockBytes: number;
  readonly queueDepth: number;
  readonly parallelism: number;
  /** Whether what is read is compared with checksums of what was written. */
  readonly verify: boolean;
  /** Sub-groups of optimizer states that are in memory at once. */
  readonly stateBuffers: number;
  readonly pipelineRead: boolean;
  readonly pipelineWrite: boolean;
  /** Ranges of parameters that are in memory at once. */
  readonly parameterBuffers: number;
  /** Most elements of one such range; undefined: of the largest. */
  readonly parameterBufferElements: number | undefined;
  /** Elements of a rank's parameters, the first in plan order, that stay in host memory although parameters are on disk. */
  readonly parametersInHost: number;
}

/** Where a value came from, by DeepSpeed's dotted path. */
export type ValueSource = "file" | "flag" | "model" | "derived" | "default";

/** Where a value stands: its path as the user wrote it, and the line and column of its key, from 1. */
export interface Place {
  readonly written: string;
  readonly source: ValueSource;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
}

export interface ResolvedConfig {
  readonly stage: Stage;
  readonly offloadOptimizer: OffloadDevice;
  readonly offloadParam: OffloadDevice;
  /** Share of the sub-groups whose optimizer states are offloaded (Twin-Flow). */
  readonly offloadRatio: number;
  readonly pinMemory: PinConfig;
  readonly disk: DiskConfig;
  /** The first step (from 1) whose update is delayed by a step; undefined: none. */
  readonly delayedUpdateFrom: number | undefined;
  readonly precision: Precision;
  /** Undefined: the loss is not scaled. */
  readonly lossScale: LossScaleConfig | undefined;
  /** A step whose gradients are not finite is skipped; otherwise it stops the run. */
  readonly skipsOverflow: boolean;
  readonly worldSize: number;
  readonly trainBatch: number;
  readonly microBatch: number;
  readonly gradientAccumulation: number;
  /** 0: no clipping. */
  readonly gradientClipping: number;
  /** Element type in which gradients rest between micro-batches. */
  readonly gradientAccumulationType: ElementType;
  readonly gradientReduction: GradientReductionConfig;
  readonly optimizer: OptimizerConfig;
  readonly parameterGroups: readonly ParameterGroupConfig[];
  /** Patterns of names of parameters that are not trained (nn/freeze.ts). */
  readonly freeze: readonly string[];
  /** Undefined: the model's own parameters are trained. */
  readonly lora: LoraConfig | undefined;
  /** Undefined: the learning rate is constant. */
  readonly schedule: ScheduleConfig | undefined;
  readonly sizes: SizesConfig;
  readonly overlapComm: boolean;
  readonly activationCheckpointing: boolean;
  readonly reporting: ReportingConfig;
  readonly sources: ReadonlyMap<string, ValueSource>;
}
