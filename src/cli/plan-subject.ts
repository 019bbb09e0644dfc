/** From flags to what a plan is about: a model, a machine and a configuration, for either engine. */
import { parseConfigObject } from "../config/json.ts";
import { examineConfig, type Override } from "../config/resolve.ts";
import type { ElementType, OptimizerConfig, ResolvedConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { checkRank } from "../nn/lora.ts";
import { createModel } from "../nn/models/models.ts";
import type { Placement } from "../plan/placement.ts";
import type { AskedPlacement } from "../planner/answer.ts";
import { type EngineJob, estimateByEngine, mostTokens } from "../planner/engine-estimate.ts";
import { type BatchSplit, placedSettings, plainSettings } from "../planner/settings.ts";
import { timeStep } from "../planner/step-time.ts";
import type { PlanSubject, Variant } from "../planner/subject.ts";
import { type ConfigFileSettings, readConfigSettings } from "./config-settings.ts";
import { estimateForDeepSpeed } from "./deepspeed-job.ts";
import { describeForConfig } from "./job.ts";
import { withOverrides } from "./overrides.ts";
import { type MachineFlags, type PlannedMachine, plannedMachine } from "./planned-machine.ts";
import { modelOfSize, type PlannedModel, plannedModel } from "./planned-model.ts";
import { type TuningFlags, tuningOverrides } from "./tuning-flags.ts";

export type EngineName = "shunya" | "deepspeed";

export interface PlanFlags extends MachineFlags, TuningFlags {
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
  readonly like: Pick<
    ResolvedConfig,
    | "precision"
    | "optimizer"
    | "gradientAccumulationType"
    | "overlapComm"
    | "sizes"
    | "offloadRatio"
    | "freeze"
    | "lora"
  >;
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
  if (flags.set && flags.config === undefined)
    throw new UsageError("--set changes a value of a file; name it with --config FILE, or leave --set out");
  const file = flags.config === undefined ? undefined : configFile(flags.config, flags, model);
  checkAgainstFile(flags, file);
  const settings =
    file?.settings ??
    (withOverrides(plainSettings(plainJob(flags, machine)), tuningOverrides(flags)) as Record<string, unknown>);
  const asked: Variant = {
    ranks: flags.ranks,
    seqLength:
      flags.seqLength ??
      (flags.params === undefined ? model.shape.positions : Math.min(model.shape.positions, usualSeqLength)),
    checkpointing: flags.checkpointing === true || file?.config.activationCheckpointing === true,
  };
  checkSeqLength(asked.seqLength, model);
  checkTokens(asked.seqLength, flags.microBatch ?? file?.config.microBatch ?? 1);
  const jobOf = engineJobs(model, machine, settings, flags);
  const like = file?.config ?? configOf(settings, plain, { microBatch: 1, gradientAccumulation: 1 }, asked, undefined)!;
  if (flags.engine === "deepspeed") refuseTuning(like);
  if (like.lora && model.config) checkRank(createModel(model.config), like.lora);
  const common = {
    asked,
    parameters: model.statedParameters ?? model.shape.parameters,
    trainBatch: flags.batch ?? (file?.hasBatch ? file.config.trainBatch : ofMicroBatch(flags)),
    microBatch: flags.microBatch ?? (file?.hasBatch ? file.config.microBatch : undefined),
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

/** DeepSpeed's memory with most of a model frozen depends on the script that freezes it. @throws UsageError */
function refuseTuning({ freeze, lora }: PlannedJob["like"]): void {
  const what = lora ? "LoRA (shunya.lora, --lora-rank)" : freeze.length > 0 ? "frozen parameters (shunya.freeze)" : "";
  if (what !== "")
    throw new UsageError(
      `--engine deepspeed: the estimate does not know ${what}; leave it out, or plan with --engine shunya`,
    );
}

/** A micro-batch alone fixes a step's sequences: where it does not fit, they are divided. */
const ofMicroBatch = ({ microBatch, ranks }: PlanFlags): number | undefined =>
  microBatch === undefined ? undefined : microBatch * ranks;

const plain: Placement = { stage: 0, offloadOptimizer: "none", offloadParam: "none" };

function configFile(path: string, flags: PlanFlags, { config, shape }: PlannedModel): ConfigFileSettings {
  const { set = [], microBatch, batch, ranks } = flags;
  const overrides: Override[] = [
    ...set,
    ...tuningOverrides(flags),
    ...(batch === undefined ? [] : [["train_batch_size", batch] as const]),
    ...(microBatch === undefined ? [] : [["train_micro_batch_size_per_gpu", microBatch] as const]),
  ];
  const known = config
    ? describeForConfig(config, config)
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

function checkTokens(seqLength: number, microBatch: number): void {
  if (seqLength * microBatch > mostTokens)
    throw new UsageError(
      `micro-batches of ${microBatch} x ${seqLength} tokens: wanted at most ${mostTokens} tokens in one; ` +
        "give less with --seq-length or --micro-batch",
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
  model: PlannedModel["config"],
): ResolvedConfig | undefined {
  const placed = placedSettings(settings, placement, batch, ranks);
  const { config } = examineConfig({
    file: parseConfigObject(placed),
    worldSize: ranks,
    model: model && describeForConfig(model, model),
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
    const { config, statedParameters, shape, refusal } =
      variant.parameters === undefined ? model : modelOfSize(variant.parameters);
    if (!config)
      throw new UsageError(
        `${refusal ?? `${shape.name} is not among the models that this version trains (docs/models.md)`}; plan it with ` +
          `--engine deepspeed, or as a GPT of its size: --params ${shape.parameters}`,
      );
    const positions = statedParameters === undefined ? config.positions : Math.max(config.positions, variant.seqLength);
    return {
      model: { ...config, positions },
      statedParameters,
      seqLength: variant.seqLength,
      threads: machine.threadsOf(flags.ranks),
      configOf: (placement, batch) => configOf(settings, placement, batch, variant, config),
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

function byDeepSpeed(
  model: PlannedModel,
  machine: PlannedMachine,
  like: PlannedJob["like"],
  settings: PlannedJob["settings"],
): Pick<PlanSubject, "estimateOf"> {
  return {
    estimateOf: (variant) => async (placement, batch) => {
      const { ranks, seqLength, checkpointing, parameters } = variant;
      if (!configOf(settings, placement, batch, variant, undefined)) return undefined;
      return estimateForDeepSpeed(like, placement, {
        ...batch,
        shape: parameters === undefined ? model.shape : modelOfSize(parameters).shape,
        ranks,
        ranksPerNode: machine.roomOf(ranks).hostSharers,
        seqLength,
        checkpointing,
      });
    },
  };
}
