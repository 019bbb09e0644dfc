/** From a configuration and what is said of the model and the machine to what is explained. */
import type { ConfigResolution, Override } from "../config/resolve.ts";
import { Device } from "../device/device.ts";
import { SimulatedBackend } from "../device/simulated.ts";
import { UsageError } from "../errors/errors.ts";
import { describeModel } from "../nn/describe.ts";
import { createModel, type ModelConfig } from "../nn/models/models.ts";
import { tuned } from "../nn/tuning.ts";
import type { Placement } from "../plan/placement.ts";
import { createPlan, type Plan } from "../plan/plan.ts";
import { placementOf, type Subject } from "../planner/explained.ts";
import { shortagesOf } from "../planner/fit.ts";
import { leanerPlacement } from "../planner/leaner.ts";
import { planOfPsi } from "../planner/psi-model.ts";
import { smallestChange } from "../planner/smallest-change.ts";
import type { Leaner, Misfit } from "../report/explain-advice.ts";
import type { ConfigQuestion } from "./config.ts";
import { estimateForDeepSpeed } from "./deepspeed-job.ts";
import { forecastShape } from "./foretell.ts";
import { meaningOf } from "./model-flags.ts";
import type { PlannedMachine } from "./planned-machine.ts";
import { type PlannedModel, plannedModel } from "./planned-model.ts";

export interface ExplainQuestion {
  readonly file: string;
  readonly overrides: readonly Override[];
  readonly ranks: number;
  /** A published name, a folder or a config.json. */
  readonly model: string | undefined;
  /** In place of a model. */
  readonly parameters: number | undefined;
  /** Undefined: the model's positions, or what is usual for a size. */
  readonly seqLength: number | undefined;
  /** Undefined: whether the job is placed well is not judged. */
  readonly machine: PlannedMachine | undefined;
}

export interface ExplainedModel extends PlannedModel {
  /** As the reader of configurations is to know it. */
  readonly forConfig: Pick<ConfigQuestion, "model" | "described">;
}

/** @throws ModelError, UsageError */
export function modelOf({
  model,
  parameters,
}: Pick<ExplainQuestion, "model" | "parameters">): ExplainedModel | undefined {
  if (model === undefined && parameters === undefined) return undefined;
  const planned = plannedModel({ params: parameters, model });
  const { shape, config } = planned;
  const known = { name: shape.name, hiddenSize: shape.hidden, parameterElements: shape.parameters };
  const isOurs = model !== undefined && meaningOf(model).kind === "published";
  return {
    ...planned,
    forConfig: config ? { model: isOurs ? model : config } : { model: undefined, described: known },
  };
}

/** Where neither a file nor a flag says: how long GPTs of that size are trained. */
const usualSeqLength = 1024;

export async function examine(
  question: ExplainQuestion,
  config: ConfigResolution,
  model: ExplainedModel | undefined,
): Promise<{ readonly subject: Subject; readonly leaner: Leaner | undefined; readonly misfit: Misfit | undefined }> {
  const { file, machine, ranks } = question;
  const seqLength = seqLengthOf(question, model);
  const isMeant = model?.config !== undefined && model.statedParameters === undefined;
  const laidOut = model?.config && planOf(model.config, config);
  const plan = isMeant
    ? laidOut!
    : planOfPsi(config, model?.statedParameters ?? model?.shape.parameters, alignmentBytes());
  const { microBatch, gradientAccumulation, activationCheckpointing } = config;
  const asked = { microBatch, gradientAccumulation };
  // What DeepSpeed takes then is the script's doing, which freezes parameters and adds adapters.
  const isTuned = config.lora !== undefined || config.freeze.length > 0;
  const deepSpeedOf = (placement: Placement, batch = asked, checkpointing = activationCheckpointing) =>
    model && seqLength !== undefined && !isTuned
      ? estimateForDeepSpeed(config, placement, {
          shape: model.shape,
          ranks,
          ranksPerNode: machine?.machineOf?.(ranks).ranksPerNode ?? ranks,
          ...batch,
          seqLength,
          checkpointing,
        })
      : undefined;
  const subject: Subject = {
    file,
    config,
    plan,
    known: isMeant ? "model" : model ? "parameters" : "nothing",
    modelName: model?.shape.name,
    sizes: laidOut?.sizes,
    seqLength,
    forecast:
      isMeant && isCountable(plan)
        ? await forecastShape(model.config!, { config: withAnyDisk(config), seqLength: seqLength!, threads: 1 })
        : undefined,
    deepSpeed: deepSpeedOf(placementOf(config)),
  };
  const room = machine?.roomOf(ranks);
  const estimate = room && leanerPlacement(placementOf(config), room, (placement) => deepSpeedOf(placement));
  const { deepSpeed } = subject;
  const isMisfit = room !== undefined && deepSpeed !== undefined && shortagesOf(deepSpeed, room).length > 0;
  const job = { placement: placementOf(config), checkpointing: activationCheckpointing, ...asked };
  return {
    subject,
    leaner: room && estimate && { estimate, room },
    misfit: isMisfit ? { estimate: deepSpeed, room, change: smallestChange(job, room, deepSpeedOf) } : undefined,
  };
}

/** @throws UsageError for a sequence that the model cannot take */
export function seqLengthOf(
  { seqLength }: Pick<ExplainQuestion, "seqLength">,
  model: PlannedModel | undefined,
): number | undefined {
  if (model === undefined) return seqLength;
  const { shape, statedParameters } = model;
  if (statedParameters !== undefined) return seqLength ?? Math.min(shape.positions, usualSeqLength);
  if (seqLength !== undefined && seqLength > shape.positions)
    throw new UsageError(
      `--seq-length ${seqLength} is longer than the ${shape.positions} positions of ${shape.name}; give at most that`,
    );
  return seqLength ?? shape.positions;
}

const planOf = (model: ModelConfig, config: ConfigResolution): Plan =>
  createPlan({
    model: describeModel(tuned(createModel(model), config)).description,
    config: withAnyDisk(config),
    alignmentBytes: alignmentBytes(),
  });

/** A forecast makes every collective and every update's piece of two steps one by one. */
const mostPieces = 1e5;

function isCountable({ parameterElements, trainableElements, worldSize, sizes }: Plan): boolean {
  const reductions = trainableElements / sizes.reduceBucket.elements;
  const gathers = parameterElements / sizes.allgatherBucket.elements;
  const updates = trainableElements / worldSize / sizes.subGroup.elements;
  return Math.max(reductions, gathers, updates) <= mostPieces;
}

/** A plan needs the name of a folder, and no folder. */
const withAnyDisk = (config: ConfigResolution): ConfigResolution => ({
  ...config,
  disk: {
    ...config.disk,
    folders: config.disk.folders.length > 0 ? config.disk.folders : ["FOLDER"],
    parameterBufferElements: undefined,
  },
});

/** Of devices as the engine has them. */
export function alignmentBytes(): number {
  using device = new Device({ backend: new SimulatedBackend(1), arenaBytes: 2 ** 52 });
  return device.alignmentBytes;
}
