/**
 * First values of the states a rank holds, and reading the weights back. Values are a function of (seed, tensor name, element),
 * or come from a file, so they are the same for every world and stage; a rank fills only its own ranges, in pieces. 16-bit
 * parameters are rounded from the same fp32 values as their master.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import { computeQueueOf } from "../device/queue.ts";
import { ModelError } from "../errors/errors.ts";
import type { DescribedModel } from "../nn/describe.ts";
import { type FlatLayout, type PieceRange, piecesWithin } from "../plan/layout.ts";
import type { Plan } from "../plan/plan.ts";
import { randomKey } from "../tensor/random.ts";
import { type Elements, type Range, zeroElements } from "./elements.ts";
import { type CollectivePart, type FlatState, segmentCalls } from "./flat.ts";
import { quiet } from "./phase-clock.ts";
import { heldWithin, passingPieces, pieceElements, type StateKind, type StateSource, writeRange } from "./state.ts";
import type { UnitState } from "./unit.ts";

/** Where given weights come from, by tensor name and element. */
export interface WeightSource {
  has(name: string): boolean;
  /** fp32 values of elements [first, first + count) of a tensor. */
  read(name: string, first: number, count: number): Promise<Float32Array>;
  /**
   * The model folder where a tensor's weights can be read again, as an absolute path: checkpoints then name it instead of holding what is
   * frozen. Undefined, or left out: there is none.
   */
  folderOf?(name: string): string | undefined;
}

/** Initial weights by name; the rest of a step's state is not given. */
export function weightsOnly(weights: WeightSource): StateSource {
  return {
    has: (name, kind) => kind === "master" && weights.has(name),
    read: async (name, _kind, first, into) => {
      const values = await weights.read(name, first, into.length);
      if (values.length !== into.length)
        throw new ModelError(
          `the given weights have ${values.length} values of ${name} from element ${first} on; wanted ${into.length}`,
        );
      into.set(values);
    },
    folderOf: (name) => weights.folderOf?.(name),
  };
}

/** Fills everything that `units` hold from `source`; weights that it lacks are drawn, moments and gradients start at zero. */
export async function initialiseWeights(
  device: Device,
  units: readonly UnitState[],
  model: DescribedModel,
  seed: number,
  source: StateSource | undefined,
): Promise<void> {
  const pieces = passingPieces();
  /** Fills [part.start, part.end) of all of `to`, which hold the same values, at a width of their own. */
  const fill = async (kind: StateKind, to: readonly Elements[], layout: FlatLayout, part: Range): Promise<void> => {
    let done = part.start;
    const zeroUntil = (end: number): void => {
      if (done < end) for (const target of to) zeroElements(device, target, done, end - done);
    };
    for (const range of piecesWithin(layout, part.start, part.end)) {
      // Without delayed updates before, what passes see is the master.
      const held = kind === "visible" && !source?.has(range.name, kind) ? "master" : kind;
      const isGiven = source?.has(range.name, held);
      if (!isGiven && held !== "master") continue; // of moments that nobody gives all are zero
      zeroUntil(range.offset);
      if (isGiven) await writeRange(device, to, { ...range, kind: held }, source!, pieces);
      else for (const target of to) draw(device, model, seed, target, range);
      done = range.offset + range.count;
    }
    zeroUntil(part.end);
  };
  for (const state of units.flatMap((u) => u.flats)) {
    const { layout, parameters, segments, wholeGradients } = state;
    const alike = takesMasters(state) ? parameters.buffer : undefined;
    const seen = parameters.deliver ? "visible" : "master";
    await parameters.fill(parameters, async (to) => {
      for (const part of alike ? outside(to, segments) : [to]) await fill(seen, [to], layout, part);
    });
    await parameters.fillFresh?.((to) => fill("master", [to], layout, to));
    for (const { states, gradientBuffers } of segments) {
      for (const part of states.subGroups)
        await states.fill(part, async (memory) => {
          for (const kind of states.parts) {
            const to = memory.part(kind);
            await fill(kind, alike && kind === "master" ? [to, alike] : [to], layout, part);
          }
        });
      for (const gradients of gradientBuffers) gradients.zero();
    }
    wholeGradients?.zero();
    state.ready = [device.mark(parameters.tier === "disk" ? "diskWrite" : computeQueueOf[parameters.tier])];
  }
}

/** Whether parameters get their first values as their masters do, which a source then reads once for both. */
const takesMasters = ({ parameters, segments }: FlatState): boolean =>
  parameters.buffer !== undefined &&
  !parameters.deliver &&
  segments.every(({ states }) => states.parts.includes("master"));

/** What of a range none of `others` has; they are in order. */
function outside(range: Range, others: readonly Range[]): Range[] {
  const borders = [range.start, ...others.flatMap(({ start, end }) => [start, end]), range.end];
  const gaps: Range[] = [];
  for (let i = 0; i < borders.length; i += 2)
    if (borders[i]! < borders[i + 1]!) gaps.push({ start: borders[i]!, end: borders[i + 1]! });
  return gaps;
}

function draw(device: Device, model: DescribedModel, seed: number, target: Elements, range: PieceRange): void {
  const { initialiser } = model.parameters.get(range.name)!;
  const to = { count: range.count, dtype: target.dtype, dst: target.at(range.offset) };
  const random = { ...to, key: randomKey("weights", seed, range.name), firstElement: range.first };
  switch (initialiser.kind) {
    case "constant":
      device.issue(target.queue, "fill", { ...to, value: initialiser.value });
      break;
    case "normal":
      device.issue(target.queue, "initNormal", { ...random, mean: initialiser.mean, std: initialiser.std });
      break;
    case "uniform":
      device.issue(target.queue, "initUniform", { ...random, low: initialiser.low, high: initialiser.high });
      break;
    default:
      initialiser satisfies never;
  }
}

/** Makes the whole copies of persistent sharded parameters. */
export function gatherPersistent(device: Device, group: ProcessGroup, plan: Plan, units: readonly UnitState[]): void {
  for (const unit of units) {
    const parts = unit.flats.flatMap((state): CollectivePart[] => {
      const whole = state.persistentCopy;
      return whole ? [{ state, whole, own: state.parameters.fetch(state.own, whole, state.ready) }] : [];
    });
    if (parts.length === 0) continue;
    for (const segments of segmentCalls(parts, plan.sizes.allgatherBucket.elements, group.worldSize))
      group.allGather(segments, plan.residences.parameters.dtype, `the persistent parameters of unit ${unit.name}`);
    for (const { state } of parts) state.ready = [device.mark("collective")];
  }
}

/**
 * All tensors in fp32 from the master weights (frozen ones from the parameters), one piece at a time and in plan order, on
 * every rank alike: the ranks gather each flat buffer's pieces together.
 */
export async function* readWeights(
  device: Device,
  group: ProcessGroup,
  units: readonly UnitState[],
  wants: (name: string) => boolean = () => true,
): AsyncGenerator<{ name: string; first: number; values: Float32Array }> {
  await quiet(device);
  for (const unit of units)
    for (const state of unit.flats)
      for (const piece of state.layout.pieces.filter(({ name }) => wants(name)))
        for (let done = 0; done < piece.elements; done += pieceElements) {
          const count = Math.min(pieceElements, piece.elements - done);
          const values = await gatherRange(device, group, state, piece.offset + done, count);
          yield { name: piece.name, first: done, values };
        }
}

/** fp32 values of elements [start, start + count) of a flat buffer, whoever holds them. */
async function gatherRange(
  device: Device,
  group: ProcessGroup,
  state: FlatState,
  start: number,
  count: number,
): Promise<Float32Array> {
  const whole = device.allocate("staging", group.worldSize * count * dtypeBytes.f32);
  const own = device.allocate("staging", count * dtypeBytes.f32);
  device.issue("compute", "fill", { count, dtype: "f32", value: 0, dst: own.at() });
  for (const held of heldWithin(state, start, start + count).filter(({ kind }) => kind === "master")) {
    const values = new Float32Array(held.end - held.start);
    await held.read(held.start, values);
    device.upload(own.at((held.start - start) * dtypeBytes.f32), values);
  }
  device.wait("collective", device.mark("compute"));
  const segment = { whole: whole.at(), stride: count, start: 0, count, own: own.at() };
  group.allGather([segment], "f32", `the weights of ${state.layout.name}`);
  const all = await device.read(
    whole.at(),
    "f32",
    group.worldSize * count,
    new Float32Array(group.worldSize * count),
    "collective",
  );
  device.free(own, "collective");
  device.free(whole, "collective");
  return pick(new Float32Array(all.buffer), state, start, count, group.worldSize);
}

/** Takes each element from the rank that owns it. */
function pick(all: Float32Array, state: FlatState, start: number, count: number, worldSize: number): Float32Array {
  const values = new Float32Array(count);
  const { rangeElements } = state.layout;
  for (let rank = 0; rank < worldSize; rank++) {
    const first = Math.max(start, rank * rangeElements);
    const end = Math.min(start + count, (rank + 1) * rangeElements);
    if (first < end) values.set(all.subarray(rank * count + first - start, rank * count + end - start), first - start);
  }
  return values;
}
