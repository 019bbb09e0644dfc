/** Jobs of which it is published whether they ran or ran out of memory. */
import {
  type DeepSpeedEstimate,
  type DeepSpeedQuestion,
  deepSpeedDefaults,
  transformersAutoBuckets,
} from "../../src/planner/deepspeed.ts";
import { allowedBytes } from "../../src/planner/fit.ts";
import type { TransformerShape } from "../../src/planner/shape.ts";
import { shapeForParameters } from "../../src/planner/shape-for-parameters.ts";
import { ask, at, GB, GiB, model } from "./measured-kit.ts";

/** What PyTorch calls a card's total capacity. */
export const cards = {
  "A100-40": 39.59 * GiB,
  "A100-80": 79.15 * GiB,
  "H100-80": 79.1 * GiB,
  "H200-141": 139.8 * GiB,
  "H100-96": 94.5 * GiB,
  "V100-32": 31.75 * GiB,
  "A40-48": 44.4 * GiB,
  "T4-16": 14.56 * GiB,
  "TITAN RTX-24": 23.65 * GiB,
} as const;
export type Card = keyof typeof cards;

export type Verdict = "fits" | "tight" | "does not fit";

/** By the rule of fit; "tight" is above what the rule allows and below what there is. */
export function verdictOf(neededBytes: number, usableBytes: number): Verdict {
  if (neededBytes <= allowedBytes(usableBytes)) return "fits";
  return neededBytes <= usableBytes ? "tight" : "does not fit";
}

/** A card's capacity less CUDA's context and NCCL. */
export const usableOf = (card: Card, estimate: DeepSpeedEstimate): number => cards[card] - estimate.contextBytes;

export interface MeasuredFit {
  readonly id: string;
  readonly source: string;
  readonly setup: string;
  readonly details?: string;
  readonly assumed?: string;
  readonly question: DeepSpeedQuestion;
  readonly card: Card;
  /** Of the node; given where the host decided. */
  readonly hostBytes?: number;
  readonly outcome: "ran" | "out of memory";
  /** The largest batch or model that its authors found: it may lie in the reserve that the rule of fit keeps. */
  readonly isLargest?: boolean;
  readonly missed?: string;
}

const falcon = {
  shape: model("falcon-7b"),
  ranks: 8,
  seqLength: 4096,
  checkpointing: true,
  flashAttention: false,
};
const falconRow = {
  id: "C1",
  source: "https://github.com/deepspeedai/DeepSpeed/issues/3901",
  assumed: "micro-batch 1, checkpointing, attention with a mask (not flash)",
  card: "A100-40",
} as const;

const offloaded = (name: string, more: Partial<DeepSpeedQuestion> = {}) => ({
  shape: model(name),
  ranks: 8,
  seqLength: 1024,
  checkpointing: true,
  buckets: transformersAutoBuckets(model(name)),
  ...more,
});

const reports: readonly MeasuredFit[] = [
  {
    id: "A6",
    source: "https://www.deepspeed.ai/tutorials/zero/",
    setup: "1.5B without ZeRO",
    assumed: "1 x 1024 tokens, checkpointing",
    question: ask(at(0), {
      shape: shapeForParameters(1.5e9),
      ranks: 8,
      seqLength: 1024,
      checkpointing: true,
      precision: "fp16",
    }),
    card: "V100-32",
    outcome: "out of memory",
  },
  {
    ...falconRow,
    setup: "Falcon-7B, 1 x 4096, ZeRO-2, 8 cards",
    question: ask(at(2), falcon),
    outcome: "out of memory",
  },
  { ...falconRow, setup: "Falcon-7B, 1 x 4096, ZeRO-3, 8 cards", question: ask(at(3), falcon), outcome: "ran" },
  {
    ...falconRow,
    setup: "Falcon-7B, 1 x 4096, ZeRO-3, both on host",
    question: ask(at(3, "cpu", "cpu"), falcon),
    outcome: "ran",
  },
  {
    id: "C11",
    source: "https://github.com/hiyouga/LLaMA-Factory/issues/6755",
    setup: "Qwen2.5-32B, ZeRO-3, both on host of 744 GB, one card",
    question: ask(at(3, "cpu", "cpu"), offloaded("qwen2.5-32b", { ranks: 1 })),
    card: "H100-96",
    hostBytes: 744 * GB,
    outcome: "out of memory",
  },
  {
    id: "C17",
    source: "https://huggingface.co/blog/accelerate-deepspeed",
    setup: "GPT-2 XL, ZeRO-3, both on host, one card, 16 x 128",
    question: ask(at(3, "cpu", "cpu"), {
      shape: model("gpt2-xl"),
      ranks: 1,
      microBatch: 16,
      seqLength: 128,
      flashAttention: false,
    }),
    card: "TITAN RTX-24",
    outcome: "ran",
    isLargest: true,
  },
  {
    id: "C26",
    source: "https://github.com/hiyouga/LLaMA-Factory/issues/7282",
    setup: "Llama 70B, ZeRO-3, 1 x 1024, 8 cards",
    question: ask(at(3), offloaded("llama-3-70b")),
    card: "H200-141",
    outcome: "out of memory",
  },
  {
    id: "C26",
    source: "https://github.com/hiyouga/LLaMA-Factory/issues/7282",
    setup: "the same, optimizer on the host",
    question: ask(at(3, "cpu"), offloaded("llama-3-70b")),
    card: "H200-141",
    outcome: "ran",
  },
  {
    id: "D1",
    source: "https://github.com/deepspeedai/DeepSpeed/issues/3448",
    setup: "Llama 33B, ZeRO-3, both on host, 1 x 2048, 8 cards",
    question: ask(at(3, "cpu", "cpu"), offloaded("llama-33b", { seqLength: 2048 })),
    card: "A100-40",
    outcome: "ran",
  },
  {
    id: "D3",
    source: "https://github.com/axolotl-ai-cloud/axolotl/issues/1439",
    setup: "Llama 70B, ZeRO-3, both on host of 1024 GB",
    question: ask(at(3, "cpu", "cpu"), offloaded("llama-2-70b")),
    card: "A100-80",
    hostBytes: 1024 * GB,
    outcome: "out of memory",
  },
  {
    id: "offload tutorial",
    source: "https://www.deepspeed.ai/tutorials/zero-offload/",
    setup: "10B, ZeRO-2, optimizer on host, one card, 10 x 1024",
    details: "50 layers, 4096 wide, buckets of 2e8",
    assumed: "checkpointing, attention matrices kept",
    question: ask(at(2, "cpu"), {
      shape: { ...model("gpt3-6.7b"), layers: 50, parameters: 10.28e9 },
      ranks: 1,
      microBatch: 10,
      seqLength: 1024,
      precision: "fp16",
      checkpointing: true,
      flashAttention: false,
      buckets: { ...deepSpeedDefaults.buckets, reduceElements: 2e8, allgatherElements: 2e8 },
    }),
    card: "V100-32",
    outcome: "ran",
    isLargest: true,
  },
];

// --- section G: the largest micro-batches of llm-foundry, sharded by PyTorch's FSDP ---

const mpt: Readonly<Record<string, Pick<TransformerShape, "parameters" | "layers" | "hidden" | "heads">>> = {
  "7b": { parameters: 6658859008, layers: 32, hidden: 4096, heads: 32 },
  "13b": { parameters: 12853954560, layers: 40, hidden: 5120, heads: 40 },
  "30b": { parameters: 29975214080, layers: 48, hidden: 7168, heads: 56 },
  "70b": { parameters: 64862437376, layers: 80, hidden: 8192, heads: 64 },
};

const mptShape = (size: string): TransformerShape => {
  const widths = mpt[size]!;
  return {
    ...model("gpt3-6.7b"),
    ...widths,
    name: `mpt-${size}`,
    keyValueHeads: widths.heads,
    feedForward: 4 * widths.hidden,
    vocabulary: 50368,
    hasDropout: false,
  };
};

/** FSDP gathers two blocks at a time, reduces a block's gradients, and makes no copies in the update. */
const fsdpBuckets = ({ hidden }: TransformerShape) => ({
  ...deepSpeedDefaults.buckets,
  reduceElements: 12 * hidden * hidden,
  liveElements: 24 * hidden * hidden,
  subGroupElements: 0,
});

type FoundryRow = readonly [size: string, seqLength: number, ranks: number, microBatch: number, checkpointing: boolean];

/** H100-80, bf16 with fp32 master weights. */
const foundryRows: readonly FoundryRow[] = [
  ["7b", 2048, 8, 6, false],
  ["7b", 4096, 8, 16, true],
  ["7b", 8192, 8, 8, true],
  ["7b", 32768, 8, 2, true],
  ["7b", 65536, 8, 1, true],
  ["13b", 2048, 8, 2, false],
  ["13b", 4096, 8, 10, true],
  ["30b", 2048, 8, 3, true],
  ["30b", 2048, 16, 10, true],
  ["30b", 2048, 32, 14, true],
  ["70b", 2048, 32, 2, true],
  ["70b", 2048, 64, 8, true],
];

const foundry: readonly MeasuredFit[] = foundryRows.map(([size, seqLength, ranks, microBatch, checkpointing]) => ({
  id: "G",
  source: "https://github.com/mosaicml/llm-foundry/blob/main/scripts/train/benchmarking/README.md",
  setup: `MPT-${size}, ${ranks} cards, ${microBatch} x ${seqLength}${checkpointing ? ", checkpointing" : ""}, FSDP`,
  assumed: "as stage 3 that gathers two blocks",
  question: ask(at(3), {
    shape: mptShape(size),
    ranks,
    microBatch,
    seqLength,
    checkpointing,
    buckets: fsdpBuckets(mptShape(size)),
  }),
  card: "H100-80",
  outcome: "ran",
  isLargest: true,
}));

export const measuredFits: readonly MeasuredFit[] = [...reports, ...foundry];

/** What a plan would say of a job; of the host where the row gives its size. */
export function estimatedVerdict(fit: MeasuredFit, estimate: DeepSpeedEstimate): Verdict {
  const device = verdictOf(estimate.device.totalBytes, usableOf(fit.card, estimate));
  if (fit.hostBytes === undefined) return device;
  const host = verdictOf(estimate.hostBytes * fit.question.ranksPerNode, fit.hostBytes);
  return worse(device, host);
}

const order: readonly Verdict[] = ["fits", "tight", "does not fit"];
const worse = (a: Verdict, b: Verdict): Verdict => (order.indexOf(a) > order.indexOf(b) ? a : b);

/** Whether a verdict agrees with what happened: what ran out of memory has to be refused, what ran may be refused only at its limit. */
export const isRight = ({ outcome, isLargest }: MeasuredFit, verdict: Verdict): boolean =>
  outcome === "out of memory" ? verdict !== "fits" : verdict === "fits" || (isLargest === true && verdict === "tight");
