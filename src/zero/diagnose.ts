/**
 * Where a number stopped being finite. Only asked for when training cannot go on: it runs the last micro-batch's forward pass
 * once more and looks at the output of every segment; if all are finite it looks through the gradients in the order in which
 * the backward pass made them. All ranks do it together, since the first culprit may be on any of them.
 */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { Span } from "../device/ops.ts";
import { rootUnit } from "../nn/describe.ts";
import { piecesWithin } from "../plan/layout.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { readElements } from "./elements.ts";
import type { FlatState } from "./flat.ts";
import { pieceElements, stateRanges } from "./state.ts";

/** A segment's output, with the name of the unit that made it. */
export interface SegmentOutput {
  readonly unit: string;
  readonly tensor: Tensor;
}

/** The first output that is not finite on any rank. @param outputs in the order of the forward pass */
export async function firstBadOutput(
  device: Device,
  group: ProcessGroup,
  outputs: readonly SegmentOutput[],
): Promise<BadOutput | undefined> {
  let own: Found | undefined;
  for (const [index, { tensor }] of outputs.entries()) {
    const value = await firstNonFinite(device, tensor.span, tensor.dtype, tensor.elements);
    if (value === undefined) continue;
    own = { index, value };
    break;
  }
  const first = await firstOfAll(group, own);
  if (!first) return undefined;
  const { unit } = outputs[first.index]!;
  const name = unit === rootUnit ? "the embeddings or the head (what lies outside the blocks)" : unit;
  return { unit, words: `the output of ${name} is ${first.value} on rank ${first.rank}` };
}

/** Where the numbers of a step went wrong. Every rank calls it. @param found.flats of the unit whose output is not finite */
export async function culpritOf(
  device: Device,
  group: ProcessGroup,
  found: {
    readonly output: BadOutput | undefined;
    readonly flats: readonly FlatState[] | undefined;
    readonly culprits: readonly FlatState[];
  },
): Promise<string> {
  const parameter = found.flats && (await firstBadParameter(group, found.flats));
  return (
    parameter ??
    found.output?.words ??
    (await firstBadGradient(device, group, found.culprits)) ??
    "the loss is not finite"
  );
}

/** The first parameter of `flats` that is not finite, in words: then no batch is to blame. */
async function firstBadParameter(group: ProcessGroup, flats: readonly FlatState[]): Promise<string | undefined> {
  const names = flats.flatMap((state) => state.layout.pieces.map((piece) => piece.name));
  let own: Found | undefined;
  for (const range of flats.flatMap(stateRanges).filter(({ kind }) => kind === "master")) {
    const value = await firstBadValue((offset, into) => range.read(offset, into), range.offset, range.count);
    if (value === undefined) continue;
    own = { index: names.indexOf(range.name), value };
    break;
  }
  const first = await firstOfAll(group, own);
  return first && `the parameter ${names[first.index]} holds ${first.value}`;
}

/** The first gradient tensor of `flats` that is not finite on any rank, in words. */
async function firstBadGradient(
  device: Device,
  group: ProcessGroup,
  flats: readonly FlatState[],
): Promise<string | undefined> {
  const names = flats.flatMap((state) => state.layout.pieces.map((piece) => piece.name));
  let own: Found | undefined;
  for (const state of flats) {
    own = await firstInOwnRange(device, state, names);
    if (own) break;
  }
  const first = await firstOfAll(group, own);
  return first && `the gradient of ${names[first.index]} is ${first.value}`;
}

/** The first tensor whose gradient is not finite in this rank's range. */
async function firstInOwnRange(device: Device, state: FlatState, names: readonly string[]): Promise<Found | undefined> {
  for (const { start, end, gradients } of state.segments)
    for (const piece of piecesWithin(state.layout, Math.max(start, state.own.start), Math.min(end, state.own.end))) {
      const read: ReadElements = (offset, into) => readElements(device, gradients, offset, into);
      const value = await firstBadValue(read, piece.offset, piece.count);
      if (value !== undefined) return { index: names.indexOf(piece.name), value };
    }
  return undefined;
}

type ReadElements = (offset: number, into: Float32Array<ArrayBuffer>) => Promise<void>;

/** The first of elements [first, first + count) of a flat buffer that is not finite. */
async function firstBadValue(read: ReadElements, first: number, count: number): Promise<number | undefined> {
  for (let done = 0; done < count; done += pieceElements) {
    const values = new Float32Array(Math.min(pieceElements, count - done));
    await read(first + done, values);
    const bad = values.find((value) => !Number.isFinite(value));
    if (bad !== undefined) return bad;
  }
  return undefined;
}

/** The unit whose output was the first that is not finite, and how to say so. */
export interface BadOutput {
  readonly unit: string;
  readonly words: string;
}

interface Found {
  readonly index: number;
  readonly value: number;
}

/** The lowest index that any rank found, and the first rank with it. */
async function firstOfAll(
  group: ProcessGroup,
  own: Found | undefined,
): Promise<(Found & { rank: number }) | undefined> {
  const payload = Float64Array.of(own?.index ?? Number.POSITIVE_INFINITY, own?.value ?? 0);
  const ranks = await group.exchange(payload, "what is not finite");
  const found = ranks.map(([index, value], rank) => ({ index: index!, value: value!, rank }));
  const first = found.reduce((best, f) => (f.index < best.index ? f : best));
  return Number.isFinite(first.index) ? first : undefined;
}

/** The first element that is not finite. */
async function firstNonFinite(device: Device, at: Span, dtype: DType, elements: number): Promise<number | undefined> {
  if (dtype === "i32") return undefined;
  for (let done = 0; done < elements; done += pieceElements) {
    const count = Math.min(pieceElements, elements - done);
    const staging = device.allocate("staging", count * dtypeBytes.f32);
    const src = { region: at.region, offset: at.offset + done * dtypeBytes[dtype] };
    device.issue("compute", "cast", { count, srcType: dtype, dstType: "f32", src, dst: staging.at() });
    const bytes = await device.read(staging.at(), "f32", count, new Float32Array(count));
    device.free(staging);
    const bad = new Float32Array(bytes.buffer).find((value) => !Number.isFinite(value));
    if (bad !== undefined) return bad;
  }
  return undefined;
}
