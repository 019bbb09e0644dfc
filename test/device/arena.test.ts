// Placement: blocks never overlap, free neighbours join, and whoever takes memory over waits for its last users.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Arena } from "../../src/device/arena.ts";
import { InternalError } from "../../src/errors/errors.ts";

describe("arena", () => {
  test("rounds up to the alignment, and nothing is nothing", () => {
    const arena = new Arena(1024, 256);
    expect([0, 1, 256, 257].map((bytes) => arena.roundUp(bytes))).toEqual([256, 256, 256, 512]);
  });

  test("takes the smallest free block that fits", () => {
    const arena = new Arena(4096, 256);
    const blocks = [1024, 256, 512, 256].map((bytes) => arena.take(bytes).offset);
    expect(blocks).toEqual([0, 1024, 1280, 1792]);
    arena.give(0, 1024, []);
    arena.give(1280, 512, []);
    expect(arena.take(512).offset).toBe(1280);
    expect(arena.take(768).offset).toBe(0);
    expect(arena.highWaterBytes).toBe(2048);
  });

  test("free neighbours become one block, whatever the order they come back in", () => {
    for (const order of [
      [0, 256, 512],
      [512, 256, 0],
      [0, 512, 256],
    ]) {
      const arena = new Arena(768, 256);
      for (let i = 0; i < 3; i++) arena.take(256);
      for (const offset of order) arena.give(offset, 256, []);
      expect(arena.take(768).offset).toBe(0);
    }
  });

  test("what is taken over waits for the latest op of each queue that used any part of it", () => {
    const arena = new Arena(512, 256);
    arena.take(256);
    arena.take(256);
    arena.give(0, 256, [
      { queue: "compute", sequence: 7 },
      { queue: "collective", sequence: 2 },
    ]);
    arena.give(256, 256, [{ queue: "compute", sequence: 9 }]);
    const { fences } = arena.take(512);
    const bySequence = [...fences].sort((a, b) => a.sequence - b.sequence);
    expect(bySequence).toEqual([
      { queue: "collective", sequence: 2 },
      { queue: "compute", sequence: 9 },
    ]);
  });

  test("a part of a freed block waits too, and memory that was never used does not", () => {
    const arena = new Arena(1024, 256);
    arena.take(512);
    arena.give(0, 512, [{ queue: "compute", sequence: 3 }]);
    expect(arena.take(256).fences).toEqual([{ queue: "compute", sequence: 3 }]);
    expect(new Arena(1024, 256).take(256).fences).toEqual([]);
  });

  test("a block that does not fit is an error", () => {
    const arena = new Arena(512, 256);
    arena.take(256);
    expect(() => arena.take(512)).toThrow(InternalError);
  });

  test("any sequence: blocks are aligned and apart, the same program is placed alike, all comes back", () => {
    const program = fc.array(fc.tuple(fc.integer({ min: 1, max: 3000 }), fc.nat(9)), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(program, (steps) => {
        const place = (): number[] => {
          const arena = new Arena(2 ** 20, 256);
          const held: { offset: number; bytes: number }[] = [];
          const offsets: number[] = [];
          for (const [size, choice] of steps) {
            if (choice < 4 && held.length > 0) {
              const [block] = held.splice(choice % held.length, 1);
              arena.give(block!.offset, block!.bytes, []);
              continue;
            }
            const bytes = arena.roundUp(size);
            const { offset } = arena.take(bytes);
            expect(offset % 256).toBe(0);
            for (const other of held)
              expect(offset + bytes <= other.offset || other.offset + other.bytes <= offset).toBe(true);
            held.push({ offset, bytes });
            offsets.push(offset);
          }
          for (const { offset, bytes } of held) arena.give(offset, bytes, []);
          expect(arena.take(2 ** 20).offset).toBe(0);
          return offsets;
        };
        expect(place()).toEqual(place());
      }),
    );
  });
});
