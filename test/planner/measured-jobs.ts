/**
 * Jobs whose memory was measured and published, as questions to the estimator. Setups in our own words; what a source leaves unsaid
 * is taken as the defaults have it, and `assumed` says so. GiB where the source's tool prints GiB.
 */
import type { Placement } from "../../src/plan/placement.ts";
import {
  type DeepSpeedEstimate,
  type DeepSpeedQuestion,
  deepSpeedDefaults,
  defaultOverlapComm,
  transformersAutoBuckets,
} from "../../src/planner/deepspeed.ts";
import { publishedShape } from "../../src/planner/published-shapes.ts";
import type { TransformerShape } from "../../src/planner/shape.ts";

export const GB = 1e9;
export const GiB = 2 ** 30;
export const MiB = 2 ** 20;

/** What was read, and of the estimate what it is to be compared with. */
export type Quantity =
  | "allocated"
  | "peak"
  | "reserved"
  | "nvidia-smi"
  | "start"
  | "parameters"
  | "optimizer"
  | "all ranks"
  | "host of a node";

export interface MeasuredJob {
  readonly id: string;
  readonly source: string;
  /** In at most about 60 characters; the rest of what the source says is in `details`. */
  readonly setup: string;
  readonly details?: string;
  /** What the source does not say. */
  readonly assumed?: string;
  readonly question: DeepSpeedQuestion;
  readonly quantity: Quantity;
  readonly measuredBytes: number;
  /** The error that is allowed: 0.05 of the allocated, 0.15 of peaks of sections A and B, 0.25 of others. */
  readonly within: number;
  /** Why the estimate misses. */
  readonly missed?: string;
}

export const model = (name: string): TransformerShape => {
  const shape = publishedShape(name);
  if (shape === undefined) throw new Error(`no published shape ${name}`);
  return shape;
};

type Given = Partial<DeepSpeedQuestion> & Pick<DeepSpeedQuestion, "shape" | "ranks">;

export function ask(placement: Placement, given: Given): DeepSpeedQuestion {
  return {
    ...deepSpeedDefaults,
    overlapComm: defaultOverlapComm[placement.stage],
    ranksPerNode: Math.min(8, given.ranks),
    microBatch: 1,
    seqLength: 512,
    placement,
    ...given,
  };
}

export const at = (
  stage: Placement["stage"],
  offloadOptimizer: Placement["offloadOptimizer"] = "none",
  offloadParam: Placement["offloadParam"] = "none",
): Placement => ({ stage, offloadOptimizer, offloadParam });

const github = (repository: string, number: number, kind = "issues"): string =>
  `https://github.com/${repository}/${kind}/${number}`;
const deepspeed = (number: number, kind = "issues"): string => github("deepspeedai/DeepSpeed", number, kind);

// --- section A: readings of the allocator ---

const of13B = { shape: { ...model("llama-13b"), parameters: 13.016e9 }, ranks: 8 };
const noBatch = "1 x 512 tokens (not stated), 13.016e9 parameters (stated as 13B)";
const whole13B = { ...of13B, zeroInit: false };

/** The example's own model: PyTorch's multi-head attention, which keeps its weights' matrix; no dropout; untied. */
const exampleModel = (hidden: number, layers: number, heads: number): TransformerShape => ({
  name: "the example's transformer",
  parameters: 2 * 50000 * hidden + 50000 + 512 * hidden + layers * (12 * hidden * hidden + 13 * hidden),
  layers,
  hidden,
  heads,
  keyValueHeads: heads,
  feedForward: 4 * hidden,
  isGated: false,
  vocabulary: 50000,
  positions: 512,
  isTied: false,
  hasDropout: false,
});

const exampleSource =
  "https://github.com/deepspeedai/DeepSpeedExamples/blob/master/training/bf16_master_weight/README.md";
const example = {
  zeroInit: false,
  flashAttention: false,
  // Its page shows the stage only. At rest 16 bytes a parameter leave 0.16 GB, so the files behind it cannot have the default bucket.
  buckets: { ...deepSpeedDefaults.buckets, reduceElements: 5e7 },
} as const;
const exampleAssumed = "reduce_bucket_size 5e7 (files not published; what rests leaves no room for the default)";
const example7B = { ...example, shape: exampleModel(4096, 32, 32), ranks: 4 };
const example254M = { ...example, shape: exampleModel(1024, 12, 16), microBatch: 4 };
const allBf16 = { optimizerBytes: 6, masterBytes: 2 } as const;

interface ExampleRow {
  readonly id: string;
  readonly setup: string;
  readonly question: DeepSpeedQuestion;
  readonly allocatedGiB: number;
  readonly peakGiB: number;
  /** Why the estimate misses. */
  readonly missedAllocated?: string;
  readonly missedPeak?: string;
}

const heldLogits = "its script still holds the last step's logits (0.2 GB), much beside so few states";
const autocast = "autocast keeps casts and makes the loss in fp32 once more, much beside so few states";

const exampleRows: readonly ExampleRow[] = [
  {
    id: "A3",
    setup: "6.86B, ZeRO-3, 4 H100, 1 x 512, checkpointing",
    question: ask(at(3), { ...example7B, checkpointing: true }),
    allocatedGiB: 25.74,
    peakGiB: 31.38,
  },
  {
    id: "A4",
    setup: "the same, master weights and moments in bf16",
    question: ask(at(3), { ...example7B, ...allBf16, checkpointing: true }),
    allocatedGiB: 16.17,
    peakGiB: 18.93,
  },
  {
    id: "A3 kept",
    setup: "6.86B, ZeRO-3, 4 H100, 1 x 512, no checkpointing",
    question: ask(at(3), example7B),
    allocatedGiB: 25.74,
    peakGiB: 41.28,
  },
  {
    id: "A4 kept",
    setup: "the same, master weights and moments in bf16",
    question: ask(at(3), { ...example7B, ...allBf16 }),
    allocatedGiB: 16.17,
    peakGiB: 33.2,
  },
  {
    id: "A3 small, 1",
    setup: "254M, ZeRO-3, 1 H100, 4 x 512, no checkpointing",
    question: ask(at(3), { ...example254M, ranks: 1 }),
    allocatedGiB: 4.14,
    peakGiB: 5.93,
  },
  {
    id: "A4 small, 1",
    setup: "the same, master weights and moments in bf16",
    question: ask(at(3), { ...example254M, ...allBf16, ranks: 1 }),
    allocatedGiB: 2.71,
    peakGiB: 5.73,
    missedAllocated: heldLogits,
    missedPeak: autocast,
  },
  {
    id: "A3 small, 4",
    setup: "254M, ZeRO-3, 4 H100, 4 x 512, no checkpointing",
    question: ask(at(3), { ...example254M, ranks: 4 }),
    allocatedGiB: 1.29,
    peakGiB: 3.57,
    missedAllocated: heldLogits,
  },
  {
    id: "A4 small, 4",
    setup: "the same, master weights and moments in bf16",
    question: ask(at(3), { ...example254M, ...allBf16, ranks: 4 }),
    allocatedGiB: 0.94,
    peakGiB: 4.44,
    missedAllocated: heldLogits,
    missedPeak: autocast,
  },
];

const because = (missed: string | undefined) => (missed === undefined ? {} : { missed });

const exampleJobs: readonly MeasuredJob[] = exampleRows.flatMap((row): MeasuredJob[] => {
  const { id, setup, question, allocatedGiB, peakGiB, missedAllocated, missedPeak } = row;
  const job = { id, source: exampleSource, setup, assumed: exampleAssumed, question };
  return [
    { ...job, quantity: "allocated", measuredBytes: allocatedGiB * GiB, within: 0.05, ...because(missedAllocated) },
    { ...job, quantity: "peak", measuredBytes: peakGiB * GiB, within: 0.15, ...because(missedPeak) },
  ];
});

const bigScience =
  "https://github.com/bigscience-workshop/bigscience/blob/master/train/tr11-176B-ml/chronicles-prequel.md";

/** Counts and states of models whose layers do not matter for the row. */
const sized = (parameters: number, like = "gpt3-6.7b"): TransformerShape => ({ ...model(like), parameters });

const sectionA: readonly MeasuredJob[] = [
  {
    id: "A1",
    source: deepspeed(3734),
    setup: "13B, ZeRO-2, 8 A100-80",
    assumed: noBatch,
    question: ask(at(2), of13B),
    quantity: "allocated",
    measuredBytes: 45.46 * GiB,
    within: 0.05,
  },
  {
    id: "A1",
    source: deepspeed(3734),
    setup: "13B, ZeRO-2, 8 A100-80",
    assumed: noBatch,
    question: ask(at(2), of13B),
    quantity: "peak",
    measuredBytes: 52.37 * GiB,
    within: 0.15,
  },
  {
    id: "A1",
    source: deepspeed(3734),
    setup: "13B, ZeRO-2, 8 A100-80",
    assumed: noBatch,
    question: ask(at(2), of13B),
    quantity: "reserved",
    measuredBytes: 57.14 * GiB,
    within: 0.15,
  },
  {
    id: "A2",
    source: deepspeed(3734),
    setup: "13B, ZeRO-3, 8 A100-80",
    assumed: noBatch,
    question: ask(at(3), whole13B),
    quantity: "allocated",
    measuredBytes: 25.31 * GiB,
    within: 0.05,
  },
  {
    id: "A2",
    source: deepspeed(3734),
    setup: "13B, ZeRO-3, 8 A100-80",
    assumed: `${noBatch}; not made under zero.Init`,
    question: ask(at(3), whole13B),
    quantity: "peak",
    measuredBytes: 56.12 * GiB,
    within: 0.15,
  },
  {
    id: "A2",
    source: deepspeed(3734),
    setup: "13B, ZeRO-3, 8 A100-80",
    assumed: `${noBatch}; not made under zero.Init`,
    question: ask(at(3), whole13B),
    quantity: "reserved",
    measuredBytes: 69.21 * GiB,
    within: 0.15,
  },
  ...exampleJobs,
  {
    id: "A5",
    source: github("karpathy/llm.c", 309, "pull"),
    setup: "124,475,904 parameters, bf16, llm.c: parameters",
    question: ask(at(0), { shape: sized(124475904, "gpt2"), ranks: 1, optimizerBytes: 8 }),
    quantity: "parameters",
    measuredBytes: 237 * MiB,
    within: 0.05,
  },
  {
    id: "A5",
    source: github("karpathy/llm.c", 309, "pull"),
    setup: "the same: both moments",
    question: ask(at(0), { shape: sized(124475904, "gpt2"), ranks: 1, optimizerBytes: 8 }),
    quantity: "optimizer",
    measuredBytes: 948 * MiB,
    within: 0.05,
  },
  {
    id: "A6",
    source: "https://www.deepspeed.ai/tutorials/zero/",
    setup: "1.5B, ZeRO-1, 8 V100-32: Adam's states",
    question: ask(at(1), { shape: sized(1.5e9, "gpt2-xl"), ranks: 8 }),
    quantity: "optimizer",
    measuredBytes: 2.25 * GB,
    within: 0.05,
  },
  {
    id: "A7",
    source: bigScience,
    setup: "953.2M on a rank, fp32 gradients",
    question: ask(at(0), { shape: sized(953.2e6, "gpt2-large"), ranks: 1, gradientAccumulationBytes: 4 }),
    quantity: "allocated",
    measuredBytes: 17.16 * GB,
    within: 0.05,
  },
  {
    id: "A7",
    source: bigScience,
    setup: "807.4M on a rank, fp32 gradients",
    question: ask(at(0), { shape: sized(807.4e6, "gpt2-large"), ranks: 1, gradientAccumulationBytes: 4 }),
    quantity: "allocated",
    measuredBytes: 14.53 * GB,
    within: 0.05,
  },
  {
    id: "A9",
    source: deepspeed(4527),
    setup: "6.805B, ZeRO-3, both on host, 4 GPUs: after loading",
    assumed: "not made under zero.Init",
    question: ask(at(3, "cpu", "cpu"), { shape: sized(6.805e9, "llama-7b"), ranks: 4, zeroInit: false }),
    quantity: "start",
    measuredBytes: 14678 * MiB,
    within: 0.15,
  },
  {
    id: "A9",
    source: deepspeed(4527),
    setup: "the same, second step",
    assumed: "not made under zero.Init, no checkpointing, 1 x 512 tokens",
    question: ask(at(3, "cpu", "cpu"), { shape: sized(6.805e9, "llama-7b"), ranks: 4, zeroInit: false }),
    quantity: "nvidia-smi",
    measuredBytes: 21272 * MiB,
    within: 0.15,
  },
  {
    id: "A11",
    source: deepspeed(2620, "pull"),
    setup: "3.57B (30 layers, 3072 wide), bf16: after building",
    question: ask(at(0), { shape: sized(3.57e9), ranks: 8 }),
    quantity: "parameters",
    measuredBytes: 6.63 * GiB,
    within: 0.05,
  },
  {
    id: "A12",
    source: github("pytorch/pytorch", 124260),
    setup: "Llama-2-70B, fp32, sharded over 8 (FSDP): parameters",
    question: ask(at(3), { shape: model("llama-2-70b"), ranks: 8, precision: "fp32" }),
    quantity: "parameters",
    measuredBytes: 33.5 * GiB,
    within: 0.05,
  },
];

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

const sectionB: readonly MeasuredJob[] = sweepRows.map(([kiloTokens, reservedGiB]) => ({
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

const others: readonly MeasuredJob[] = [
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

export const measuredJobs: readonly MeasuredJob[] = [...sectionA, ...sectionB, ...others];

/** What of an estimate a reading is compared with. */
export function estimatedBytes({ question, quantity }: MeasuredJob, estimate: DeepSpeedEstimate): number {
  const values: Record<Quantity, number> = {
    allocated: estimate.allocatedBytes,
    peak: estimate.peakBytes,
    reserved: estimate.reservedBytes,
    "nvidia-smi": estimate.reservedBytes + estimate.contextBytes,
    start: (estimate.moments.start ?? 0) + estimate.contextBytes,
    parameters: estimate.device.parametersBytes,
    optimizer: estimate.device.optimizerBytes,
    "all ranks": estimate.allocatedBytes * question.ranks,
    "host of a node": estimate.hostBytes * question.ranksPerNode,
  };
  return values[quantity];
}
