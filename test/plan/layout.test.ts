// Flat buffers: every element has one place, every rank an equal range, and padding is only what alignment needs.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gapsOf, layUnits, piecesWithin } from "../../src/plan/layout.ts";
import { modelOf, parameter } from "./support.ts";

const options = { worldSize: 4, alignElements: 8, persistenceThreshold: 0, parametersSharded: true };

describe("layout by hand", () => {
  const model = modelOf({
    a: [parameter("w", [3, 5]), parameter("b", [5]), parameter("v", [2, 4]), parameter("f", [3, 3], false)],
  });

  test("matrices, vectors and frozen tensors lie apart; offsets are aligned; ranges are equal", () => {
    const [unit] = layUnits(model, options);
    expect(unit!.flats.map((f) => f.name)).toEqual(["a matrices", "a vectors", "a frozen matrices"]);
    const [matrices, vectors, frozen] = unit!.flats;
    expect(matrices!.pieces).toEqual([
      { name: "w", shape: [3, 5], offset: 0, elements: 15 },
      { name: "v", shape: [2, 4], offset: 16, elements: 8 },
    ]);
    expect(matrices).toMatchObject({ elements: 23, rangeElements: 8, paddedElements: 32, trainable: true });
    expect(vectors).toMatchObject({ elements: 5, rangeElements: 8, paddedElements: 32 });
    expect(frozen).toMatchObject({ elements: 9, rangeElements: 8, trainable: false });
  });

  test("small tensors are persistent only where parameters are sharded, and lie apart either way", () => {
    for (const parametersSharded of [true, false]) {
      const [unit] = layUnits(model, { ...options, persistenceThreshold: 8, parametersSharded });
      const small = unit!.flats.filter((f) => f.persistent).flatMap((f) => f.pieces.map((p) => p.name));
      expect(small).toEqual(parametersSharded ? ["b", "v"] : []);
      expect(unit!.flats.map((f) => f.name)).toEqual([
        "a matrices",
        "a small vectors",
        "a small matrices",
        "a frozen matrices",
      ]);
    }
  });

  test("gaps and pieces of a range", () => {
    const [matrices] = layUnits(model, options)[0]!.flats;
    expect(gapsOf(matrices!)).toEqual([
      { offset: 15, count: 1 },
      { offset: 24, count: 8 },
    ]);
    expect(piecesWithin(matrices!, 8, 16)).toEqual([{ name: "w", first: 8, count: 7, offset: 8 }]);
    expect(piecesWithin(matrices!, 10, 20)).toEqual([
      { name: "w", first: 10, count: 5, offset: 10 },
      { name: "v", first: 0, count: 4, offset: 16 },
    ]);
    expect(piecesWithin(matrices!, 24, 32)).toEqual([]);
  });
});

const shapes = fc.array(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), {
  minLength: 1,
  maxLength: 12,
});

describe("layout of any tensors", () => {
  test("pieces and gaps together cover each buffer once; the ranks' ranges hold each element once", () => {
    fc.assert(
      fc.property(
        shapes,
        fc.integer({ min: 1, max: 8 }),
        fc.constantFrom(1, 4, 64),
        fc.integer({ min: 0, max: 60 }),
        (shapes, worldSize, alignElements, persistenceThreshold) => {
          const tensors = shapes.map((shape, i) => parameter(`t${i}`, shape, i % 5 !== 4));
          const model = modelOf({ u: tensors });
          const [unit] = layUnits(model, { worldSize, alignElements, persistenceThreshold, parametersSharded: true });
          const seen = new Map<string, number>();
          for (const flat of unit!.flats) {
            const covered = new Uint8Array(flat.paddedElements);
            const cover = (offset: number, count: number): void => {
              for (let i = offset; i < offset + count; i++) covered[i]!++;
            };
            for (const piece of flat.pieces) {
              expect(piece.offset % alignElements).toBe(0);
              cover(piece.offset, piece.elements);
            }
            for (const gap of gapsOf(flat)) cover(gap.offset, gap.count);
            expect(covered.every((n) => n === 1)).toBe(true);
            expect(flat.rangeElements % alignElements).toBe(0);
            expect(flat.paddedElements).toBe(worldSize * flat.rangeElements);
            // Not more than the alignment of each tensor and of each range asks for.
            const needed = flat.elements + (flat.pieces.length + worldSize) * alignElements;
            expect(flat.paddedElements).toBeLessThan(needed + worldSize);
            for (let rank = 0; rank < worldSize; rank++) {
              const start = rank * flat.rangeElements;
              for (const range of piecesWithin(flat, start, start + flat.rangeElements))
                seen.set(range.name, (seen.get(range.name) ?? 0) + range.count);
            }
          }
          for (const { name, shape } of tensors) expect(seen.get(name)).toBe(shape.reduce((a, b) => a * b, 1));
        },
      ),
    );
  });
});
