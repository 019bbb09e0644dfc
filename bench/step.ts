/**
 * A whole GPT-2 124M step against its floor: matrix products and causal attention at the peak of one thread's instructions,
 * the optimizer and the element-wise passes at the bandwidth of a pass without arithmetic, all measured in the same minute.
 */
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";
import { median, runRanks } from "./ranks.ts";
import type { StepJob, StepSample } from "./step-rank.ts";

export interface StepResult {
  readonly ranks: number;
  readonly job: StepJob;
  /** Medians over rounds; of the slowest rank. */
  readonly stepSeconds: number;
  readonly floorSeconds: number;
  /** floor / step: 1 is the machine's limit. */
  readonly share: number;
}

/** The least seconds for one rank's step under the limits of a sample. */
export function floorSeconds(job: StepJob, ranks: number, limits: Pick<StepSample, "peak" | "stream">): number {
  const { hidden, layers, vocabularySize, positions } = gpt2Configs.gpt2;
  const tokens = job.batch * job.seq;
  const elementBytes = job.precision === "bf16" ? 2 : 4;
  const matrices = layers * 12 * hidden ** 2 + vocabularySize * hidden;
  const products = 6 * tokens * matrices;
  const attention = 14 * layers * job.batch * hidden * ((job.seq * (job.seq + 1)) / 2);
  const parameters = matrices + positions * hidden + layers * 13 * hidden + 2 * hidden;
  const optimizerBytes = (parameters / (job.stage > 0 ? ranks : 1)) * 28;
  // Rows of `hidden` read or written once: two norms and two sums, forward and backward; GELU and bias sums on 4 x hidden.
  const rowPasses = layers * (2 * (2 + 4) + 2 * (3 + 3) + 4 * (2 + 3) + 9) + 6;
  const passBytes = tokens * hidden * rowPasses * elementBytes + 3 * tokens * vocabularySize * elementBytes;
  return (products + attention) / limits.peak + (optimizerBytes + passBytes) / limits.stream;
}

export async function measureStep(ranks: number, job: StepJob): Promise<StepResult> {
  const samples = await runRanks<StepSample[]>(ranks, new URL("./step-rank.ts", import.meta.url), job);
  const slowest = samples.reduce((a, b) => (median(a.map((s) => s.seconds)) > median(b.map((s) => s.seconds)) ? a : b));
  // Ratios round by round: step and limits of one round saw the same machine.
  const share = median(slowest.map((s) => floorSeconds(job, ranks, s) / s.seconds));
  const stepSeconds = median(slowest.map((s) => s.seconds));
  return { ranks, job, stepSeconds, floorSeconds: median(slowest.map((s) => floorSeconds(job, ranks, s))), share };
}
