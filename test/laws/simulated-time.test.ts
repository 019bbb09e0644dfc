// The time that a forecast tells: what may not change with it, what bounds it, what hides behind what, and what counting leaves out.
import { describe, expect, test } from "vitest";
import { SimulatedTransport } from "../../src/comm/simulated.ts";
import { Device } from "../../src/device/device.ts";
import { SimulatedBackend } from "../../src/device/simulated.ts";
import type { QueueSpan } from "../../src/device/timeline.ts";
import { costsOf } from "../../src/hardware/costs.ts";
import type { Machine } from "../../src/hardware/machine.ts";
import { Gpt2, type LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { HostBatch } from "../../src/zero/batch.ts";
import { Engine } from "../../src/zero/engine.ts";
import { type Forecast, forecast } from "../../src/zero/forecast.ts";
import type { RankReport } from "../../src/zero/record.ts";
import { roundMachine } from "../hardware/machines.ts";
import { configOf } from "./jobs.ts";
import { tinyGpt2 } from "./models.ts";

const shape = { ...tinyGpt2, vocabularySize: 1024, positions: 512, hidden: 512, layers: 3, heads: 8 };

interface Asked {
  readonly zero: object;
  readonly accumulation?: number;
  readonly ranks?: number;
  readonly rank?: number;
  readonly delayedFrom?: number;
}

const configFor = ({ zero, accumulation = 1, ranks = 8, delayedFrom }: Asked) =>
  configOf(
    {
      train_micro_batch_size_per_gpu: 4,
      gradient_accumulation_steps: accumulation,
      bf16: { enabled: true },
      optimizer: { type: "AdamW" },
      gradient_clipping: 1,
      zero_optimization: zero,
      ...(delayedFrom !== undefined && { shunya: { delayed_update: { start_step: delayedFrom } } }),
    },
    ranks,
  );

function batchFor(microBatch: number, seqLength: number): HostBatch<LanguageBatch> {
  const field = { data: new Int32Array(microBatch * seqLength), shape: [microBatch, seqLength] };
  return { inputs: field, targets: field };
}
const batch = batchFor(4, 512);

/** On a machine, or without a clock. */
const foretell = (asked: Asked, machine?: Machine, spans?: QueueSpan[]): Promise<Forecast> =>
  forecast({
    model: new Gpt2(shape),
    config: configFor(asked),
    threads: 1,
    batch,
    ...(asked.rank !== undefined && { rank: asked.rank }),
    ...(machine && { costs: costsOf(machine, asked.ranks ?? 8) }),
    ...(spans && { sink: { queues: (more) => spans.push(...more), program: () => {} } }),
  });

interface Ran {
  readonly seconds: number;
  readonly computeSeconds: number;
  readonly overlap: RankReport["overlap"];
}

/** The last of four steps of an engine that runs every micro-batch. */
async function runAll(asked: Asked, machine: Machine): Promise<Ran> {
  const { accumulation = 1, ranks = 8 } = asked;
  const device = new Device({ backend: new SimulatedBackend(1, costsOf(machine, ranks)), arenaBytes: 2 ** 52 });
  const transport = new SimulatedTransport(0, ranks);
  await using engine = await Engine.create({ model: new Gpt2(shape), config: configFor(asked), device, transport });
  const spans: QueueSpan[] = [];
  device.timeline.measureOverlap();
  device.timeline.record({ queues: (more) => spans.push(...more), program: () => {} });
  for (let step = 1; ; step++) {
    spans.length = 0;
    for (let i = 0; i < accumulation; i++) await engine.backward(await engine.forward(batch));
    const { seconds, ranks: reports } = (await engine.step())!;
    device.timeline.drain();
    if (step === 4) return { seconds, computeSeconds: computeSum(spans), overlap: reports[0]!.overlap };
  }
}

/** Seconds of compute's ops. */
const computeSum = (spans: readonly QueueSpan[]): number =>
  spans
    .filter(({ queue, op }) => queue === "compute" && op !== undefined)
    .reduce((sum, { start, end }) => sum + (end - start) / 1e6, 0);

const onHost = { offload_optimizer: { device: "cpu" } };
const onDisk = {
  offload_optimizer: { device: "nvme", nvme_path: "/drive" },
  offload_param: { device: "nvme", nvme_path: "/drive" },
};
const ways: readonly (readonly [words: string, asked: Asked])[] = [
  ["stage 0", { zero: { stage: 0 } }],
  ["stage 1", { zero: { stage: 1 } }],
  ["stage 2", { zero: { stage: 2 } }],
  ["stage 3", { zero: { stage: 3 } }],
  ["stage 1, optimizer on the host", { zero: { stage: 1, ...onHost } }],
  ["stage 2, optimizer on the host", { zero: { stage: 2, ...onHost } }],
  ["stage 2, a delayed update", { zero: { stage: 2, ...onHost }, delayedFrom: 1 }],
  ["stage 3, all on the host", { zero: { stage: 3, ...onHost, offload_param: { device: "cpu" } } }],
  ["stage 3, all on disk", { zero: { stage: 3, ...onDisk } }],
];

describe.each(ways)("%s", (_, asked) => {
  test("a clock changes no byte, no element and no operation", async () => {
    for (const accumulation of [1, 2, 5]) {
      const plain = await foretell({ ...asked, accumulation });
      const timed = await foretell({ ...asked, accumulation }, roundMachine);
      const { overlap: _, ...report } = plain.report;
      expect(timed.report).toMatchObject(report);
      expect(timed.highest).toEqual(plain.highest);
      expect(timed.highestInMemory).toBe(plain.highestInMemory);
      expect(timed.operationsByUnit).toEqual(plain.operationsByUnit);
      expect([plain.seconds, plain.computeSeconds]).toEqual([0, 0]);
      expect(timed.seconds).toBeGreaterThan(0);
    }
  });

  test("with ways of no length a step takes as long as its compute", async () => {
    const instant = { name: "instant", bytesPerSecond: 1e30, latencySeconds: 0 };
    const machine: Machine = {
      ...roundMachine,
      peerLink: instant,
      networkLink: instant,
      hostLink: instant,
      host: { ...roundMachine.host, memoryBytesPerSecond: 1e30 },
      drive: {
        ...roundMachine.drive,
        readBytesPerSecond: 1e30,
        writeBytesPerSecond: 1e30,
        mixedBytesPerSecond: 2e30,
      },
    };
    const spans: QueueSpan[] = [];
    const { seconds, computeSeconds } = await foretell(asked, machine, spans);
    expect(spans.length).toBeGreaterThan(100);
    expect(seconds).toBeCloseTo(computeSum(spans), 9);
    expect(computeSeconds).toBeCloseTo(computeSum(spans), 9);
  });

  test("micro-batches that are counted take what they take when they are run", async () => {
    const many = { ...asked, accumulation: 7 };
    const [counted, run] = [await foretell(many, roundMachine), await runAll(many, roundMachine)];
    expect(Math.abs(counted.seconds / run.seconds - 1)).toBeLessThan(0.01);
    for (const queue of Object.keys(run.overlap) as (keyof typeof run.overlap)[])
      for (const field of ["seconds", "waitedSeconds"] as const)
        expect(Math.abs(counted.report.overlap[queue][field] - run.overlap[queue][field])).toBeLessThan(
          0.01 * run.seconds,
        );
    expect(Math.abs(counted.computeSeconds / run.computeSeconds - 1)).toBeLessThan(0.01);
  });
});

test("a delayed update that outlasts a few micro-batches hides behind many", async () => {
  const slow: Machine = { ...roundMachine, host: { ...roundMachine.host, memoryBytesPerSecond: 1e10 } };
  const secondsAt: Record<number, number> = {};
  for (const accumulation of [3, 4, 24]) {
    const asked = { zero: { stage: 1, ...onHost }, delayedFrom: 1, accumulation };
    const [counted, run] = [await foretell(asked, slow), await runAll(asked, slow)];
    expect(Math.abs(counted.seconds / run.seconds - 1)).toBeLessThan(0.01);
    secondsAt[accumulation] = run.seconds;
  }
  // One more micro-batch beside the update is not what one more takes without it.
  const straight = secondsAt[3]! + 21 * (secondsAt[4]! - secondsAt[3]!);
  expect(Math.abs(straight / secondsAt[24]! - 1)).toBeGreaterThan(0.05);
});

describe("overlap", () => {
  const withPeers = (bytesPerSecond: number): Machine => ({
    ...roundMachine,
    peerLink: { ...roundMachine.peerLink, bytesPerSecond },
  });

  test.each([0, 1, 2, 3])("stage %i: a step is its compute and what compute waited for collectives", async (stage) => {
    const { seconds, computeSeconds, report } = await foretell({ zero: { stage } }, roundMachine);
    const { collective } = report.overlap;
    expect(seconds).toBeCloseTo(computeSeconds + collective.waitedSeconds, 5);
    expect(collective.waitedSeconds).toBeGreaterThan(0);
    expect(collective.waitedSeconds).toBeLessThanOrEqual(collective.seconds);
  });

  test("a link twice as fast saves what was exposed of its transfers, and nothing of what was hidden", async () => {
    const at = (rate: number): Promise<Forecast> => foretell({ zero: { stage: 3 } }, withPeers(rate));
    const [slow, fast] = [await at(1e11), await at(2e11)];
    const [was, is] = [slow.report.overlap.collective, fast.report.overlap.collective];
    // Most of it was hidden,
    expect(was.waitedSeconds / was.seconds).toBeLessThan(0.5);
    expect(was.seconds - is.seconds).toBeGreaterThan(0.4 * was.seconds);
    // and the step is shorter by what compute waits less.
    expect(slow.seconds - fast.seconds).toBeCloseTo(was.waitedSeconds - is.waitedSeconds, 5);
    expect(slow.seconds - fast.seconds).toBeLessThan(0.5 * (was.seconds - is.seconds));
  });

  test("where gathers take longer than compute, a link twice as fast takes nearly half off a step", async () => {
    const at = async (rate: number): Promise<number> =>
      (await foretell({ zero: { stage: 3 } }, withPeers(rate))).seconds;
    expect((await at(1e9)) / (await at(2e9))).toBeGreaterThan(1.8);
  });
});

describe("an optimizer on the host", () => {
  const withHost = (memoryBytesPerSecond: number): Machine => ({
    ...roundMachine,
    host: { ...roundMachine.host, memoryBytesPerSecond },
  });
  const asked: Asked = { zero: { stage: 2, ...onHost } };
  const isOp = (queue: QueueSpan["queue"], op: QueueSpan["op"]) => (span: QueueSpan) =>
    span.queue === queue && span.op === op;
  const unitOf = ({ scope }: QueueSpan): string => scope.replace(/ (forward|backward)$/, "");

  test("no update begins before the last gradient is down and its norm known", async () => {
    const spans: QueueSpan[] = [];
    await foretell(asked, withHost(8e10), spans);
    const [updates, norms, down] = [
      spans.filter(isOp("update", "adam")),
      spans.filter(isOp("update", "squareSum")),
      spans.filter(isOp("down", "copy")),
    ];
    expect(Math.min(updates.length, norms.length, down.length)).toBeGreaterThanOrEqual(8);
    // The updates that run in a step are those of the step before: its own begin when its norm is known, which is its end.
    const lastUpdate = Math.max(...updates.map(({ end }) => end));
    const firstDown = Math.min(...down.map(({ start }) => start));
    const lastDown = Math.max(...down.map(({ end }) => end));
    expect(lastUpdate).toBeLessThanOrEqual(firstDown);
    expect(Math.max(...norms.map(({ end }) => end))).toBeGreaterThan(lastDown);
  });

  test("the update hides behind the next forward pass, unit by unit", async () => {
    const spans: QueueSpan[] = [];
    await foretell(asked, withHost(2e10), spans);
    const units = [0, 1, 2].map((i) => `transformer.h.${i}`);
    const updated = units.map((unit) =>
      Math.max(...spans.filter((s) => isOp("update", "adam")(s) && unitOf(s) === unit).map(({ end }) => end)),
    );
    const begun = units.map((unit) =>
      Math.min(
        ...spans
          .filter(({ queue, op, scope }) => queue === "compute" && op === "matmul" && scope === `${unit} forward`)
          .map(({ start }) => start),
      ),
    );
    // A unit runs once its own parameters are there, while those of the next are still updated.
    for (const [i, end] of updated.entries()) expect(begun[i]!).toBeGreaterThan(end);
    expect(begun[0]!).toBeLessThan(updated[1]!);
    expect(begun[1]!).toBeLessThan(updated[2]!);
  });

  test("a slow update lengthens a step by less than itself, a fast one by little", async () => {
    const at = (rate: number): Promise<Forecast> => foretell(asked, withHost(rate));
    const [none, fast, slow] = [await at(1e30), await at(8e11), await at(2e10)];
    const [hidden, busy] = [slow.report.overlap.update, slow.seconds - none.seconds];
    expect(busy).toBeLessThan(hidden.seconds);
    expect(hidden.waitedSeconds).toBeLessThan(hidden.seconds);
    expect(fast.seconds).toBeLessThan(1.25 * none.seconds);
    expect(slow.seconds).toBeGreaterThan(2 * none.seconds);
  });

  test("a delayed update hides what a plain one does not", async () => {
    const machine = withHost(8e10);
    const [plain, delayed] = [await foretell(asked, machine), await foretell({ ...asked, delayedFrom: 1 }, machine)];
    expect(delayed.seconds).toBeLessThan(0.85 * plain.seconds);
    const waited = ({ report }: Forecast): number => report.overlap.update.waitedSeconds;
    expect(waited(delayed)).toBeLessThan(0.5 * waited(plain));
    // Later steps are foretold, whenever the delay begins.
    const late = await foretell({ ...asked, delayedFrom: 1000 }, machine);
    expect(late.seconds).toBe(delayed.seconds);
    expect(late.plan.config.delayedUpdateFrom).toBe(1000);
    expect(delayed.report.overlap.update.seconds).toBeCloseTo(plain.report.overlap.update.seconds, 6);
  });
});

describe("any world", () => {
  test.each([1, 8, 1024])("%i ranks are one class: the first and the last have equal forecasts", async (ranks) => {
    for (const zero of [{ stage: 2, ...onHost }, { stage: 3 }]) {
      const of = (rank: number): Promise<Forecast> => foretell({ zero, ranks, rank }, roundMachine);
      const [first, last] = [await of(0), await of(ranks - 1)];
      const { overlap: _, ...report } = first.report;
      expect(last.report).toMatchObject(report);
      expect(last.highest).toEqual(first.highest);
      expect(last.seconds).toBeCloseTo(first.seconds, 12);
      expect(last.computeSeconds).toBeCloseTo(first.computeSeconds, 12);
    }
  });

  test("a trillion parameters on 1024 ranks at stage 3, in under a minute and under 2 GB", async () => {
    const wide = { ...shape, layers: 128, hidden: 25_600, heads: 160, vocabularySize: 50_257, positions: 2048 };
    const started = performance.now();
    const before = process.memoryUsage().rss;
    const { seconds, report, plan } = await forecast({
      model: new Gpt2(wide),
      config: configFor({ zero: { stage: 3 }, ranks: 1024 }),
      threads: 1,
      batch: batchFor(4, 1024),
      costs: costsOf(roundMachine, 1024),
    });
    expect(process.memoryUsage().rss - before).toBeLessThan(2e9);
    expect(performance.now() - started).toBeLessThan(60_000);
    expect(plan.parameterElements).toBeGreaterThan(1e12);
    // 6 operations for each parameter and token, and those of attention; nothing beats what products reach.
    expect(report.operations).toBeGreaterThan(6 * 1e12 * 4096);
    expect(seconds).toBeGreaterThan((6 * 1e12 * 4096) / 1e14);
  }, 70_000);
});
