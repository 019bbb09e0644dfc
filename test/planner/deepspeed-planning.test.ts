// Questions that people asked in public ("does this model fit on these cards?"), and what became of them.
import { expect, test } from "vitest";
import type { Placement } from "../../src/plan/placement.ts";
import {
  type DeepSpeedQuestion,
  deepSpeedPlacements,
  defaultBuckets,
  estimateDeepSpeed,
} from "../../src/planner/deepspeed.ts";
import { shortagesOf } from "../../src/planner/fit.ts";
import type { TransformerShape } from "../../src/planner/shape.ts";
import { shapeForParameters } from "../../src/planner/shape-for-parameters.ts";
import { type Card, cards, verdictOf } from "./measured-fits.ts";
import { ask, at, GB, model } from "./measured-kit.ts";

interface Case {
  readonly shape: TransformerShape;
  readonly ranks: number;
  readonly card: Card;
  /** Of the node. */
  readonly hostBytes?: number;
  readonly diskBytes?: number;
  readonly more?: Partial<DeepSpeedQuestion>;
}

/** What is short of one placement, at micro-batch 1 with checkpointing. */
function shortages(placement: Placement, { shape, ranks, card, hostBytes = 2000 * GB, diskBytes = 0, more }: Case) {
  const estimate = estimateDeepSpeed(ask(placement, { shape, ranks, seqLength: 2048, checkpointing: true, ...more }));
  const ranksPerNode = Math.min(8, ranks);
  return shortagesOf(estimate, {
    deviceBytes: cards[card] - estimate.contextBytes,
    hostBytes: hostBytes / ranksPerNode,
    diskBytes: diskBytes / ranksPerNode,
    hostSharers: ranksPerNode,
  });
}

/** The first placement that fits: fewest offloads, then the smallest stage. */
const recommended = (job: Case): Placement | undefined =>
  deepSpeedPlacements().find((placement) => shortages(placement, job).length === 0);

const hostGigabytes = (placement: Placement, { shape, ranks }: Case): number =>
  (estimateDeepSpeed(ask(placement, { shape, ranks })).hostBytes * Math.min(8, ranks)) / GB;

const of13B = model("llama-13b");

test("P01: 13B on A100-40 and A100-80", () => {
  expect(recommended({ shape: of13B, ranks: 8, card: "A100-40" })).toEqual(at(3));
  expect(recommended({ shape: of13B, ranks: 16, card: "A100-40" })).toEqual(at(3));
  expect(recommended({ shape: of13B, ranks: 4, card: "A100-40" })).toEqual(at(2, "cpu"));
  expect(recommended({ shape: of13B, ranks: 8, card: "A100-80" })).toEqual(at(2));
  const host = hostGigabytes(at(2, "cpu"), { shape: of13B, ranks: 4, card: "A100-40" });
  expect(host).toBeGreaterThan(208);
  expect(host).toBeLessThan(312);
});

test("P03: 13B on 2 A100-40 needs the optimizer on the host; 10 cards of 45 GB fit on paper at stage 3", () => {
  const two: Case = { shape: of13B, ranks: 2, card: "A100-40" };
  // The thread's answer is stage 3; stage 2 needs no more offload, and fits too.
  expect(recommended(two)).toEqual(at(2, "cpu"));
  expect(shortages(at(3, "cpu"), two)).toEqual([]);
  expect(recommended({ shape: of13B, ranks: 10, card: "A40-48" })).toEqual(at(3));
});

test("P05: T5-11B's size on one card: offload in 16 bits, never in fp32", () => {
  const one: Case = { shape: shapeForParameters(11.3e9), ranks: 1, card: "A100-40", more: { seqLength: 512 } };
  expect(recommended(one)).toEqual(at(2, "cpu"));
  const fp32 = { ...one, more: { seqLength: 512, precision: "fp32" } as const };
  expect(shortages(at(2, "cpu"), fp32)).toContain("device");
  expect(shortages(at(3, "cpu", "cpu"), { ...one, card: "V100-32" })).toEqual([]);
});

test("P07: 33B on 8 A800-80: stage 3 alone does not fit, with the optimizer on the host it does", () => {
  const job: Case = { shape: shapeForParameters(33.3e9), ranks: 8, card: "A100-80", hostBytes: 1200 * GB };
  expect(shortages(at(3), job)).toEqual(["device"]);
  expect(recommended(job)).toEqual(at(3, "cpu"));
  expect(shortages(at(3, "cpu"), { ...job, hostBytes: 1000 * GB })).toEqual([]);
  expect(shortages(at(3, "cpu"), { ...job, hostBytes: 512 * GB })).toEqual(["host"]);
  const host = hostGigabytes(at(3, "cpu"), job);
  expect(host).toBeGreaterThan(533);
  expect(host).toBeLessThan(800);
});

test("P09: 7B on one A100-40 with 94 GB of host memory: the optimizer goes to NVMe, parameters stay on the card", () => {
  const job: Case = { shape: model("llama-7b"), ranks: 1, card: "A100-40", hostBytes: 94 * GB };
  expect(shortages(at(3, "cpu", "cpu"), job)).toEqual(["host"]);
  expect(recommended(job)).toBeUndefined();
  expect(recommended({ ...job, diskBytes: 500 * GB })).toEqual(at(3, "nvme"));
});

test("P11: OPT-1.3B on a card of 14.6 GB: optimizer on the host; two cards do not do at stage 1", () => {
  const job: Case = { shape: model("opt-1.3b"), ranks: 1, card: "T4-16", hostBytes: 64 * GB };
  expect(recommended(job)).toEqual(at(1, "cpu"));
  const host = hostGigabytes(at(1, "cpu"), job);
  expect(host).toBeGreaterThan(16);
  expect(host).toBeLessThan(32);
  expect(shortages(at(1), { ...job, ranks: 2 })).toEqual(["device"]);
  // 10.6 GB of states at stage 3 leave room once buckets and sub-groups are not made for models ten times as large; still less than
  // the rule of fit wants.
  const small = { ...defaultBuckets, reduceElements: 5e7, liveElements: 1e8, subGroupElements: 1e8 };
  const two = ask(at(3), { shape: job.shape, ranks: 2, seqLength: 2048, checkpointing: true });
  const usable = cards["T4-16"] - estimateDeepSpeed(two).contextBytes;
  expect(verdictOf(estimateDeepSpeed(two).peakBytes, usable)).toBe("does not fit");
  expect(verdictOf(estimateDeepSpeed({ ...two, buckets: small }).peakBytes, usable)).toBe("tight");
});

test("P13: 6B on 4 A40 with 100 GB of host memory: no offload", () => {
  const job: Case = { shape: model("gpt-j-6b"), ranks: 4, card: "A40-48", hostBytes: 100 * GB };
  // Stage 2 leaves 14.2 % of what is usable, so the next stage is named.
  expect(recommended(job)).toEqual(at(3));
  expect(shortages(at(1), job)).toEqual(["device"]);
  expect(shortages(at(2, "cpu"), job)).toEqual(["host"]);
});

test("P15: two models of 6B loaded by each of 8 ranks need more than 256 GB of host memory", () => {
  const both = { ...model("gpt-j-6b"), parameters: 2 * 6.05e9 };
  const job: Case = { shape: both, ranks: 8, card: "A100-80", hostBytes: 256 * GB };
  expect(shortages(at(3), { ...job, more: { zeroInit: false } })).toEqual(["host"]);
  expect(shortages(at(3), job)).toEqual([]);
});

test("P17: GPT-J on one card of 80 GB with 126 GB of host memory: refused at every stage", () => {
  const job: Case = { shape: model("gpt-j-6b"), ranks: 1, card: "A100-80", hostBytes: 126 * GB };
  expect(recommended(job)).toBeUndefined();
  for (const placement of [at(2, "cpu"), at(3, "cpu")]) expect(shortages(placement, job)).toEqual(["host"]);
});

test("P19: 13B on 8 A100-80: at rest as measured at both stages, and more at the peak of the higher one", () => {
  const allocated = (stage: 2 | 3) => estimateDeepSpeed(ask(at(stage), { shape: of13B, ranks: 8 })).allocatedBytes;
  expect(Math.abs(allocated(2) / (45.46 * 2 ** 30) - 1)).toBeLessThan(0.05);
  expect(Math.abs(allocated(3) / (25.31 * 2 ** 30) - 1)).toBeLessThan(0.05);
  const peak = (stage: 2 | 3) =>
    estimateDeepSpeed(ask(at(stage), { shape: of13B, ranks: 8, zeroInit: false })).peakBytes;
  expect(peak(3)).toBeGreaterThan(peak(2));
});
