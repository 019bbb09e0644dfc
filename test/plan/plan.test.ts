// Residences, sizes and expectations against numbers from the ZeRO paper (Rajbhandari et al., SC20) and sums made by hand.
import { describe, expect, test } from "vitest";
import { UsageError } from "../../src/errors/errors.ts";
import { expectedStates, expectedTraffic } from "../../src/plan/expected.ts";
import { expectedCopies } from "../../src/plan/expected-copies.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { modelOf, parameter, planOf } from "./support.ts";

const bf16 = { bf16: { enabled: true } };

describe("model states of the paper's table 1 (GB per device; rows: ranks; 7.5, 128 and 1000 billion parameters)", () => {
  // The paper rounds small numbers and cuts large ones, so a number is met when it is less than one in its last digit away.
  const table: Record<
    number,
    readonly (readonly [stage: number, billions: number, gigabytes: number, digit: number])[]
  > = {
    1: [
      [1, 7.5, 120, 1],
      [2, 128, 2048, 1],
      [3, 1000, 16000, 1],
    ],
    4: [
      [1, 7.5, 52.5, 0.1],
      [2, 7.5, 41.3, 0.1],
      [3, 7.5, 30, 1],
      [1, 128, 896, 1],
      [2, 128, 704, 1],
      [3, 1000, 4000, 1],
    ],
    64: [
      [1, 7.5, 31.4, 0.1],
      [2, 7.5, 16.6, 0.1],
      [3, 7.5, 1.88, 0.01],
      [1, 128, 536, 1],
      [2, 1000, 2218, 1],
      [3, 128, 32, 1],
    ],
    1024: [
      [1, 7.5, 30.1, 0.1],
      [2, 128, 257, 1],
      [3, 7.5, 0.12, 0.01],
      [1, 1000, 4011, 1],
      [2, 1000, 2013, 1],
      [3, 1000, 15.6, 0.1],
    ],
  };

  for (const [ranks, rows] of Object.entries(table))
    test(`${ranks} ranks`, () => {
      for (const [stage, billions, gigabytes, digit] of rows) {
        // A hundred units of one square matrix each, near enough to the parameter count to stay inside the last digit.
        const side = Math.round(Math.sqrt((billions * 1e9) / 100));
        const units = Array.from({ length: 100 }, (_, i) => [`u${i}`, [parameter(`w${i}`, [side, side])]] as const);
        const plan = planOf(modelOf(Object.fromEntries(units)), { worldSize: Number(ranks), stage, more: bf16 });
        const { parameters, gradients, optimizer } = expectedStates(plan);
        const bytes = parameters.bytes + gradients.bytes + optimizer.bytes;
        expect(Math.abs(bytes / 1e9 - gigabytes), `stage ${stage}, ${billions}`).toBeLessThan(digit * 1.02);
      }
    });
});

/** Two units of 1000 and 3000 elements that need no padding on 4 ranks, and a frozen one of 400. */
const model = modelOf({
  a: [parameter("a.w", [10, 100])],
  b: [parameter("b.w", [30, 100])],
  c: [parameter("c.w", [4, 100], false)],
});
const noPadding = { worldSize: 4, alignmentBytes: 4, zero: { stage3_param_persistence_threshold: 0 } };
const totals = (plan: Plan): Record<string, number> => {
  const sums: Record<string, number> = {};
  for (const { kind, elements } of expectedTraffic(plan)) sums[kind] = (sums[kind] ?? 0) + elements;
  return sums;
};

describe("by hand", () => {
  test("bytes at rest, fp32, 4 ranks: frozen parameters have no gradient and no states", () => {
    const expected = [
      { parameters: 4400 * 4, gradients: 4000 * 4, optimizer: 4000 * 8 },
      { parameters: 4400 * 4, gradients: 4000 * 4, optimizer: 1000 * 8 },
      { parameters: 4400 * 4, gradients: 1000 * 4, optimizer: 1000 * 8 },
      { parameters: 1100 * 4, gradients: 1000 * 4, optimizer: 1000 * 8 },
    ];
    for (const [stage, bytes] of expected.entries()) {
      const plan = planOf(model, { ...noPadding, stage });
      expect(plan).toMatchObject({ parameterElements: 4400, trainableElements: 4000, paddingElements: 0 });
      const states = expectedStates(plan);
      for (const kind of ["parameters", "gradients", "optimizer"] as const) {
        expect(states[kind].bytes, `${kind} at stage ${stage}`).toBe(bytes[kind]);
        expect(states[kind].formulaBytes).toBe(bytes[kind]);
      }
    }
  });

  test("elements sent, 4 ranks, 1 and 3 micro-batches", () => {
    for (const g of [1, 3]) {
      const more = { gradient_accumulation_steps: g };
      const sent = (stage: number) => totals(planOf(model, { ...noPadding, stage, more }));
      expect(sent(0)).toEqual({ reduceScatter: 3000, allGather: 3000 });
      expect(sent(1)).toEqual({ reduceScatter: 3000, allGather: 3000 });
      expect(sent(2)).toEqual({ reduceScatter: 3000 * g, allGather: 3000 });
      expect(sent(3)).toEqual({ reduceScatter: 3000 * g, allGather: 2 * g * 3300 });
    }
  });

  test("persistent parameters are gathered once a step, frozen ones never again", () => {
    const zero = { stage3_param_persistence_threshold: 1000 };
    const more = { gradient_accumulation_steps: 2 };
    const plan = planOf(model, { ...noPadding, zero, more });
    expect(totals(plan)).toEqual({ reduceScatter: 6000, allGather: 4 * 2250 + 750 });
    expect(expectedStates(plan).gathered.bytes).toBe(1400 * 4);
  });

  test("copies, 4 ranks: a quarter down and a quarter up, each micro-batch's gradients at stages 2 and 3", () => {
    const offload_optimizer = { device: "cpu" };
    const copies = (stage: number, zero: object, g = 1) => {
      const more = { ...bf16, gradient_accumulation_steps: g };
      const plan = planOf(model, {
        ...noPadding,
        stage,
        zero: { ...noPadding.zero, offload_optimizer, ...zero },
        more,
      });
      return Object.fromEntries(expectedCopies(plan).map(({ kind, elements }) => [kind, elements]));
    };
    expect(copies(1, {}, 3)).toEqual({ down: 1000, up: 1000 });
    for (const stage of [2, 3]) {
      expect(copies(stage, {})).toEqual({ down: 1000, up: 1000 });
      expect(copies(stage, {}, 3)).toEqual({ down: 3000, up: 1000 });
    }
    // Frozen parameters are gathered too. On disk every state of 250 or 750 elements takes whole pages.
    expect(copies(3, { offload_param: { device: "cpu" } }, 3)).toEqual({ down: 3000, up: 2 * 3 * 1100 });
    const onDisk = { device: "nvme", nvme_path: "/disk" };
    expect(copies(3, { offload_optimizer: onDisk })).toEqual({
      down: 1000,
      up: 1000,
      diskRead: 6 * 4096,
      diskWrite: 6 * 4096,
    });
    const plan = planOf(model, { ...noPadding, zero: { ...noPadding.zero, offload_param: onDisk }, more: bf16 });
    expect(expectedCopies(plan).map(({ kind, name, elements }) => `${kind}, ${name}: ${elements}`)).toEqual([
      "down, parameters that were updated on the device, once: 1000",
      "up, parameters for forward and backward, twice: 2200",
      `diskRead, parameters for forward and backward, twice: ${2 * 3 * 4096}`,
      `diskWrite, updated parameters, once: ${2 * 4096}`,
    ]);
  });

  test("a world of one sends nothing", () => {
    for (const stage of [0, 1, 2, 3]) expect(expectedTraffic(planOf(model, { worldSize: 1, stage }))).toEqual([]);
  });

  test("16 bits: two bytes a parameter and gradient, twelve for the optimizer; fp32 accumulation: four a gradient", () => {
    const states = expectedStates(planOf(model, { ...noPadding, stage: 0, more: bf16 }));
    expect(states.parameters.bytes).toBe(4400 * 2);
    expect(states.gradients.bytes).toBe(4000 * 2);
    expect(states.optimizer.bytes).toBe(4000 * 12);
    const more = { ...bf16, data_types: { grad_accum_dtype: "fp32" } };
    expect(expectedStates(planOf(model, { ...noPadding, stage: 0, more })).gradients.bytes).toBe(4000 * 4);
  });
});

describe("sizes", () => {
  test("left out, they follow from the model, and say how", () => {
    const { sizes } = planOf(model, noPadding);
    expect(sizes.reduceBucket).toEqual({ elements: 3000, why: "the largest unit" });
    expect(sizes.allgatherBucket.elements).toBe(3000);
    expect(sizes.prefetch.elements).toBe(3000);
    expect(sizes.liveParameters.elements).toBe(6000);
    expect(sizes.reuseDistance.elements).toBe(0);
    expect(sizes.subGroup.elements).toBe(2 ** 20);
  });

  test("the persistence threshold is 10 times the width", () => {
    const narrow = modelOf({ u: [parameter("g", [6]), parameter("small", [6, 10]), parameter("large", [6, 11])] });
    const plan = planOf(narrow, { worldSize: 2 });
    const persistent = plan.units[0]!.flats.filter((f) => f.persistent).flatMap((f) => f.pieces.map((p) => p.name));
    expect(persistent.sort()).toEqual(["g", "small"]);
  });

  test("written, they are obeyed up to the model's size", () => {
    const zero = {
      reduce_bucket_size: 700,
      sub_group_size: 1e9,
      stage3_prefetch_bucket_size: 0,
      stage3_max_live_parameters: 5,
    };
    const { sizes } = planOf(model, { ...noPadding, zero: { ...noPadding.zero, ...zero } });
    expect(sizes.reduceBucket).toEqual({ elements: 700, why: "written" });
    expect(sizes.subGroup.elements).toBe(4400);
    expect(sizes.prefetch.elements).toBe(0);
    expect(sizes.liveParameters.elements).toBe(5);
  });
});

describe("residences", () => {
  test("whole optimizer states with sharded gradients or parameters are refused", () => {
    const row = { optimizer: "whole", gradients: "shard", parameters: "whole" } as const;
    expect(() => planOf(model, { worldSize: 2, row })).toThrow(UsageError);
    expect(() => planOf(model, { worldSize: 2, row: { ...row, gradients: "whole", parameters: "shard" } })).toThrow(
      /no rank/,
    );
  });

  test("all stages lay a model out alike", () => {
    const layouts = [0, 1, 2, 3].map((stage) =>
      planOf(model, { worldSize: 3, stage }).units.flatMap((u) => u.flats.map(({ persistent: _, ...flat }) => flat)),
    );
    for (const layout of layouts) expect(layout).toEqual(layouts[0]);
  });
});
