/**
 * What a rank must keep so that training can go on: its own range of every flat buffer, by (tensor name, kind, element). The
 * division by owners is the same at every stage, also where all ranks hold everything: each element is kept once. 16-bit copies
 * of trainable parameters are not kept: rounding the master makes the same bits again.
 */
import type { Exchanger } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import { type OptimizerPart, optimizerParts } from "../device/ledger.ts";
import { piecesWithin } from "../plan/layout.ts";
import type { Elements, Range } from "./elements.ts";
import type { FlatState } from "./flat.ts";
import type { EngineProgress } from "./progress.ts";

/**
 * `master` holds the weights of every tensor: fp32 master weights, or the parameters where these are all there
 * is. `visible`, with delayed updates: the parameters that passes see, which are an update behind the master.
 */
export type StateKind = OptimizerPart | "visible";
export const stateKinds: readonly StateKind[] = [...optimizerParts, "visible"];

/** Where states come from, by tensor name, kind and element: a model file (weights only) or a checkpoint. */
export interface StateSource {
  has(name: string, kind: StateKind): boolean;
  /** Fills `into` with fp32 values of a tensor from element `first` on. */
  read(name: string, kind: StateKind, first: number, into: Float32Array): Promise<void>;
  /** The model folder where a tensor's weights can be read again, as an absolute path; undefined: none. */
  folderOf?(name: string): string | undefined;
}

/** What a run that was saved goes on from. `states` has every kind of every tensor. */
export interface ResumePoint {
  readonly progress: EngineProgress;
  readonly states: StateSource;
  /** Runs what reads them, and fails on every rank where that fails on one. */
  filled(group: Exchanger, fill: () => Promise<void>): Promise<void>;
  /** @param digests of frozen tensors by name, as all ranks read them from their base @throws where they are not those that were saved */
  checkBase(digests: ReadonlyMap<string, string>): void;
}

/** A part of a tensor's state that this rank owns. */
export interface StateRange {
  readonly name: string;
  readonly kind: StateKind;
  /** First element, counted within the tensor. */
  readonly first: number;
  readonly count: number;
  /** Fills `into` with fp32 values from `offset` on, counted within the flat buffer; nothing that was issued may still write them. */
  read(offset: number, into: Float32Array<ArrayBuffer>): Promise<void>;
  /** The same first element, counted within the flat buffer. */
  readonly offset: number;
}

/** What is saved, as an engine hands it out. */
export interface StateReader {
  /**
   * In plan order, which is that of updates; together the ranks' lists hold every element of every kind once, save for tensors of the
   * engine's base.
   */
  readonly ranges: readonly StateRange[];
  /**
   * Fills `into` with fp32 values from element `first` of the range on. Ranges are read in their order and each from its first element
   * to its last: what has been read may change from then on.
   */
  read(range: StateRange, first: number, into: Float32Array<ArrayBuffer>): Promise<void>;
  /** Nothing more is read: all may change. */
  end(): void;
}

/** Elements that pass through the host at once. */
export const pieceElements = 1 << 20;

/** A part of a rank's own range, and how a kind of its states is read. */
export interface Held extends Range {
  readonly kind: StateKind;
  read(offset: number, into: Float32Array<ArrayBuffer>): Promise<void>;
}

/** What this rank owns of elements [start, end) of a flat buffer, each kind once. */
export function heldWithin(flat: FlatState, start: number, end: number): Held[] {
  const cut = (range: Range, kind: StateKind, read: Held["read"]): Held[] => {
    const held = { start: Math.max(range.start, flat.own.start, start), end: Math.min(range.end, flat.own.end, end) };
    return held.start < held.end ? [{ ...held, kind, read }] : [];
  };
  const { segments, parameters } = flat;
  if (segments.length === 0) return cut(flat.own, "master", (offset, into) => parameters.read(offset, into));
  const visible = parameters.deliver ? cut(flat.own, "visible", (offset, into) => parameters.read(offset, into)) : [];
  const updated = segments.flatMap((segment) => {
    const { states } = segment;
    const parts = states.tier === "disk" ? states.subGroups : [segment];
    // Record by record: what is read from disk holds all kinds.
    return parts.flatMap((part) =>
      states.parts.flatMap((kind) => cut(part, kind, (offset, into) => states.read(kind, offset, into))),
    );
  });
  return [...updated, ...visible];
}

/** What this rank owns of a flat buffer, tensor by tensor. */
export function stateRanges(flat: FlatState): StateRange[] {
  return heldWithin(flat, flat.own.start, flat.own.end).flatMap(({ kind, read, start, end }) =>
    piecesWithin(flat.layout, start, end).map((piece) => ({ ...piece, kind, read })),
  );
}

/** Memory that values pass through on their way from a source, for one range at a time. */
export const passingPieces = (): [Float32Array, Float32Array] => [
  new Float32Array(pieceElements),
  new Float32Array(pieceElements),
];

/**
 * Fills [range.offset, range.offset + range.count) of flat buffers from a source, in pieces; the next is read while one is put there.
 * @param to all of these get the same values, at a width of their own
 * @param pieces see `passingPieces`: new memory for each piece costs more than its bytes
 */
export async function writeRange(
  device: Device,
  to: readonly Elements[],
  range: Pick<StateRange, "name" | "kind" | "first" | "count" | "offset">,
  source: StateSource,
  pieces: readonly [Float32Array, Float32Array],
): Promise<void> {
  const { name, kind } = range;
  const read = (done: number): Promise<Float32Array> => {
    const values = pieces[(done / pieceElements) % 2]!.subarray(0, Math.min(pieceElements, range.count - done));
    const reading = source.read(name, kind, range.first + done, values).then(() => values);
    reading.catch(() => undefined); // told where it is awaited
    return reading;
  };
  let reading = read(0);
  for (let done = 0; done < range.count; done += pieceElements) {
    const values = await reading;
    if (done + values.length < range.count) reading = read(done + values.length);
    for (const target of to) put(device, target, range.offset + done, values);
    // A source may be faster than the device: without waiting, its pieces would pile up on their way.
    for (const { queue } of to) await device.reached(device.mark(queue));
  }
}

/** Puts fp32 values at element `first` on. They may change once this returns. */
function put(device: Device, to: Elements, first: number, values: Float32Array): void {
  const dst = to.at(first);
  if (to.dtype === "f32") {
    device.upload(dst, values, to.queue);
    return;
  }
  const count = values.length;
  const staging = device.allocate("staging", count * dtypeBytes.f32, to.queue, to.tier);
  device.upload(staging.at(), values, to.queue);
  device.issue(to.queue, "cast", { count, srcType: "f32", dstType: to.dtype, src: staging.at(), dst });
  device.free(staging, to.queue);
}
