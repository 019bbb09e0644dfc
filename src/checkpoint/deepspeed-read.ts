/** A DeepSpeed checkpoint as a run's states: every tensor's, whatever stage and number of ranks it is from, and where the run was. */
import { join } from "node:path";
import { CheckpointError } from "../errors/errors.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { LossScaler } from "../zero/loss-scale.ts";
import type { EngineProgress } from "../zero/progress.ts";
import type { StateKind } from "../zero/state.ts";
import { type DeepSpeedFiles, openDeepSpeed } from "./deepspeed-files.ts";
import {
  checkAlike,
  type ForeignTensor,
  frozenTensors,
  type Part,
  partitionFormats,
  rankStates,
  stateNames,
} from "./deepspeed-layout.ts";
import { countOf, type Fields, fieldsOf, listOf, plainOf, tensorOf, textOf } from "./deepspeed-values.ts";
import { describeValue } from "./pickle-values.ts";
import { TorchTensor } from "./torch-globals.ts";

export interface ForeignCheckpoint extends AsyncDisposable {
  readonly folder: string;
  readonly tensors: ReadonlyMap<string, ForeignTensor>;
  /** Of trainable tensors. */
  readonly kinds: readonly StateKind[];
  /** Of parameters in training, as safetensors names it. */
  readonly dtype: string;
  readonly progress: EngineProgress;
  readonly samples: number;
  readonly worldSize: number;
  readonly stage: number;
  readonly version: string;
  /** The configuration file, as JSON. */
  readonly config: unknown;
}

/** @throws CheckpointError, ModelError */
export async function readDeepSpeed(path: string): Promise<ForeignCheckpoint> {
  const files = await openDeepSpeed(path);
  try {
    return { ...(await read(files)), [Symbol.asyncDispose]: () => files[Symbol.asyncDispose]() };
  } catch (error) {
    await files[Symbol.asyncDispose]();
    throw error;
  }
}

async function read(files: DeepSpeedFiles): Promise<Omit<ForeignCheckpoint, typeof Symbol.asyncDispose>> {
  const [model] = files.models;
  const where = model!.path;
  const fields = fieldsOf(model!.value, where);
  const modelParallel = fields.get("mp_world_size") ?? 1;
  if (modelParallel !== 1)
    throw new CheckpointError(
      `${where}: mp_world_size: found ${describeValue(modelParallel)}; wanted 1: tensors are divided`,
    );
  const found = files.universal.length > 0 ? await readUniversal(files, fields) : readPartitions(files, fields);
  const attempted = countOf(fields.get("global_steps"), `${where}: global_steps`);
  const updates = attempted - countOf(fields.get("skipped_steps") ?? 0, `${where}: skipped_steps`);
  if (found.updates !== undefined && found.updates !== updates)
    throw new CheckpointError(
      `${files.folder}: its optimizer made ${found.updates} updates, and ${updates} of ${attempted} steps were not skipped: do the files belong together?`,
    );
  const [first] = found.tensors.values();
  if (first === undefined) throw new CheckpointError(`${where}: param_shapes has no tensors`);
  return {
    folder: files.folder,
    tensors: found.tensors,
    kinds: found.kinds,
    dtype: dtypeOf(fields, where),
    progress: { attempted, updates, consecutiveSkips: 0, lossScale: lossScaleOf(found.optimizer, files.folder) },
    samples: countOf(fields.get("global_samples") ?? 0, `${where}: global_samples`),
    worldSize: found.worldSize,
    stage: found.stage,
    version: textOf(fields.get("ds_version") ?? "?", where),
    config: plainOf(fields.get("ds_config") ?? found.config),
  };
}

interface Found {
  readonly tensors: Map<string, ForeignTensor>;
  readonly kinds: readonly StateKind[];
  readonly stage: number;
  readonly worldSize: number;
  readonly updates: number | undefined;
  /** What rank 0's optimizer says of itself. */
  readonly optimizer: Fields;
  readonly config: unknown;
}

function readPartitions({ folder, models, optimizers }: DeepSpeedFiles, fields: Fields): Found {
  const [first] = optimizers;
  const saved = fieldsOf(first!.value, first!.path);
  const optimizer = fieldsOf(saved.get("optimizer_state_dict"), first!.path);
  const stage = countOf(optimizer.get("zero_stage"), `${first!.path}: zero_stage`);
  const format = partitionFormats.get(stage);
  if (format === undefined) throw new CheckpointError(`${first!.path}: zero_stage: found ${stage}; wanted 1, 2 or 3`);
  checkCount(folder, optimizer.get("partition_count"), optimizers.length);
  if (format.hasModelOfEachRank && models.length !== optimizers.length)
    throw new CheckpointError(
      `${folder} has ${models.length} *_model_states.pt and ${optimizers.length} *_optim_states.pt; at stage ${stage} every rank writes both`,
    );
  const ranks = optimizers.map((archive) => rankStates(archive, format));
  checkAlike(ranks, folder);
  const [model] = models;
  const where = `${model!.path}: param_shapes`;
  const shapes = listOf(fields.get("param_shapes"), where).map((group) => fieldsOf(group, where));
  const tensors = format.layout(shapes, ranks, model!);
  for (const [name, tensor] of frozenTensors(models)) tensors.set(name, tensor);
  return {
    tensors,
    kinds: [...ranks[0]!.kinds.keys()],
    stage,
    worldSize: optimizers.length,
    updates: ranks[0]!.updates,
    optimizer,
    config: saved.get("ds_config"),
  };
}

/** One number, or one a parameter group. */
function checkCount(folder: string, partitions: unknown, files: number): void {
  const where = `${folder}: partition_count`;
  const counts = Array.isArray(partitions) ? partitions.map((n) => countOf(n, where)) : [countOf(partitions, where)];
  const wanted = counts.reduce((most, count) => Math.max(most, count), 0);
  if (files !== wanted)
    throw new CheckpointError(
      `${folder} has ${files} *_optim_states.pt of ${wanted} ranks: files of the others are missing, or of another save`,
    );
}

/** One file for each state of each tensor, as ds_to_universal writes them. */
async function readUniversal({ folder, universal, open }: DeepSpeedFiles, fields: Fields): Promise<Found> {
  const shared = fieldsOf(fields.get("shared_params") ?? new Map(), `${folder}: shared_params`);
  const tensors = new Map<string, ForeignTensor>();
  for (const name of universal) {
    if (name.endsWith(".pt") || shared.has(name)) continue;
    const states = new Map<StateKind, Part[]>();
    for (const [state, kind] of Object.entries({ fp32: "master" as const, ...stateNames })) {
      const archive = await open(join(folder, "zero", name, `${state}.pt`)).catch(missing);
      if (archive === undefined) continue;
      const { value, path } = archive;
      const tensor = tensorOf(value instanceof TorchTensor ? value : fieldsOf(value, path).get("param"), path);
      states.set(kind, [{ archive, tensor, first: 0, count: tensor.elements }]);
    }
    const [master] = states.get("master") ?? [];
    if (master === undefined) throw new CheckpointError(`${join(folder, "zero", name)} has no fp32.pt`);
    const { shape } = master.tensor;
    for (const [kind, [part]] of states)
      if (part!.count !== elementsOf(shape))
        throw new CheckpointError(
          `${part!.archive.path}: found ${part!.count} elements of ${kind}; wanted ${elementsOf(shape)}`,
        );
    tensors.set(name, { shape, trainable: states.size > 1, states });
  }
  const kinds = [...new Set([...tensors.values()].flatMap(({ states }) => [...states.keys()]))];
  for (const [name, { trainable, states }] of tensors)
    if (trainable && states.size !== kinds.length)
      throw new CheckpointError(
        `${join(folder, "zero", name)} has ${[...states.keys()].join(", ")}; wanted ${kinds.join(", ")}`,
      );
  const optimizer = await open(join(folder, "zero", "optimizer_state.pt"));
  const saved = fieldsOf(optimizer.value, optimizer.path);
  return {
    tensors,
    kinds,
    stage: countOf(saved.get("zero_stage") ?? 0, `${optimizer.path}: zero_stage`),
    worldSize: countOf(fields.get("dp_world_size") ?? 1, `${folder}: dp_world_size`),
    updates: undefined,
    optimizer: saved,
    config: undefined,
  };
}

function missing(error: Error): undefined {
  if ((error.cause as NodeJS.ErrnoException | undefined)?.code !== "ENOENT") throw error;
}

/** The element type of the first float parameter of the module. */
function dtypeOf(fields: Fields, where: string): string {
  const tensors = [...fieldsOf(fields.get("module"), `${where}: module`).values()];
  const types = tensors.flatMap((tensor) => (tensor instanceof TorchTensor ? [tensor.storage.type] : []));
  return types.find((type) => ["F32", "F16", "BF16"].includes(type)) ?? "F32";
}

/** DeepSpeed's DynamicLossScaler counts as ours does; its LossScaler has the scale alone. */
function lossScaleOf(optimizer: Fields, folder: string): EngineProgress["lossScale"] {
  const unscaled = new LossScaler().state;
  if (optimizer.get("loss_scaler") === undefined) return unscaled;
  const scaler = fieldsOf(optimizer.get("loss_scaler"), `${folder}: loss_scaler`);
  const number = (key: string, leftOut: number): number => {
    const value = scaler.get(key) ?? leftOut;
    if (typeof value === "number") return value;
    throw new CheckpointError(`${folder}: loss_scaler.${key}: found ${describeValue(value)}; wanted a number`);
  };
  return {
    scale: number("cur_scale", unscaled.scale),
    hysteresisLeft: number("cur_hysteresis", unscaled.hysteresisLeft),
    seen: number("cur_iter", unscaled.seen),
    lastOverflow: number("last_overflow_iter", unscaled.lastOverflow),
  };
}
