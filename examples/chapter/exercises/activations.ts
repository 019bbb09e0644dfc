/** Exercise 7: what a micro-batch takes beside the model states. */
import { gpt2Configs } from "../../../src/index.ts";
import { layerActivationBytes } from "../../../src/planner/activation-formulas.ts";
import { formatBytes } from "../../../src/report/numbers.ts";
import { table } from "./print.ts";

const { layers, hidden, heads } = gpt2Configs["gpt2-xl"];

/** 34 s b h bytes a layer, where attention's probabilities are not kept (Korthikanti et al. 2022). */
const activationBytes = (microBatch: number): number =>
  layers * layerActivationBytes("tensorSelective", { sequence: 1024, microBatch, hidden, heads, tensorParallel: 1 });

export function activations(): string {
  const rows = [8, 4, 2, 1].map((microBatch) => [String(microBatch), formatBytes(activationBytes(microBatch))]);
  return `GPT-2 XL, 1,024 tokens: 48 layers x 34 s b h bytes\n\n${table([">micro-batch", ">activations"], rows)}`;
}
