// The estimator of PyTorch + DeepSpeed against published formulas and measured jobs.
// `npx vitest run test/planner/deepspeed.test.ts -u` writes the tables of docs/deepspeed-estimates.md.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Stage } from "../../src/config/types.ts";
import { keptBytesPerToken } from "../../src/planner/deepspeed/activations.ts";
import {
  type DeepSpeedQuestion,
  deepSpeedPlacements,
  deepSpeedZero2Estimate,
  deepSpeedZero3Estimate,
  estimateDeepSpeed,
} from "../../src/planner/deepspeed.ts";
import { estimatedVerdict, isRight, measuredFits } from "./measured-fits.ts";
import { estimatedBytes, measuredJobs } from "./measured-jobs.ts";
import { ask, at, GiB, model } from "./measured-kit.ts";
import { measuredPage } from "./measured-page.ts";

describe("measured jobs", () => {
  test.each(measuredJobs)("$id, $quantity: $setup", (job) => {
    const error = Math.abs(estimatedBytes(job, estimateDeepSpeed(job.question)) / job.measuredBytes - 1);
    // A row that is said to be missed and is not should lose its note.
    if (job.missed === undefined) expect(error).toBeLessThanOrEqual(job.within);
    else expect(error).toBeGreaterThan(job.within);
  });

  test.each(measuredFits)("$id, $outcome: $setup", (fit) => {
    const verdict = estimatedVerdict(fit, estimateDeepSpeed(fit.question));
    expect(isRight(fit, verdict), verdict).toBe(fit.missed === undefined);
  });

  test("the page shows every row", async () => {
    const page = readFileSync(new URL("../../docs/deepspeed-estimates.md", import.meta.url), "utf8");
    const [before, rest] = page.split("<!-- generated -->\n");
    const after = rest?.split("<!-- end of generated -->")[1];
    expect(after).toBeDefined();
    const text = `${before}<!-- generated -->\n\n${measuredPage()}\n\n<!-- end of generated -->${after}`;
    await expect(text).toMatchFileSnapshot("../../docs/deepspeed-estimates.md");
  });
});

describe("states at rest", () => {
  /** GB of 1.5e9 parameters without the workspaces. */
  const stateGigabytes = (stage: Stage, ranks: number, more: Partial<DeepSpeedQuestion> = {}): number => {
    const shape = { ...model("gpt2-xl"), parameters: 1.5e9 };
    const buckets = { ...ask(at(3), { shape, ranks }).buckets, reduceElements: 0, persistenceElements: 0 };
    const { allocatedBytes } = estimateDeepSpeed(ask(at(stage), { shape, ranks, buckets, ...more }));
    return (allocatedBytes - 2 ** 26) / 1e9;
  };

  test("16 bytes a parameter, split as the stage says", () => {
    expect(([0, 1, 2, 3] as const).map((stage) => stateGigabytes(stage, 4))).toEqual([24, 10.5, 8.25, 6]);
  });

  test("18 with gradients in fp32, 12 for SGD with momentum and gradients in 16 bits", () => {
    expect(stateGigabytes(0, 1, { gradientAccumulationBytes: 4 })).toBeCloseTo(1.5 * 18, 6);
    expect(stateGigabytes(0, 1, { optimizerBytes: 8 })).toBeCloseTo(1.5 * 12, 6);
  });
});

describe("activations", () => {
  const gpt = (hidden: number, heads: number): Parameters<typeof keptBytesPerToken>[0] => ({
    shape: { ...model("gpt3-175b"), hidden, heads, keyValueHeads: heads, feedForward: 4 * hidden },
    precision: "fp16",
    seqLength: 2048,
    flashAttention: false,
    fusedLoss: false,
  });

  // Korthikanti et al. 2022: a layer of 2048 tokens without recomputation, 22B, 175B, 530B and 1T, in GiB.
  test.each([
    [6144, 64, 1.648],
    [12288, 96, 2.672],
    [20480, 128, 3.828],
    [25600, 160, 4.785],
  ])("a layer %i wide keeps what the paper says", (hidden, heads, gib) => {
    expect((keptBytesPerToken(gpt(hidden, heads)) * 2048) / GiB).toBeCloseTo(gib, 3);
  });

  test("flash attention leaves 34 bytes an element and a number for each head", () => {
    expect(keptBytesPerToken({ ...gpt(12288, 96), flashAttention: true })).toBe(34 * 12288 + 4 * 96);
  });

  test("a layer of Llama-3.1-8B keeps about the 28 copies that were measured", () => {
    const layer = { ...gpt(4096, 32), shape: model("llama-3-8b"), precision: "bf16" as const, flashAttention: true };
    expect(keptBytesPerToken(layer) / (2 * 4096)).toBeGreaterThan(0.85 * 28);
    expect(keptBytesPerToken(layer) / (2 * 4096)).toBeLessThan(1.05 * 28);
  });
});

describe("an estimate", () => {
  const shape = model("llama-2-7b");

  test("is the sum of its parts, and its total the fullest moment", () => {
    for (const placement of deepSpeedPlacements()) {
      for (const zeroInit of [true, false]) {
        const estimate = estimateDeepSpeed(ask(placement, { shape, ranks: 8, seqLength: 2048, zeroInit }));
        const { parametersBytes, gradientsBytes, optimizerBytes, activationsBytes, buffersBytes, totalBytes } =
          estimate.device;
        const kinds = parametersBytes + gradientsBytes + optimizerBytes + activationsBytes + buffersBytes;
        expect(kinds).toBeCloseTo(totalBytes, 0);
        expect(estimate.parts.reduce((bytes, part) => bytes + part.bytes, 0)).toBeCloseTo(totalBytes, 0);
        expect(Math.max(...Object.values(estimate.moments))).toBe(totalBytes);
        expect(estimate.reservedBytes).toBeGreaterThanOrEqual(totalBytes);
        expect(estimate.allocatedBytes).toBeLessThanOrEqual(
          Math.max(...(["loss", "backward", "update"] as const).map((moment) => estimate.moments[moment]!)),
        );
      }
    }
  });

  test("says how each part came about, with its numbers", () => {
    const { parts, fullestMoment } = estimateDeepSpeed(
      ask(at(3), { shape, ranks: 8, seqLength: 2048, checkpointing: true }),
    );
    expect(fullestMoment).toBe("update");
    expect(parts.map(({ name, bytes, why }) => `${name}: ${bytes}: ${why}`)).toEqual([
      "parameters: 1684603904: 2 bytes x 6,738,415,616 parameters / 8 ranks",
      "master weights and moments: 10107623424: 12 bytes x 6,738,415,616 parameters / 8 ranks",
      "workspaces: 67108864: cuBLAS, 2 x 32 MiB",
      "reduce bucket: 1000000000: 2 bytes x reduce_bucket_size 500,000,000",
      "persistent parameters: 524288: norms and biases up to stage3_param_persistence_threshold",
      "gradients: 1684603904: 2 bytes x 6,738,415,616 parameters / 8 ranks",
      "gradients of a sub-group: 5053811712: 6 bytes x 842,301,952: sub_group_size, at most what the rank has",
    ]);
  });

  test("grows with the batch, and shrinks with ranks and with checkpointing", () => {
    const peak = (more: Partial<DeepSpeedQuestion>) =>
      estimateDeepSpeed(ask(at(3), { shape, ranks: 8, seqLength: 4096, ...more })).peakBytes;
    expect(peak({ microBatch: 2 })).toBeGreaterThan(peak({}));
    expect(peak({ ranks: 16 })).toBeLessThan(peak({}));
    expect(peak({ checkpointing: true })).toBeLessThan(peak({}));
    expect(peak({ fusedLoss: true })).toBeLessThan(peak({}));
    expect(peak({ flashAttention: false })).toBeGreaterThan(peak({}));
  });

  test("two buckets with overlap_comm: 1 GB more at stage 2", () => {
    const loss = (overlapComm: boolean) =>
      estimateDeepSpeed(ask(at(2), { shape, ranks: 8, overlapComm })).moments.loss!;
    expect(loss(true) - loss(false)).toBe(1e9);
  });

  test("puts 18 to 25 bytes a parameter on the hosts with both offloads, and 16 on disks", () => {
    const host = estimateDeepSpeed(ask(at(3, "cpu", "cpu"), { shape, ranks: 8 }));
    expect((host.hostBytes * 8) / shape.parameters).toBeGreaterThan(18);
    expect((host.hostBytes * 8) / shape.parameters).toBeLessThan(25);
    const disk = estimateDeepSpeed(ask(at(3, "nvme", "nvme"), { shape, ranks: 8 }));
    expect((disk.diskBytes * 8) / shape.parameters).toBeCloseTo(18, 6);
    expect(disk.device.parametersBytes + disk.device.gradientsBytes + disk.device.optimizerBytes).toBe(0);
  });

  test("counts what DeepSpeed's collectives send: its stage 2 reduces with an all-reduce", () => {
    const sent = (stage: Stage, gradientAccumulation: number) =>
      estimateDeepSpeed(ask(at(stage), { shape, ranks: 4, gradientAccumulation })).commElements / shape.parameters;
    expect(([0, 1, 2, 3] as const).map((stage) => sent(stage, 1))).toEqual([1.5, 2.25, 2.25, 2.25]);
    expect(sent(2, 4)).toBe(0.75 * 9);
  });

  test("refuses what DeepSpeed does not have", () => {
    expect(() => estimateDeepSpeed(ask(at(2, "nvme"), { shape, ranks: 8 }))).toThrow(
      /NVMe and offload_param need stage 3/,
    );
    expect(() => estimateDeepSpeed(ask(at(0, "cpu"), { shape, ranks: 8 }))).toThrow(/needs stage 1/);
  });
});

// Reference outputs of DeepSpeed's own functions, GiB: [host, device].
describe("DeepSpeed's published estimators", () => {
  const t5 = { parameters: 2851e6, largestLayerParameters: 32e6 };
  const llama = { parameters: 6738415616, largestLayerParameters: 131072000 };
  type Pair = readonly [host: number, device: number];
  type Row = readonly [offload: Pair, none: Pair, ...zero3: Pair[]];
  const rows: readonly [models: typeof t5, ranksPerNode: number, nodes: number, Row][] = [
    [
      t5,
      1,
      1,
      [
        [63.72, 5.31],
        [15.93, 53.1],
        [71.69, 0.12],
        [71.69, 0.12],
        [63.72, 5.43],
        [63.72, 5.43],
        [0.18, 47.91],
        [15.93, 47.91],
      ],
    ],
    [
      t5,
      8,
      1,
      [
        [127.45, 5.31],
        [127.45, 11.28],
        [71.69, 0.12],
        [127.45, 0.12],
        [63.72, 0.78],
        [127.45, 0.78],
        [1.43, 6.09],
        [127.45, 6.09],
      ],
    ],
    [
      t5,
      8,
      4,
      [
        [509.8, 5.31],
        [127.45, 6.8],
        [17.92, 0.12],
        [127.45, 0.12],
        [15.93, 0.29],
        [127.45, 0.29],
        [1.43, 1.61],
        [127.45, 1.61],
      ],
    ],
    [
      llama,
      1,
      1,
      [
        [150.62, 12.55],
        [37.65, 125.51],
        [169.44, 0.49],
        [169.44, 0.49],
        [150.62, 13.04],
        [150.62, 13.04],
        [0.73, 113.45],
        [37.65, 113.45],
      ],
    ],
    [
      llama,
      8,
      1,
      [
        [301.23, 12.55],
        [301.23, 26.67],
        [169.44, 0.49],
        [301.23, 0.49],
        [150.62, 2.06],
        [301.23, 2.06],
        [5.86, 14.61],
        [301.23, 14.61],
      ],
    ],
    [
      llama,
      8,
      4,
      [
        [1204.92, 12.55],
        [301.23, 16.08],
        [42.36, 0.49],
        [301.23, 0.49],
        [37.65, 0.88],
        [301.23, 0.88],
        [5.86, 4.02],
        [301.23, 4.02],
      ],
    ],
  ];

  test.each(rows)("%j on %i x %i", (question, ranksPerNode, nodes, expected) => {
    const cluster = { ...question, ranksPerNode, nodes };
    const zero3 = (["optimizer and parameters", "optimizer", "none"] as const).flatMap((offload) =>
      [true, false].map((zeroInit) => deepSpeedZero3Estimate({ ...cluster, offload, zeroInit })),
    );
    const zero2 = [true, false].map((offloadOptimizer) => deepSpeedZero2Estimate({ ...cluster, offloadOptimizer }));
    const found = [...zero2, ...zero3].map(({ hostBytes, deviceBytes }) => [hostBytes, deviceBytes]);
    const rounded = found.map((pair) => pair.map((bytes) => Math.round((100 * bytes) / GiB) / 100));
    expect(rounded).toEqual(expected);
  });
});
