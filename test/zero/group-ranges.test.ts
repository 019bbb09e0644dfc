/** Flat buffers cut at the borders of parameter groups. */
import { expect, test } from "vitest";
import { groupRanges, rangesWithin } from "../../src/zero/group-ranges.ts";
import { modelOf, parameter, planOf } from "../plan/support.ts";

const tensors = ["a.bias", "b.bias", "c.weight", "d.bias", "e.weight"].map((name) => parameter(name, [100]));
const [flat] = planOf(modelOf({ unit: tensors }), { worldSize: 3 }).units[0]!.flats;
const ranges = groupRanges(flat!, (name) => (name.endsWith("bias") ? 1 : 0));

test("neighbours of one group are one range, padding goes with the tensor before it, and all is covered", () => {
  expect(flat!.pieces.map((p) => p.offset)).toEqual([0, 128, 256, 384, 512]);
  expect(ranges).toEqual([
    { start: 0, end: 256, group: 1 },
    { start: 256, end: 384, group: 0 },
    { start: 384, end: 512, group: 1 },
    { start: 512, end: flat!.paddedElements, group: 0 },
  ]);
});

test("a window takes its parts of them", () => {
  expect(rangesWithin(ranges, 0, flat!.paddedElements)).toEqual(ranges);
  expect(rangesWithin(ranges, 250, 385)).toEqual([
    { start: 250, end: 256, group: 1 },
    { start: 256, end: 384, group: 0 },
    { start: 384, end: 385, group: 1 },
  ]);
  expect(rangesWithin(ranges, 300, 300)).toEqual([]);
});
