// Every byte and every element is where ZeRO's formulas and the plan say, on every rank, and the simulated device knew it.
import { tmpdir } from "node:os";
import { describe, expect, test } from "vitest";
import { describeModel } from "../../src/nn/describe.ts";
import { Gpt2 } from "../../src/nn/models/gpt2.ts";
import { type Gpt2Name, gpt2Configs } from "../../src/nn/models/gpt2-config.ts";
import { expectedStates, expectedTraffic } from "../../src/plan/expected.ts";
import { expectedCopies } from "../../src/plan/expected-copies.ts";
import { createPlan, type Plan } from "../../src/plan/plan.ts";
import { expectForecast, expectFormulas, forecastOf, lastReport, paddedElements, trafficFormula } from "./accounts.ts";
import { configOf, type Job, type TraceEntry } from "./jobs.ts";
import { gpt2, tinyGpt2 } from "./models.ts";
import { type JobAnswer, run } from "./pool.ts";

interface Variant {
  readonly stage: number;
  readonly precision: "fp32" | "bf16";
  readonly accumulation: number;
  readonly persistence?: number;
  readonly more?: object;
}

function jobOf({ stage, precision, accumulation, persistence = 0, more = {} }: Variant): Job {
  return {
    model: gpt2({ layers: 3 }),
    steps: 2,
    seqLength: 16,
    config: {
      train_micro_batch_size_per_gpu: 1,
      gradient_accumulation_steps: accumulation,
      bf16: { enabled: precision === "bf16" },
      zero_optimization: { stage, stage3_param_persistence_threshold: persistence, ...more },
    },
  };
}

/** Elements of a GPT-2: embeddings, 12 h² + 13 h a block, the last norm. */
const gpt2Elements = (c: { hidden: number; layers: number; vocabularySize: number; positions: number }): number =>
  (c.vocabularySize + c.positions) * c.hidden + c.layers * (12 * c.hidden ** 2 + 13 * c.hidden) + 2 * c.hidden;

/** src/plan/expected.ts says the same as the ledger, kind by kind and collective by collective. */
function expectPlanned(plan: Plan, answer: JobAnswer, rank: number): void {
  const { memory, traffic } = lastReport(answer, rank);
  for (const tier of ["device", "host"] as const) {
    const states = expectedStates(plan, tier);
    for (const kind of ["parameters", "gradients", "optimizer", "gathered"] as const)
      expect(memory[tier][kind].current, `${kind} on the ${tier}`).toBe(states[kind].bytes);
  }
  const copied = { down: 0, up: 0, diskRead: 0, diskWrite: 0 };
  for (const { kind, elements } of expectedCopies(plan)) copied[kind as keyof typeof copied] += elements;
  const { down, up, diskRead, diskWrite } = traffic;
  expect({
    down: down.elementsSent,
    up: up.elementsReceived,
    diskRead: diskRead.bytesReceived,
    diskWrite: diskWrite.bytesSent,
  }).toEqual(copied);
  for (const collective of ["reduceScatter", "allGather"] as const) {
    const terms = expectedTraffic(plan).filter((t) => t.kind === collective);
    const sum = terms.reduce((total, t) => total + t.elements, 0);
    expect(traffic[collective].elementsSent, collective).toBe(sum);
    expect(traffic[collective].elementsReceived, collective).toBe(sum);
  }
}

describe("states at rest and traffic: formulas, plan, forecast and ledger agree on every rank", () => {
  const ranks = 4;
  for (const precision of ["bf16", "fp32"] as const)
    for (const accumulation of [1, 4])
      test(`${precision}, ${accumulation} micro-batches`, async () => {
        const operations = new Set<number>();
        for (const stage of [0, 1, 2, 3])
          for (const persistence of stage === 3 ? [0, 100] : [0]) {
            const job = jobOf({ stage, precision, accumulation, persistence });
            const answer = await run(ranks, job);
            const { plan } = await expectForecast(job, ranks, answer, [0, 1, 2, 3]);
            expect(plan.parameterElements).toBe(gpt2Elements({ ...tinyGpt2, layers: 3 }));
            for (let rank = 0; rank < ranks; rank++) {
              expectFormulas(plan, lastReport(answer, rank));
              expectPlanned(plan, answer, rank);
              operations.add(lastReport(answer, rank).operations);
            }
            expect(paddedElements(plan).persistent > 0).toBe(persistence > 0);
          }
        expect([...operations], "ZeRO shards storage, never compute").toHaveLength(1);
      });

  describe("with states and parameters on the host and on disk", () => {
    const [host, disk] = [{ device: "cpu" }, { device: "nvme", nvme_path: tmpdir() }];
    const tiers: readonly [name: string, stages: readonly number[], more: object, isDelayed?: boolean][] = [
      ["optimizer on the host", [1, 2, 3], { offload_optimizer: host }],
      ["optimizer on disk", [1, 2, 3], { offload_optimizer: disk }],
      ["a third of it on the host", [1, 3], { offload_optimizer: { ...host, ratio: 0.34 } }],
      ["half of it on disk", [2, 3], { offload_optimizer: { ...disk, ratio: 0.5 } }],
      ["parameters on the host", [3], { offload_param: host }],
      ["both on the host", [3], { offload_optimizer: host, offload_param: host }],
      ["both on disk", [3], { offload_optimizer: disk, offload_param: disk }],
      ["on disk and in part", [3], { offload_optimizer: { ...host, ratio: 0.5 }, offload_param: disk }],
      ["some parameters kept", [3], { offload_optimizer: host, offload_param: { ...disk, max_in_cpu: 6000 } }],
      ["delayed, on the host", [1, 2, 3], { offload_optimizer: host }, true],
      ["delayed, both on disk", [3], { offload_optimizer: disk, offload_param: disk }, true],
    ];
    for (const [name, stages, more, isDelayed = false] of tiers)
      test(name, async () => {
        for (const stage of stages)
          for (const precision of ["bf16", "fp32"] as const)
            for (const [accumulation, persistence] of [
              [1, 0],
              [3, 100],
            ] as const) {
              const sizes = { ...more, sub_group_size: 5000 };
              const plain = jobOf({ stage, precision, accumulation, persistence, more: sizes });
              const job = { ...plain, config: { ...plain.config, shunya: { delayed_update: isDelayed } }, steps: 3 };
              const answer = await run(2, job);
              const { plan } = await expectForecast(job, 2, answer, [0, 1]);
              for (const rank of [0, 1]) {
                expectFormulas(plan, lastReport(answer, rank));
                expectPlanned(plan, answer, rank);
              }
              expect(expectedCopies(plan).length).toBeGreaterThan(0);
            }
      });
  });

  test("a world of one holds everything and sends nothing", async () => {
    for (const stage of [0, 1, 2, 3]) {
      const job = jobOf({ stage, precision: "bf16", accumulation: 1 });
      const answer = await run(1, job);
      const { plan } = await expectForecast(job, 1, answer, [0]);
      expectFormulas(plan, lastReport(answer, 0));
      expect(lastReport(answer, 0).traffic.reduceScatter.elementsSent).toBe(0);
      expect(lastReport(answer, 0).traffic.allGather.elementsSent).toBe(0);
    }
  });

  test("fp32 accumulation adds two bytes a gradient", async () => {
    for (const stage of [0, 1, 2, 3]) {
      const job = jobOf({ stage, precision: "bf16", accumulation: 2 });
      const inFp32 = { ...job, config: { ...job.config, data_types: { grad_accum_dtype: "fp32" } } };
      const answer = await run(2, inFp32);
      const { plan } = await expectForecast(inFp32, 2, answer, [0, 1]);
      expectFormulas(plan, lastReport(answer, 1));
      const plain = await forecastOf(job, 2);
      const added = lastReport(answer, 0).memory.device.gradients.current;
      expect(added).toBe(2 * plain.report.memory.device.gradients.current);
    }
  });

  test("a written reuse distance keeps a micro-batch's gathers: 2 psi instead of 3", async () => {
    const more = { stage3_max_reuse_distance: 1e9, stage3_max_live_parameters: 1e9 };
    for (const accumulation of [1, 2]) {
      const job = jobOf({ stage: 3, precision: "bf16", accumulation, more });
      const answer = await run(4, job);
      const { plan } = await expectForecast(job, 4, answer, [0, 3]);
      const { all } = paddedElements(plan);
      const { reduceScatter, allGather } = lastReport(answer, 0).traffic;
      const sent = reduceScatter.elementsSent + allGather.elementsSent;
      expect(sent).toBe((accumulation * 2 * all * 3) / 4);
      expect(lastReport(answer, 0).memory.device.gathered.peak).toBe(2 * all);
    }
  });
});

describe("peaks", () => {
  const layers = 12;
  const deep = (stage: number, more: object = {}): Job => ({
    ...jobOf({ stage, precision: "bf16", accumulation: 2, more }),
    model: gpt2({ layers }),
    wantsTrace: true,
  });
  const unitBytes = (plan: Plan): number[] =>
    plan.units.map((u) => 2 * u.flats.reduce((sum, f) => sum + f.paddedElements, 0));

  test("stage 3 gathers one unit and looks one ahead, in program order", async () => {
    for (const prefetch of [undefined, 0]) {
      const job = deep(3, prefetch === undefined ? {} : { stage3_prefetch_bucket_size: prefetch });
      const answer = await run(2, job);
      const { plan } = await expectForecast(job, 2, answer, [0, 1]);
      const bytes = unitBytes(plan);
      const { gathered, parameters } = lastReport(answer, 0).memory.device;
      expect(parameters.peak).toBe(parameters.current);
      expect(gathered.current).toBe(0);
      expect(gathered.peak).toBeLessThanOrEqual(Math.max(...bytes) + 2 * plan.sizes.prefetch.elements);
      expect(gathered.peak).toBeGreaterThanOrEqual(Math.max(...bytes));
      // The whole model would be far more: the bound means something.
      expect(gathered.peak).toBeLessThan(bytes.reduce((a, b) => a + b, 0) / 3);
      expectInProgramOrder(answer, plan.config.gradientAccumulation);
    }
  });

  /** Blocks are gathered and released one after the other, forward and then in reverse; the unit at hand and the next are whole. */
  function expectInProgramOrder(answer: JobAnswer, microBatches: number): void {
    const blocks = Array.from({ length: layers }, (_, i) => `transformer.h.${i}`);
    const pass = [...blocks, ...blocks.toReversed()];
    const program = Array.from({ length: microBatches }, () => pass).flat();
    const unitsOf = (what: TraceEntry["what"]): string[] =>
      answer.trace!.filter((t) => t.what === what).map((t) => t.unit);
    for (const what of ["gather", "release"] as const) {
      expect(unitsOf(what).filter((unit) => unit !== "(root)")).toEqual(program);
      // Before the blocks, and from the end of the forward pass to the start of the backward pass.
      expect(unitsOf(what).filter((unit) => unit === "(root)")).toHaveLength(2 * microBatches);
    }
    const whole = new Set<string>();
    for (const { what, unit } of answer.trace!) {
      if (what === "gather") {
        expect(whole).not.toContain(unit);
        whole.add(unit);
      } else expect(whole.delete(unit)).toBe(true);
      expect(whole.size).toBeLessThanOrEqual(2);
    }
    expect(whole.size).toBe(0);
  }

  test("a wider look-ahead moves the real peak and the forecast alike", async () => {
    const block = 2 * 32 * 32 * 12;
    const found: number[] = [];
    for (const blocks of [0, 1, 3]) {
      const job = deep(3, {
        stage3_prefetch_bucket_size: blocks * (block / 2 + 2000),
        stage3_max_live_parameters: 1e9,
      });
      const answer = await run(2, job);
      await expectForecast(job, 2, answer, [0, 1]);
      found.push(lastReport(answer, 0).memory.device.gathered.peak);
    }
    expect(found[1]! - found[0]!).toBeGreaterThan(0.9 * block);
    expect(found[2]! - found[1]!).toBeGreaterThan(1.8 * block);
  });

  test("stages 0 to 2 gather nothing", async () => {
    for (const stage of [0, 1, 2]) {
      const answer = await run(2, deep(stage));
      expect(answer.trace!).toEqual([]);
      expect(lastReport(answer, 0).memory.device.gathered.peak).toBe(0);
    }
  });

  test("gradients and buckets stay below the shard, the largest unit and the buckets in flight", async () => {
    for (const stage of [2, 3])
      for (const overlap_comm of [false, true]) {
        const job = deep(stage, { overlap_comm });
        const answer = await run(4, job);
        const { plan } = await expectForecast(job, 4, answer, [0]);
        const largest = Math.max(...unitBytes(plan));
        const { gradients, buckets } = lastReport(answer, 0).memory.device;
        expect(gradients.peak).toBe((2 * paddedElements(plan).all) / 4);
        const inFlight = (overlap_comm ? 2 : 1) * 2 * plan.sizes.reduceBucket.elements;
        expect(buckets.peak).toBeLessThanOrEqual(largest + inFlight);
        expect(buckets.peak).toBeGreaterThanOrEqual(largest);
        expect(buckets.peak).toBeLessThan((2 * paddedElements(plan).all) / 2);
      }
  });
});

describe("published sizes", () => {
  const planOf = (name: Gpt2Name, worldSize: number, stage: number): Plan =>
    createPlan({
      model: describeModel(new Gpt2(gpt2Configs[name])).description,
      config: configOf(
        { train_micro_batch_size_per_gpu: 1, bf16: { enabled: true }, zero_optimization: { stage } },
        worldSize,
      ),
      alignmentBytes: 256,
    });

  const published: Record<Gpt2Name, number> = {
    gpt2: 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
  };

  for (const name of Object.keys(gpt2Configs) as Gpt2Name[])
    test(`${name}: parameters, padding below 0.1 %, formulas`, () => {
      for (const n of [4, 8])
        for (const stage of [0, 1, 2, 3]) {
          const plan = planOf(name, n, stage);
          expect(plan.parameterElements).toBe(published[name]);
          expect(plan.paddingElements / plan.parameterElements).toBeLessThan(0.001);
          const { parameters, gradients, optimizer } = expectedStates(plan);
          const { all, persistent } = paddedElements(plan);
          const bytesEach = [16, 4 + 12 / n, 2 + 14 / n, 16 / n][stage]!;
          expect(parameters.bytes + gradients.bytes + optimizer.bytes).toBe(bytesEach * all);
          const formula = parameters.formulaBytes + gradients.formulaBytes + optimizer.formulaBytes;
          expect(formula).toBeCloseTo(bytesEach * published[name], 0);
          const sent = expectedTraffic(plan).reduce((sum, t) => sum + t.elements, 0);
          expect(sent).toBe(trafficFormula(stage, all, persistent, n, 1));
        }
    });
});
