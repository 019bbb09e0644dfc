/** Cards that plans are made for: what is on the label, what the driver reports, what is left, and how fast they are. */
import type { ElementType } from "../config/types.ts";
import { type Figure, figure, gib, mib } from "./figure.ts";
import type { LinkName } from "./links.ts";

export type DeviceName =
  | "A10G"
  | "A100-40GB"
  | "A100-80GB"
  | "H100"
  | "H100-PCIe"
  | "H200"
  | "L4"
  | "T4"
  | "V100-16GB"
  | "V100-32GB"
  | "RTX 4090"
  | "RTX 3090"
  | "A6000"
  | "A40";

export type Generation = "Volta" | "Turing" | "Ampere" | "Ada" | "Hopper";

export interface DevicePreset {
  readonly name: DeviceName;
  /** Other spellings, such as the driver's product name. Case, spaces and dashes never matter. */
  readonly alsoCalled: readonly string[];
  readonly generation: Generation;
  /** Bytes of the label: its "GB" are GiB of memory chips. */
  readonly nominal: Figure;
  /** Bytes that nvidia-smi shows in MiB: less what error correction and the board keep. */
  readonly reported: Figure;
  /** Bytes that a program can ask for: less what the driver keeps. PyTorch calls it the total capacity. */
  readonly addressable: Figure;
  /** Dense, without sparsity; floating-point operations per second. */
  readonly peak: Readonly<Record<ElementType, Figure>>;
  /** Bytes per second of the card's own memory. */
  readonly memoryRate: Figure;
  readonly hostLink: LinkName;
}

/** What every process keeps of a card: the runtime's context, and the buffers of NCCL. The lower ends of 0.5 to 2 GiB and 1 to 2 GiB. */
export const contextBytes = figure(gib / 2, "reports of 0.5 to 2 GiB; the lower end");
export const collectivesBytes = figure(gib, "reports of 1 to 2 GiB for NCCL; the lower end");

/** Bytes that training may use. The rule of fit (planner/fit.ts) takes its reserve from these. */
export const usableBytes = ({ addressable }: DevicePreset): number =>
  addressable.value - contextBytes.value - collectivesBytes.value;

const mpt = "of a whole step of MPT-7B";
const volta = figure(0.56, "70 TFLOP/s of 125 that ZeRO-Infinity counts a V100 with");
const ampere = figure(0.64, `64.2 % ${mpt} on A100 (llm-foundry)`);
const hopper = figure(0.46, `46.4 % ${mpt} on H100 (llm-foundry)`);

/**
 * The share of the peak that large products reach, and fused attention too: at 64 Ki to 256 Ki tokens, where attention is most of the
 * work, Llama-3.1-8B still runs at 0.40 to 0.43 of an H200's peak. Products alone reach more; these shares hold what else slows a step.
 */
export const reachedShare: Readonly<Record<Generation, Figure>> = {
  Volta: volta,
  Turing: figure(volta.value, "as Volta"),
  Ampere: ampere,
  Ada: figure(ampere.value, "as Ampere"),
  Hopper: hopper,
};

/** The share of a card's memory rate that ops reach which are bound by it. */
export const reachedMemoryShare = figure(0.85, "stream benchmarks reach 85 to 92 % on cards of these generations");

/** To issue and begin an op, in seconds. */
export const launchSeconds = figure(5e-6, "the usual time from a launch to its kernel's start");

interface Row {
  readonly name: DeviceName;
  readonly alsoCalled: readonly string[];
  readonly generation: Generation;
  /** In GB on the label. */
  readonly label: number;
  readonly reportedMib: number;
  readonly addressableGib: number;
  /** Dense TFLOP/s; without `bf16` it is not in hardware. */
  readonly teraflops: Partial<Record<ElementType, number>> & Readonly<Record<"fp32" | "fp16", number>>;
  readonly memoryGigabytesPerSecond: number;
  readonly hostLink: LinkName;
  readonly sheet: string;
}

function preset(row: Row): DevicePreset {
  const { fp32, bf16, fp16 } = row.teraflops;
  const peak = (teraflops: number): Figure => figure(Math.round(teraflops * 1e12), row.sheet);
  return {
    name: row.name,
    alsoCalled: row.alsoCalled,
    generation: row.generation,
    nominal: figure(row.label * gib, `label: ${row.label} GB, which are GiB`),
    reported: figure(row.reportedMib * mib, "reported by nvidia-smi"),
    addressable: figure(row.addressableGib * gib, "total capacity in PyTorch's out-of-memory messages"),
    peak: {
      fp32: peak(fp32),
      bf16: bf16 === undefined ? figure(Math.round(fp32 * 1e12), "bf16 is not in hardware: the fp32 rate") : peak(bf16),
      fp16: peak(fp16),
    },
    memoryRate: figure(row.memoryGigabytesPerSecond * 1e9, row.sheet),
    hostLink: row.hostLink,
  };
}

const sheet = (card: string): string => `NVIDIA ${card} data sheet`;

const rows: readonly Row[] = [
  {
    name: "A10G",
    alsoCalled: [],
    generation: "Ampere",
    label: 24,
    reportedMib: 23_028,
    addressableGib: 22.06,
    teraflops: { fp32: 35, bf16: 70, fp16: 70 },
    memoryGigabytesPerSecond: 600,
    hostLink: "PCIe 4 x16",
    sheet: sheet("A10G"),
  },
  {
    name: "A100-40GB",
    alsoCalled: ["A100-SXM4-40GB", "A100-SXM-40GB", "A100-PCIE-40GB"],
    generation: "Ampere",
    label: 40,
    reportedMib: 40_960,
    addressableGib: 39.39,
    teraflops: { fp32: 19.5, bf16: 312, fp16: 312 },
    memoryGigabytesPerSecond: 1555,
    hostLink: "PCIe 4 x16",
    sheet: sheet("A100"),
  },
  {
    name: "A100-80GB",
    alsoCalled: ["A100-SXM4-80GB", "A100-SXM-80GB", "A100 80GB PCIe"],
    generation: "Ampere",
    label: 80,
    reportedMib: 81_920,
    addressableGib: 79.14,
    teraflops: { fp32: 19.5, bf16: 312, fp16: 312 },
    memoryGigabytesPerSecond: 2039,
    hostLink: "PCIe 4 x16",
    sheet: sheet("A100"),
  },
  {
    name: "H100",
    alsoCalled: ["H100-SXM", "H100-SXM5-80GB", "H100-80GB", "H100 80GB HBM3"],
    generation: "Hopper",
    label: 80,
    reportedMib: 81_559,
    addressableGib: 79.14,
    teraflops: { fp32: 66.9, bf16: 989.4, fp16: 989.4 },
    memoryGigabytesPerSecond: 3350,
    hostLink: "PCIe 5 x16",
    sheet: sheet("H100"),
  },
  {
    name: "H100-PCIe",
    alsoCalled: ["H100-PCIe-80GB"],
    generation: "Hopper",
    label: 80,
    reportedMib: 81_559,
    addressableGib: 79.14,
    teraflops: { fp32: 51.2, bf16: 756.4, fp16: 756.4 },
    memoryGigabytesPerSecond: 2000,
    hostLink: "PCIe 5 x16",
    sheet: sheet("H100"),
  },
  {
    name: "H200",
    alsoCalled: ["H200-SXM", "H200-141GB"],
    generation: "Hopper",
    label: 141,
    reportedMib: 143_771,
    addressableGib: 139.8,
    teraflops: { fp32: 66.9, bf16: 989.4, fp16: 989.4 },
    memoryGigabytesPerSecond: 4800,
    hostLink: "PCIe 5 x16",
    sheet: sheet("H200"),
  },
  {
    name: "L4",
    alsoCalled: [],
    generation: "Ada",
    label: 24,
    reportedMib: 23_034,
    addressableGib: 22.03,
    teraflops: { fp32: 30.3, bf16: 121, fp16: 121 },
    memoryGigabytesPerSecond: 300,
    hostLink: "PCIe 4 x16",
    sheet: sheet("L4"),
  },
  {
    name: "T4",
    alsoCalled: ["Tesla T4"],
    generation: "Turing",
    label: 16,
    reportedMib: 15_360,
    addressableGib: 14.56,
    teraflops: { fp32: 8.1, fp16: 65 },
    memoryGigabytesPerSecond: 320,
    hostLink: "PCIe 3 x16",
    sheet: sheet("T4"),
  },
  {
    name: "V100-16GB",
    alsoCalled: ["Tesla V100-SXM2-16GB", "V100-SXM2-16GB"],
    generation: "Volta",
    label: 16,
    reportedMib: 16_384,
    addressableGib: 15.77,
    teraflops: { fp32: 15.7, fp16: 125 },
    memoryGigabytesPerSecond: 900,
    hostLink: "PCIe 3 x16",
    sheet: sheet("V100"),
  },
  {
    name: "V100-32GB",
    alsoCalled: ["Tesla V100-SXM2-32GB", "V100-SXM2-32GB", "Tesla V100-SXM3-32GB", "V100-SXM3-32GB"],
    generation: "Volta",
    label: 32,
    reportedMib: 32_768,
    addressableGib: 31.73,
    teraflops: { fp32: 15.7, fp16: 125 },
    memoryGigabytesPerSecond: 900,
    hostLink: "PCIe 3 x16",
    sheet: sheet("V100"),
  },
  {
    name: "RTX 4090",
    alsoCalled: ["4090", "GeForce RTX 4090"],
    generation: "Ada",
    label: 24,
    reportedMib: 24_564,
    addressableGib: 23.64,
    // With sums in fp32, as training has them: half of what the sheet prints for sums in fp16.
    teraflops: { fp32: 82.6, bf16: 165.2, fp16: 165.2 },
    memoryGigabytesPerSecond: 1008,
    hostLink: "PCIe 4 x16",
    sheet: "NVIDIA Ada architecture paper",
  },
  {
    name: "RTX 3090",
    alsoCalled: ["3090", "GeForce RTX 3090"],
    generation: "Ampere",
    label: 24,
    reportedMib: 24_576,
    addressableGib: 23.68,
    teraflops: { fp32: 35.6, bf16: 71, fp16: 71 },
    memoryGigabytesPerSecond: 936,
    hostLink: "PCIe 4 x16",
    sheet: "NVIDIA GA102 architecture paper",
  },
  {
    name: "A6000",
    alsoCalled: ["RTX A6000", "A6000-48GB"],
    generation: "Ampere",
    label: 48,
    reportedMib: 49_140,
    addressableGib: 47.4,
    teraflops: { fp32: 38.7, bf16: 154.8, fp16: 154.8 },
    memoryGigabytesPerSecond: 768,
    hostLink: "PCIe 4 x16",
    sheet: sheet("RTX A6000"),
  },
  {
    name: "A40",
    alsoCalled: ["A40-48GB"],
    generation: "Ampere",
    label: 48,
    reportedMib: 46_068,
    addressableGib: 44.34,
    teraflops: { fp32: 37.4, bf16: 149.7, fp16: 149.7 },
    memoryGigabytesPerSecond: 696,
    hostLink: "PCIe 4 x16",
    sheet: sheet("A40"),
  },
];

export const devices: readonly DevicePreset[] = rows.map(preset);
