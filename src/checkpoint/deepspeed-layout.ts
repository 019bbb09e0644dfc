/**
 * Where DeepSpeed (0.19) keeps the elements of each tensor's states. At stages 1 and 2 a parameter group is one flat buffer, its tensors
 * one after the other and padding at its end, cut into equal partitions, one a rank. At stage 3 each tensor is cut into
 * ceil(elements / ranks) a rank, padding at the end of the last, and a rank's shards lie one after the other in its sub-groups.
 */
import { CheckpointError } from "../errors/errors.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { StateKind } from "../zero/state.ts";
import { countOf, type Fields, fieldsOf, listOf, shapeOf, tensorOf, textOf } from "./deepspeed-values.ts";
import type { TorchArchive } from "./torch-archive.ts";
import type { TorchTensor } from "./torch-globals.ts";

/** Elements [first, first + count) of a tensor in a file. */
export interface Part {
  readonly archive: TorchArchive;
  readonly tensor: TorchTensor;
  readonly first: number;
  readonly count: number;
}

export interface ForeignTensor {
  readonly shape: readonly number[];
  readonly trainable: boolean;
  /** Of each kind the parts that make up its elements, in order. */
  readonly states: ReadonlyMap<StateKind, readonly Part[]>;
}

/** DeepSpeed's names of per-element states, PyTorch's own. */
export const stateNames: Readonly<Record<string, StateKind>> = {
  exp_avg: "firstMoment",
  exp_avg_sq: "secondMoment",
  momentum_buffer: "firstMoment",
};

/** The flat buffers of one kind on one rank, one a group or sub-group. */
type Flats = readonly Part[];

export interface RankStates {
  /** Elements between tensors of each group, where they are padded one by one. */
  readonly paddings: readonly (readonly number[])[];
  readonly kinds: ReadonlyMap<StateKind, Flats>;
  /** Updates that the optimizer counted. Undefined: it does not say. */
  readonly updates: number | undefined;
}

/** @throws CheckpointError where an optimizer has states that there are none of here, or has them elsewhere */
export function rankStates(archive: TorchArchive, { mastersKey, statesKey }: PartitionFormat): RankStates {
  const where = `${archive.path}: optimizer_state_dict`;
  const saved = fieldsOf(fieldsOf(archive.value, archive.path).get("optimizer_state_dict"), where);
  const whole = (value: unknown, key: string): Part => {
    const tensor = tensorOf(value, `${where}.${key}`);
    return { archive, tensor, first: 0, count: tensor.elements };
  };
  const masters = listOf(saved.get(mastersKey), `${where}.${mastersKey}`).map((flat) => whole(flat, mastersKey));
  const kinds = new Map<StateKind, Part[]>([["master", masters]]);
  let updates: number | undefined;
  const groups = statesByGroup(saved, statesKey, where);
  if (groups.length !== masters.length)
    throw new CheckpointError(`${where}: found states of ${groups.length} groups; wanted ${masters.length}`);
  for (const [group, states] of groups.entries()) {
    for (const [name, value] of states) {
      const key = `state ${textOf(name, where)} of group ${group}`;
      if (name === "step") {
        if (typeof value === "number") updates = countOf(value, `${where}, ${key}`);
        continue;
      }
      const kind = Object.hasOwn(stateNames, name as string) ? stateNames[name as string]! : undefined;
      if (kind === undefined) throw new CheckpointError(`${where}: ${key} is none that an optimizer has here`);
      const flats = kinds.get(kind) ?? [];
      kinds.set(kind, flats);
      const flat = whole(value, key);
      if (flat.count < masters[group]!.count)
        throw new CheckpointError(`${where}: ${key} has ${flat.count} elements; wanted ${masters[group]!.count}`);
      flats.push(flat);
    }
  }
  for (const [kind, flats] of kinds)
    if (flats.length !== masters.length)
      throw new CheckpointError(
        `${where}: found ${flats.length} of ${masters.length} buffers of ${kind}; are they on NVMe, or was no step made yet?`,
      );
  return { kinds, updates, paddings: alignmentPaddings(saved, where) };
}

/** @throws CheckpointError where a rank has other kinds of state than rank 0, or another number of buffers */
export function checkAlike(ranks: readonly RankStates[], folder: string): void {
  const shapeOfRank = ({ kinds }: RankStates): string =>
    [...kinds].map(([kind, flats]) => `${flats.length} x ${kind}`).join(", ");
  const wanted = shapeOfRank(ranks[0]!);
  const other = ranks.findIndex((rank) => shapeOfRank(rank) !== wanted);
  if (other !== -1)
    throw new CheckpointError(
      `${folder}: rank ${other} has ${shapeOfRank(ranks[other]!)} and rank 0 ${wanted}: do the files belong together?`,
    );
}

/** The optimizer's states of each group or sub-group. */
function statesByGroup(saved: Fields, statesKey: string, where: string): Fields[] {
  const base = saved.get(statesKey);
  // As `checkpoint: elastic` writes them.
  if (Array.isArray(base)) return base.map((states) => fieldsOf(states, where));
  const fields = fieldsOf(base, where);
  const byIndex = fieldsOf(fields.get("state"), `${where}, state`);
  // One flat buffer a group, and at stage 3 one a sub-group.
  return listOf(fields.get("param_groups"), `${where}, param_groups`).flatMap((group) =>
    listOf(fieldsOf(group, where).get("params"), `${where}, params`).map((index) =>
      fieldsOf(byIndex.get(index) ?? new Map(), `${where}, state`),
    ),
  );
}

/** Elements [first, first + count) of what stands one after the other in `flats`. */
function cut(flats: Flats, first: number, count: number, words: () => string): Part[] {
  const parts: Part[] = [];
  let start = 0;
  let wanted = count;
  for (const flat of flats) {
    const from = Math.max(first + count - wanted - start, 0);
    const length = Math.min(flat.count - from, wanted);
    if (length > 0) {
      parts.push({ ...flat, first: from, count: length });
      wanted -= length;
    }
    start += flat.count;
  }
  if (wanted > 0) throw new CheckpointError(`${words()}: found ${count - wanted} of ${count} elements`);
  return parts;
}

type Layout = (
  shapes: readonly Fields[],
  ranks: readonly RankStates[],
  model: TorchArchive,
) => Map<string, ForeignTensor>;

/** Stages 1 and 2. */
const partitionedGroups: Layout = (shapes, ranks, model) => {
  const groups = ranks[0]!.kinds.get("master")!.length;
  if (shapes.length !== groups)
    throw new CheckpointError(`${model.path}: param_shapes: found ${shapes.length} groups; wanted ${groups}`);
  const tensors = new Map<string, ForeignTensor>();
  const { paddings } = ranks[0]!;
  for (const [group, named] of shapes.entries()) {
    const flatsOf = (kind: StateKind): Flats => ranks.map(({ kinds }) => kinds.get(kind)![group]!);
    let offset = 0;
    for (const [i, [name, shape]] of [...named].entries()) {
      const tensor = textOf(name, model.path);
      const sizes = shapeOf(shape, `${model.path}: param_shapes, ${tensor}`);
      const elements = elementsOf(sizes);
      const words = () => `the partitions of group ${group}, tensor ${tensor}`;
      const states = [...ranks[0]!.kinds.keys()].map(
        (kind) => [kind, cut(flatsOf(kind), offset, elements, words)] as const,
      );
      tensors.set(tensor, { shape: sizes, trainable: true, states: new Map(states) });
      offset += elements + (paddings[group]?.[i] ?? 0);
    }
    const held = flatsOf("master").reduce((sum, flat) => sum + flat.count, 0);
    // The end is padded to a multiple of two a rank.
    if (held - offset >= 2 * ranks.length)
      throw new CheckpointError(
        `${model.path}: the partitions of group ${group} hold ${held} elements, its tensors only ${offset}: do the files belong together?`,
      );
  }
  return tensors;
};

function alignmentPaddings(saved: Fields, where: string): number[][] {
  const key = `${where}.param_alignment_paddings`;
  const groups = listOf(saved.get("param_alignment_paddings") ?? [], key);
  return groups.map((group) => listOf(group, key).map((count) => countOf(count, key)));
}

/** Stage 3. */
const partitionedTensors: Layout = (shapes, ranks, model) => {
  const tensors = new Map<string, ForeignTensor>();
  let offset = 0;
  for (const [name, shape] of shapes.flatMap((named) => [...named])) {
    const tensor = textOf(name, model.path);
    const sizes = shapeOf(shape, `${model.path}: param_shapes, ${tensor}`);
    const elements = elementsOf(sizes);
    const shard = Math.ceil(elements / ranks.length);
    const words = () => `the shards of tensor ${tensor}`;
    const partsOf = (kind: StateKind): Part[] =>
      ranks.flatMap(({ kinds }, r) => {
        const count = Math.min(shard, Math.max(0, elements - r * shard));
        return cut(kinds.get(kind)!, offset, count, words);
      });
    const states = [...ranks[0]!.kinds.keys()].map((kind) => [kind, partsOf(kind)] as const);
    tensors.set(tensor, { shape: sizes, trainable: true, states: new Map(states) });
    offset += shard;
  }
  const held = ranks[0]!.kinds.get("master")!.reduce((sum, flat) => sum + flat.count, 0);
  if (held !== offset)
    throw new CheckpointError(
      `${model.path}: a rank's sub-groups hold ${held} elements, its shards of the tensors ${offset}: do the files belong together?`,
    );
  return tensors;
};

/** How DeepSpeed writes the ranks' parts: whole parameters beside partitioned states, or all of it partitioned. */
export interface PartitionFormat {
  readonly mastersKey: string;
  readonly statesKey: string;
  /** Every rank writes a file of the model, and not rank 0 alone. */
  readonly hasModelOfEachRank: boolean;
  readonly layout: Layout;
}

const besideWholeParameters: PartitionFormat = {
  mastersKey: "single_partition_of_fp32_groups",
  statesKey: "base_optimizer_state",
  hasModelOfEachRank: false,
  layout: partitionedGroups,
};

/** By what `zero_stage` says; stage 0 has no such files. */
export const partitionFormats: ReadonlyMap<number, PartitionFormat> = new Map([
  [1, besideWholeParameters],
  [2, besideWholeParameters],
  [
    3,
    {
      mastersKey: "fp32_flat_groups",
      statesKey: "optimizer_state_dict",
      hasModelOfEachRank: true,
      layout: partitionedTensors,
    },
  ],
]);

/** Tensors that were not trained: whole in rank 0's file, or (stage 3) cut as the others are. */
export function frozenTensors(models: readonly TorchArchive[]): Map<string, ForeignTensor> {
  const fields = models.map((model) => fieldsOf(model.value, model.path));
  const tensors = new Map<string, ForeignTensor>();
  const shapes = fields[0]!.get("frozen_param_shapes") ?? new Map();
  for (const [name, shape] of fieldsOf(shapes, `${models[0]!.path}: frozen_param_shapes`)) {
    const tensor = textOf(name, models[0]!.path);
    const sizes = shapeOf(shape, `${models[0]!.path}: frozen_param_shapes, ${tensor}`);
    const fragments = models.map((archive, r): Part => {
      const where = `${archive.path}: frozen_param_fragments`;
      const fragment = tensorOf(
        fieldsOf(fields[r]!.get("frozen_param_fragments"), where).get(name),
        `${where}, ${tensor}`,
      );
      return { archive, tensor: fragment, first: 0, count: fragment.elements };
    });
    const parts = cut(fragments, 0, elementsOf(sizes), () => `the fragments of tensor ${tensor}`);
    tensors.set(tensor, { shape: sizes, trainable: false, states: new Map([["master", parts]]) });
  }
  return tensors;
}
