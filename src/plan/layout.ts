/**
 * Units as flat buffers: a unit's tensors of one sort lie in one flat buffer, each at an aligned offset, padded so that every
 * rank owns an equal contiguous range. Sorts are trainability, vectors apart from matrices, and which side of the persistence
 * threshold a tensor is on. None of them asks for the stage, so that all stages lay a model out alike and agree to the bit.
 */
import type { ModelDescription, ParameterDescription, UnitDescription } from "../nn/describe.ts";
import { elementsOf } from "../tensor/tensor.ts";

/** One tensor in a flat buffer. */
export interface Piece {
  readonly name: string;
  readonly shape: readonly number[];
  /** Elements from the start of the flat buffer. */
  readonly offset: number;
  readonly elements: number;
}

export interface FlatLayout {
  /** Unique in the plan: the unit's name and what sets this buffer apart in it. */
  readonly name: string;
  readonly trainable: boolean;
  /** Sharded parameters small enough to be kept gathered as well. */
  readonly persistent: boolean;
  readonly pieces: readonly Piece[];
  /** Elements of the tensors, without padding. */
  readonly elements: number;
  /** Elements of each rank's range: rank r owns [r * rangeElements, (r + 1) * rangeElements). */
  readonly rangeElements: number;
  /** worldSize * rangeElements. */
  readonly paddedElements: number;
}

export interface UnitLayout {
  readonly name: string;
  readonly flats: readonly FlatLayout[];
  readonly uses: readonly string[];
}

export interface LayoutOptions {
  readonly worldSize: number;
  /** Offsets and ranges are multiples of this many elements. */
  readonly alignElements: number;
  /** Tensors of at most this many elements are kept gathered as well, where parameters are sharded. */
  readonly persistenceThreshold: number;
  readonly parametersSharded: boolean;
}

const roundUp = (n: number, multiple: number): number => Math.ceil(n / multiple) * multiple;

function layFlat(
  name: string,
  tensors: readonly ParameterDescription[],
  persistent: boolean,
  o: LayoutOptions,
): FlatLayout {
  let offset = 0;
  const pieces: Piece[] = [];
  for (const { name, shape } of tensors) {
    const elements = elementsOf(shape);
    pieces.push({ name, shape, offset, elements });
    offset += roundUp(elements, o.alignElements);
  }
  const rangeElements = roundUp(Math.ceil(offset / o.worldSize), o.alignElements);
  return {
    name,
    trainable: tensors[0]!.trainable,
    persistent,
    pieces,
    elements: pieces.reduce((sum, p) => sum + p.elements, 0),
    rangeElements,
    paddedElements: rangeElements * o.worldSize,
  };
}

function layUnit(unit: UnitDescription, options: LayoutOptions): UnitLayout {
  const isSmall = (p: ParameterDescription): boolean => elementsOf(p.shape) <= options.persistenceThreshold;
  const sorts = new Map<string, ParameterDescription[]>();
  for (const p of unit.parameters) {
    const sort = `${p.trainable ? "" : "frozen "}${isSmall(p) ? "small " : ""}${p.shape.length > 1 ? "matrices" : "vectors"}`;
    sorts.set(sort, [...(sorts.get(sort) ?? []), p]);
  }
  const flats = [...sorts].map(([sort, tensors]) =>
    layFlat(`${unit.name} ${sort}`, tensors, options.parametersSharded && isSmall(tensors[0]!), options),
  );
  return { name: unit.name, flats, uses: unit.uses };
}

export function layUnits(model: ModelDescription, options: LayoutOptions): UnitLayout[] {
  return model.units.map((unit) => layUnit(unit, options));
}

/** A part of a tensor inside a range of its flat buffer. */
export interface PieceRange {
  readonly name: string;
  /** First element, counted within the tensor. */
  readonly first: number;
  readonly count: number;
  /** The same first element, counted within the flat buffer. */
  readonly offset: number;
}

/** What of each tensor lies in elements [start, end) of the flat buffer. */
export function piecesWithin(flat: FlatLayout, start: number, end: number): PieceRange[] {
  const ranges: PieceRange[] = [];
  for (const piece of flat.pieces) {
    const from = Math.max(start, piece.offset);
    const to = Math.min(end, piece.offset + piece.elements);
    if (from < to) ranges.push({ name: piece.name, first: from - piece.offset, count: to - from, offset: from });
  }
  return ranges;
}

/** The padding: ranges of the flat buffer that no tensor covers. */
export function gapsOf(flat: FlatLayout): { offset: number; count: number }[] {
  const gaps: { offset: number; count: number }[] = [];
  let at = 0;
  for (const piece of flat.pieces) {
    if (piece.offset > at) gaps.push({ offset: at, count: piece.offset - at });
    at = piece.offset + piece.elements;
  }
  if (at < flat.paddedElements) gaps.push({ offset: at, count: flat.paddedElements - at });
  return gaps;
}
