/** A sweep over sequence lengths (section B), and what nvidia-smi and users said (C to E). */
import type { Placement } from "../../src/plan/placement.ts";
import { transformersAutoBuckets } from "../../src/planner/deepspeed.ts";
import { ask, at, deepspeed, GB, GiB, github, type MeasuredJob, model } from "./measured-kit.ts";

// --- section B: a sweep over sequence lengths ---

const sweep = "https://github.com/stas00/ml-engineering/blob/master/insights/when-to-upgrade-gpus/README.md";
const sweepRows: readonly [kiloTokens: number, reservedGiB: number][] = [
  [8, 16.3],
  [32, 25.8],
  [64, 37.5],
  [128, 66.5],
  [192, 95.7],
  [256, 124.5],
];

export const lengthSweep: readonly MeasuredJob[] = sweepRows.map(([kiloTokens, reservedGiB]) => ({
  id: `B ${kiloTokens}K`,
  source: sweep,
  setup: `Llama-3.1-8B, ZeRO-3, optimizer on host, 1 x ${kiloTokens}K`,
  details: "8 H200, checkpointing, Liger kernels, loaded before DeepSpeed starts, default buckets",
  question: ask(at(3, "cpu"), {
    shape: model("llama-3-8b"),
    ranks: 8,
    seqLength: kiloTokens * 1024,
    checkpointing: true,
    fusedLoss: true,
    zeroInit: false,
  }),
  quantity: "reserved",
  measuredBytes: reservedGiB * GiB,
  within: 0.15,
}));

// --- sections C to E: what nvidia-smi and users said ---

const falcon = {
  shape: model("falcon-7b"),
  ranks: 8,
  seqLength: 4096,
  checkpointing: true,
  flashAttention: false,
};
const falconAssumed = "micro-batch 1, checkpointing, attention with a mask (not flash)";
const falconRows: readonly [setup: string, placement: Placement, gigabytes: number][] = [
  ["ZeRO-2, optimizer on host", at(2, "cpu"), 36],
  ["ZeRO-3", at(3), 38],
  ["ZeRO-3, parameters on host", at(3, "none", "cpu"), 34],
  ["ZeRO-3, both on host", at(3, "cpu", "cpu"), 21],
];

const qwenReadme = "https://github.com/QwenLM/Qwen/blob/main/README.md";
const qwen = (parameters: number, layers: number, hidden: number, heads: number, feedForward: number) => ({
  ...model("llama-7b"),
  name: "Qwen",
  parameters,
  layers,
  hidden,
  heads,
  keyValueHeads: heads,
  feedForward,
  vocabulary: 151936,
});
const qwen2B = qwen(1.837e9, 24, 2048, 16, 5504);
const qwen7B = qwen(7.721e9, 32, 4096, 32, 11008);
const swift = "https://swift.readthedocs.io/en/v3.6/Instruction/Megatron-SWIFT-Training.html";
const swift14B = {
  shape: model("qwen2.5-14b"),
  ranks: 8,
  seqLength: 8192,
  checkpointing: true,
  gradientAccumulation: 2,
};
const swiftAssumed = "Qwen2.5-14B, micro-batch 1, checkpointing";

export const userReports: readonly MeasuredJob[] = [
  ...falconRows.map(
    ([setup, placement, gigabytes]): MeasuredJob => ({
      id: "C1",
      source: deepspeed(3901),
      setup: `Falcon-7B, ${setup}`,
      details: "8 A100-40, 4096 tokens",
      assumed: falconAssumed,
      question: ask(placement, falcon),
      quantity: "nvidia-smi",
      measuredBytes: gigabytes * GB,
      within: 0.25,
    }),
  ),
  {
    id: "C3",
    source: deepspeed(4093),
    setup: "GPT-J-6B, ZeRO-3 with offload, 2 and 4 GPUs alike",
    assumed: "not made under zero.Init: the reading is the whole model",
    question: ask(at(3, "cpu", "cpu"), { shape: model("gpt-j-6b"), ranks: 4, zeroInit: false }),
    quantity: "start",
    measuredBytes: 13 * GiB,
    within: 0.25,
  },
  {
    id: "C21",
    source: github("EleutherAI/gpt-neox", 892),
    setup: "GPT-NeoX-20B, states of all ranks, fp32 gradients",
    question: ask(at(1), { shape: model("gpt-neox-20b"), ranks: 1, gradientAccumulationBytes: 4 }),
    quantity: "all ranks",
    measuredBytes: 360 * GB,
    within: 0.25,
  },
  {
    id: "E5",
    source: "https://github.com/pytorch/torchtune/blob/main/README.md",
    setup: "Llama-3.2-3B, one A100, 2 x 4096, all bf16, torchtune",
    question: ask(at(0), {
      shape: {
        ...model("llama-3-8b"),
        parameters: 3212749824,
        layers: 28,
        hidden: 3072,
        heads: 24,
        feedForward: 8192,
        isTied: true,
      },
      ranks: 1,
      microBatch: 2,
      seqLength: 4096,
      optimizerBytes: 4,
      masterBytes: 2,
    }),
    quantity: "peak",
    measuredBytes: 60 * GiB,
    within: 0.25,
  },
  {
    id: "E9",
    source: swift,
    setup: "14B, ZeRO-2, 8 A800-80, packed to 8192 tokens",
    assumed: swiftAssumed,
    question: ask(at(2), { ...swift14B, buckets: transformersAutoBuckets(swift14B.shape) }),
    quantity: "nvidia-smi",
    measuredBytes: 80 * GiB,
    within: 0.25,
  },
  {
    id: "E9",
    source: swift,
    setup: "14B, ZeRO-3, 8 A800-80, packed to 8192 tokens",
    assumed: swiftAssumed,
    question: ask(at(3), { ...swift14B, buckets: transformersAutoBuckets(swift14B.shape) }),
    quantity: "nvidia-smi",
    measuredBytes: 58 * GiB,
    within: 0.25,
  },
  ...[
    { tokens: 256, gigabytes: 43.5 },
    { tokens: 8192, gigabytes: 48.3 },
  ].map(
    ({ tokens, gigabytes }): MeasuredJob => ({
      id: "E11",
      source: qwenReadme,
      setup: `Qwen-1.8B, one A100-80, 1 x ${tokens}, accumulation 8`,
      assumed: "ZeRO-3 of its script, checkpointing",
      question: ask(at(3), {
        shape: qwen2B,
        ranks: 1,
        seqLength: tokens,
        gradientAccumulation: 8,
        checkpointing: true,
        buckets: transformersAutoBuckets(qwen2B),
      }),
      quantity: "reserved",
      measuredBytes: gigabytes * GB,
      within: 0.25,
    }),
  ),
  {
    id: "E11",
    source: qwenReadme,
    setup: "Qwen-7B, 2 A100-80, 1 x 256, accumulation 8",
    assumed: "ZeRO-3 of its script, checkpointing",
    question: ask(at(3), {
      shape: qwen7B,
      ranks: 2,
      seqLength: 256,
      gradientAccumulation: 8,
      checkpointing: true,
      buckets: transformersAutoBuckets(qwen7B),
    }),
    quantity: "reserved",
    measuredBytes: 69.6 * GB,
    within: 0.25,
  },
  {
    id: "D1",
    source: deepspeed(3448),
    setup: "Llama 33B, ZeRO-3 with offload, 8 A100-40: host",
    assumed: "optimizer and parameters offloaded; 750 to 800 GB read as 775",
    question: ask(at(3, "cpu", "cpu"), { shape: model("llama-33b"), ranks: 8, seqLength: 2048 }),
    quantity: "host of a node",
    measuredBytes: 775 * GB,
    within: 0.25,
  },
  {
    id: "D5",
    source: github("CVI-SZU/Linly", 83),
    setup: "Llama 7B, ZeRO-3 with both offloads, 8 GPUs: host at start",
    assumed: "not made under zero.Init",
    question: ask(at(3, "cpu", "cpu"), { shape: model("llama-7b"), ranks: 8, zeroInit: false }),
    quantity: "host of a node",
    measuredBytes: 178 * GB,
    within: 0.25,
  },
  {
    id: "D5",
    source: github("CVI-SZU/Linly", 83),
    setup: "the same, 4 GPUs: 160 GB or more",
    assumed: "not made under zero.Init",
    question: ask(at(3, "cpu", "cpu"), { shape: model("llama-7b"), ranks: 4, zeroInit: false }),
    quantity: "host of a node",
    measuredBytes: 160 * GB,
    within: 0.25,
  },
];
