/** Exercise 4: why 3Ψ, by the ledger of the engine on the simulated device. */
import { parseConfigObject } from "../../../src/config/json.ts";
import { resolveConfig } from "../../../src/config/resolve.ts";
import type { Stage } from "../../../src/config/types.ts";
import type { TrafficSnapshot } from "../../../src/device/traffic.ts";
import { forecast, Gpt2, gpt2Configs } from "../../../src/index.ts";
import { formatCount } from "../../../src/report/numbers.ts";
import { stages, table } from "./print.ts";

const xl = gpt2Configs["gpt2-xl"];

export interface TrafficJob {
  readonly stage: Stage;
  readonly ranks: number;
  readonly microBatches: number;
  readonly offload?: true;
}

/** Elements that a rank of GPT-2 XL sends in a step, by way; and Ψ with the padding that makes the ranks' parts equal. */
export async function trafficOf({ stage, ranks, microBatches, offload }: TrafficJob): Promise<{
  readonly traffic: TrafficSnapshot;
  readonly paddedElements: number;
}> {
  const file = parseConfigObject({
    train_micro_batch_size_per_gpu: 1,
    gradient_accumulation_steps: microBatches,
    fp16: { enabled: true },
    zero_optimization: { stage, ...(offload && { offload_optimizer: { device: "cpu" } }) },
    optimizer: { type: "AdamW", params: { lr: 1e-4 } },
  });
  const tokens = { data: new Int32Array(xl.positions), shape: [1, xl.positions] };
  const { plan, report } = await forecast({
    model: new Gpt2(xl),
    config: resolveConfig({ file, worldSize: ranks }),
    batch: { inputs: tokens, targets: tokens },
    threads: 1,
  });
  const flats = plan.units.flatMap((unit) => unit.flats);
  return { traffic: report.traffic, paddedElements: flats.reduce((sum, flat) => sum + flat.paddedElements, 0) };
}

export async function whyThree(): Promise<string> {
  const ranks = 4;
  const rows: string[][] = [];
  for (const stage of stages) {
    const { traffic, paddedElements } = await trafficOf({ stage, ranks, microBatches: 1 });
    const { reduceScatter, allGather } = traffic;
    const sent = reduceScatter.elementsSent + allGather.elementsSent;
    const eight = (await trafficOf({ stage, ranks, microBatches: 8 })).traffic;
    const share = (paddedElements * (ranks - 1)) / ranks;
    rows.push([
      String(stage),
      formatCount(reduceScatter.elementsSent),
      formatCount(allGather.elementsSent),
      formatCount(sent),
      (sent / share).toFixed(3),
      ((eight.reduceScatter.elementsSent + eight.allGather.elementsSent) / share).toFixed(3),
    ]);
  }
  const words = ["stage", ">reduce-scatter", ">all-gather", ">together", ">/ (3/4 Ψ)", ">8 micro-batches"];
  return `GPT-2 XL on 4 ranks, elements that a rank sends in a step:\n\n${table(words, rows)}`;
}
