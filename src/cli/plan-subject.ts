/** From flags to what a plan is about: a model, a machine and a configuration, for either engine. */
import { parseConfigObject } from "../config/json.ts";
import { examineConfig, type Override } from "../config/resolve.ts";
import type { ElementType, OptimizerConfig, ResolvedConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import type { Placement } from "../plan/placement.ts";
import { stageRows } from "../plan/residence.ts";
import type { AskedPlacement } from "../planner/answer.ts";
import { deepSpeedPlacements, estimateDeepSpeed } from "../planner/deepspeed.ts";
import { type EngineJob, estimateByEngine } from "../planner/engine-estimate.ts";
import { type BatchSplit, placedSettings, plainSettings } from "../planner/settings.ts";
import { timeStep } from "../planner/step-time.ts";
import type { PlanSubject, Variant } from "../planner/subject.ts";
import { type ConfigFileSettings, readConfigSettings } from "./config-settings.ts";
import { describeForConfig } from "./job.ts";
import { type MachineFlags, type PlannedMachine, plannedMachine } from "./planned-machine.ts";
import { modelOfSize, type PlannedModel, plannedModel } from "./planned-model.ts";

export type EngineName = "shunya" | "deepspeed";

export interface PlanFlags extends MachineFlags {
  readonly params?: number;
  readonly model?: string;
  readonly ranks: number;
  readonly batch?: number;
  readonly microBatch?: number;
  readonly seqLength?: number;
  readonly config?: string;
  readonly set?: readonly Override[];
  readonly checkpointing?: true;
  readonly optimizer?: OptimizerConfig["type"];
  readonly precision?: ElementType;
  readonly engine: EngineName;
}

/** A subject and what was found on the way to it. */
export interface PlannedJob {
  readonly subject: PlanSubject;
  readonly asked: AskedPlacement;
  readonly model: PlannedModel;
  readonly machine: PlannedMachine;
  /** The configuration without a file's placement and batch: of everything else. */
  readonly like: Pick<ResolvedConfig, "precision" | "optimizer" | "gradientAccumulationType" | "overlapComm" | "sizes">;
  /** What `--write-config` writes, but for placement and batch. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** What each "auto" of the file became. */
  readonly autos: ReadonlyMap<string, unknown>;
  readonly warnings: readonly string[];
  /** The engine's job with something changed. @throws UsageError for a model that this engine does not have */
  readonly jobOf: (variant: Variant) => EngineJob;
}

/** Where neither a file nor a flag says: how long GPTs of that size are trained. */
const usualSeqLength = 1024;

/** @throws UsageError, ModelError, ConfigError */
export function planJob(flags: PlanFlags): PlannedJob {
  const model = plannedModel(flags);
  const machine = plannedMachine(flags);
  machine.machineOf?.(flags.ranks); // says at once what cannot be
  const file = flags.config === undefined ? undefined : configFile(flags.config, flags, model);
  checkAgainstFile(flags, file);
  const settings = file?.settings ?? plainSettings(plainJob(flags, machine));
  const asked: Variant = {
    ranks: flags.ranks,
    seqLength:
      flags.seqLength ??
      Math.min(model.shape.positions, flags.params === undefined ? model.shape.positions : usualSeqLength),
    checkpointing: flags.checkpointing === true || file?.config.activationCheckpointing === true,
  };
  checkSeqLength(asked.seqLength, model);
  const jobOf = engineJobs(model, machine, settings, flags);
  const like = file?.config ?? configOf(settings, plain, { microBatch: 1, gradientAccumulation: 1 }, asked, undefined)!;
  const common = {
    asked,
    trainBatch: flags.batch ?? file?.config.trainBatch,
    microBatch: flags.microBatch ?? file?.config.microBatch,
    roomOf: ({ ranks }: Variant) => machine.roomOf(ranks),
  };
  const subject: PlanSubject =
    flags.engine === "shunya"
      ? { ...common, ...byEngine(jobOf, machine) }
      : { ...common, ...byDeepSpeed(model, machine, like, settings), timeOf: undefined };
  return {
    subject,
    asked: askedPlacement(file),
    model,
    machine,
    like,
    settings,
    autos: new Map(file?.config.autos.map(({ path, value }) => [path, value])),
    warnings: file?.config.warnings ?? [],
    jobOf,
  };
}

const plain: Placement = { stage: 0, offloadOptimizer: "none", offloadParam: "none" };

function configFile(path: string, flags: PlanFlags, { gpt2, shape }: PlannedModel): ConfigFileSettings {
  const { set = [], microBatch, batch, ranks } = flags;
  const overrides: Override[] = [
    ...set,
    ...(batch === undefined ? [] : [["train_batch_size", batch] as const]),
    ...(microBatch === undefined ? [] : [["train_micro_batch_size_per_gpu", microBatch] as const]),
  ];
  const known = gpt2
    ? describeForConfig(gpt2, gpt2)
    : { name: shape.name, hiddenSize: shape.hidden, parameterElements: shape.parameters };
  return readConfigSettings(path, overrides, { worldSize: ranks, model: known });
}

function checkAgainstFile({ optimizer, precision }: PlanFlags, file: ConfigFileSettings | undefined): void {
  if (!file) return;
  if (optimizer !== undefined) throw new UsageError(`--optimizer and --config: ${file.fileName} says which; use --set`);
  if (precision !== undefined) throw new UsageError(`--precision and --config: ${file.fileName} says which; use --set`);
}

function checkSeqLength(seqLength: number, { shape, statedParameters }: PlannedModel): void {
  if (statedParameters === undefined && seqLength > shape.positions)
    throw new UsageError(
      `--seq-length ${seqLength} is longer than the ${shape.positions} positions of ${shape.name}; give at most that`,
    );
}

const plainJob = (flags: PlanFlags, machine: PlannedMachine) => ({
  precision: flags.precision ?? (machine.hasBf16 ? ("bf16" as const) : ("fp16" as const)),
  optimizer: flags.optimizer ?? ("AdamW" as const),
  checkpointing: flags.checkpointing === true,
});

function askedPlacement(file: ConfigFileSettings | undefined): AskedPlacement {
  if (!file) return { stage: undefined, offloadOptimizer: "none", offloadParam: "none" };
  const { stage, offloadOptimizer, offloadParam } = file.config;
  return { stage, offloadOptimizer, offloadParam };
}

/** Undefined where the settings and the placement do not go together. */
function configOf(
  settings: PlannedJob["settings"],
  placement: Placement,
  batch: BatchSplit,
  { ranks, checkpointing }: Variant,
  model: PlannedModel["gpt2"],
): ResolvedConfig | undefined {
  const placed = placedSettings(settings, placement, batch, ranks);
  const { config } = examineConfig({
    file: parseConfigObject(placed),
    worldSize: ranks,
    model: model && describeForConfig(model, model),
    stepsOf: () => undefined,
  });
  return config && { ...config, activationCheckpointing: checkpointing };
}

function engineJobs(
  model: PlannedModel,
  machine: PlannedMachine,
  settings: PlannedJob["settings"],
  flags: PlanFlags,
): PlannedJob["jobOf"] {
  return (variant) => {
    const { gpt2, statedParameters, shape } =
      variant.parameters === undefined ? model : modelOfSize(variant.parameters);
    if (!gpt2)
      throw new UsageError(
        `${shape.name}: this version's engine trains GPT-2 only; plan it with --engine deepspeed, or as a GPT of its ` +
          `size: --params ${shape.parameters}`,
      );
    const positions = Math.max(gpt2.positions, variant.seqLength);
    return {
      model: { ...gpt2, positions: statedParameters === undefined ? gpt2.positions : positions },
      statedParameters,
      seqLength: variant.seqLength,
      threads: machine.threadsOf(flags.ranks),
      configOf: (placement, batch) => configOf(settings, placement, batch, variant, gpt2),
    };
  };
}

function byEngine(
  jobOf: PlannedJob["jobOf"],
  { machineOf }: PlannedMachine,
): Pick<PlanSubject, "estimateOf" | "timeOf"> {
  return {
    estimateOf: (variant) => {
      const job = jobOf(variant);
      return (placement, batch) => estimateByEngine(job, placement, batch);
    },
    timeOf:
      machineOf &&
      ((variant, placement, batch, sink) =>
        timeStep(jobOf(variant), placement, batch, {
          machine: machineOf(variant.ranks),
          ranks: variant.ranks,
          ...(sink && { sink }),
        })),
  };
}

/** DeepSpeed's own values where a key is left out (1.5 of its documentation's defaults, in elements). */
const deepSpeedDefaults = {
  reduceElements: 5e8,
  allgatherElements: 5e8,
  prefetchElements: 5e7,
  liveElements: 1e9,
  persistenceElements: 1e5,
  subGroupElements: 1e9,
};

function byDeepSpeed(
  model: PlannedModel,
  machine: PlannedMachine,
  like: PlannedJob["like"],
  settings: PlannedJob["settings"],
): Pick<PlanSubject, "estimateOf"> {
  const { sizes, precision, optimizer, gradientAccumulationType } = like;
  const isHalf = precision !== "fp32";
  const buckets = {
    reduceElements: sizes.reduceBucketSize ?? deepSpeedDefaults.reduceElements,
    allgatherElements: sizes.allgatherBucketSize ?? deepSpeedDefaults.allgatherElements,
    prefetchElements: sizes.prefetchBucketSize ?? deepSpeedDefaults.prefetchElements,
    liveElements: sizes.maxLiveParameters ?? deepSpeedDefaults.liveElements,
    persistenceElements: sizes.paramPersistenceThreshold ?? deepSpeedDefaults.persistenceElements,
    subGroupElements: sizes.subGroupSize ?? deepSpeedDefaults.subGroupElements,
  };
  // Where every rank updates everything, DeepSpeed adds gradients in the parameters' own type only.
  const mixesTypes = gradientAccumulationType !== precision;
  const hasRow = ({ stage }: Placement) => !mixesTypes || stageRows[stage].optimizer === "shard";
  const places = new Set(deepSpeedPlacements().filter(hasRow).map(placeName));
  return {
    estimateOf: (variant) => async (placement, batch) => {
      const { ranks, seqLength, checkpointing, parameters } = variant;
      const goesTogether = configOf(settings, placement, batch, variant, undefined) !== undefined;
      if (!places.has(placeName(placement)) || !goesTogether) return undefined;
      return estimateDeepSpeed({
        shape: parameters === undefined ? model.shape : modelOfSize(parameters).shape,
        placement,
        ranks,
        ranksPerNode: machine.machineOf?.(ranks).ranksPerNode ?? ranks,
        ...batch,
        seqLength,
        precision,
        optimizerBytes: 4 * createOptimizer(optimizer).states.length + (isHalf ? 4 : 0),
        masterBytes: 4,
        gradientAccumulationBytes: gradientAccumulationType === "fp32" ? 4 : 2,
        checkpointing,
        flashAttention: true,
        fusedLoss: false,
        buckets,
        overlapComm: placement.stage === 3 || like.overlapComm,
        pinMemory: true,
        offloadRatio: 1,
        zeroInit: true,
      });
    },
  };
}

const placeName = ({ stage, offloadOptimizer, offloadParam }: Placement): string =>
  `${stage} ${offloadOptimizer} ${offloadParam}`;
