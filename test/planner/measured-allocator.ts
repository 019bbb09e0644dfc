/** Readings of PyTorch's allocator: section A of the page. */
import { type DeepSpeedQuestion, deepSpeedDefaults } from "../../src/planner/deepspeed.ts";
import type { TransformerShape } from "../../src/planner/shape.ts";
import { ask, at, deepspeed, GB, GiB, github, type MeasuredJob, MiB, model } from "./measured-kit.ts";

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

export const allocatorReadings: readonly MeasuredJob[] = [
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
