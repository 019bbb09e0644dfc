// Plans to be drawn: a usual one, the paper's, a giant and a dwarf. What is beside model states is made up.
import { placements } from "../../src/plan/placement.ts";
import {
  type FootprintJob,
  footprintsOf,
  type PlannedFootprint,
  recommendationOf,
} from "../../src/planner/footprint.ts";
import { type FootprintPicture, pictureOf } from "../../src/report/footprint.ts";
import type { FootprintPageData } from "../../src/report/footprint-state.ts";

const cards = [
  { name: "A10G", usableBytes: 23.6e9 },
  { name: "V100-32GB", usableBytes: 33.8e9 },
  { name: "A100-80GB", usableBytes: 84e9 },
];

interface Scene extends FootprintJob {
  readonly card: string;
  readonly activationsBytes: number;
  readonly buffersBytes: number;
}

function dataOf(model: string, { card, activationsBytes, buffersBytes, ...job }: Scene): FootprintPageData {
  const bytesPerParameter = { parameters: 2, gradients: 2, optimizer: 12 };
  const device = {
    parametersBytes: 0,
    gradientsBytes: 0,
    optimizerBytes: 0,
    activationsBytes,
    buffersBytes,
    totalBytes: 0,
  };
  const estimates = placements().map((placement) => ({
    ...placement,
    microBatch: job.microBatch,
    device,
    hostBytes: 0,
    diskBytes: 0,
    commElements: 0,
    parts: [],
  }));
  const { usableBytes } = cards.find(({ name }) => name === card)!;
  return {
    model,
    planned: { job, bytesPerParameter, estimates },
    layers: 48,
    hidden: 1600,
    training: "AdamW in bf16",
    engine: "shunya",
    card,
    room: { deviceBytes: usableBytes, hostBytes: 64e9, diskBytes: 500e9, hostSharers: 1 },
    cards,
    stage: 2,
    offload: { offloadOptimizer: "none", offloadParam: "none" },
  };
}

const base = { microBatch: 1, sequenceLength: 1024 };

export const scenes = {
  usual: dataOf("a GPT of 1.5e9 parameters: 48 layers, 1600 wide (GPT-2 XL's)", {
    ...base,
    parameters: 1.5e9,
    ranks: 4,
    card: "A10G",
    activationsBytes: 2.6e9,
    buffersBytes: 0.4e9,
  }),
  paper: dataOf("7.5B", {
    ...base,
    parameters: 7.5e9,
    ranks: 64,
    card: "V100-32GB",
    activationsBytes: 5e9,
    buffersBytes: 1e9,
  }),
  giant: dataOf("1T", {
    ...base,
    parameters: 1e12,
    ranks: 1024,
    card: "A100-80GB",
    activationsBytes: 30e9,
    buffersBytes: 9e9,
  }),
  dwarf: dataOf("tiny", { ...base, parameters: 1e6, ranks: 2, card: "A10G", activationsBytes: 1e6, buffersBytes: 1e5 }),
} satisfies Record<string, FootprintPageData>;

/** The four stages without offload. */
export function pictureOfScene(data: FootprintPageData, change: Partial<FootprintJob> = {}): FootprintPicture {
  const planned: PlannedFootprint = data.planned;
  const job = { ...planned.job, ...change };
  const estimates = footprintsOf(planned, job);
  return pictureOf({
    estimates: estimates.filter(({ offloadOptimizer }) => offloadOptimizer === "none"),
    model: data.model,
    parameters: job.parameters,
    ranks: job.ranks,
    card: data.card,
    room: data.room,
    recommended: recommendationOf(estimates, data.room),
  });
}
