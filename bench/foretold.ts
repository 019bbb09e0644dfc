/** Foretold step times against measured ones: the machine is calibrated in the same run, then each job is trained and simulated. */
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { calibrate } from "../src/cli/calibrate.ts";
import { parseConfigObject } from "../src/config/json.ts";
import { resolveConfig } from "../src/config/resolve.ts";
import { machineOfCalibration } from "../src/hardware/calibration.ts";
import { createLogger } from "../src/log/logger.ts";
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";
import { timeStep } from "../src/planner/step-time.ts";
import type { ForetoldJob } from "./foretold-rank.ts";
import { median, runRanks } from "./ranks.ts";

export interface ForetoldResult {
  readonly name: string;
  /** Of the slowest rank. */
  readonly measuredSeconds: number;
  readonly foretoldSeconds: number;
}

interface Case {
  readonly name: string;
  readonly ranks: number;
  readonly zero: object;
  readonly precision: "bf16" | "fp32";
  readonly accumulation?: number;
}

const cpu = { device: "cpu" };
const nvme = { device: "nvme", nvme_path: tmpdir() };

const cases: readonly Case[] = [
  { name: "bf16, 1 rank, stage 0", ranks: 1, zero: { stage: 0 }, precision: "bf16" },
  { name: "bf16, 2 ranks, stage 0", ranks: 2, zero: { stage: 0 }, precision: "bf16" },
  { name: "bf16, 2 ranks, stage 2", ranks: 2, zero: { stage: 2 }, precision: "bf16" },
  { name: "bf16, 2 ranks, stage 3", ranks: 2, zero: { stage: 3 }, precision: "bf16" },
  { name: "fp32, 2 ranks, stage 1", ranks: 2, zero: { stage: 1 }, precision: "fp32" },
  { name: "bf16, 2 ranks, stage 2, accumulation 3", ranks: 2, zero: { stage: 2 }, precision: "bf16", accumulation: 3 },
  {
    name: "bf16, 2 ranks, stage 2, optimizer on the host",
    ranks: 2,
    zero: { stage: 2, offload_optimizer: cpu },
    precision: "bf16",
  },
  {
    name: "bf16, 2 ranks, stage 3, all on the host",
    ranks: 2,
    zero: { stage: 3, offload_optimizer: cpu, offload_param: cpu },
    precision: "bf16",
  },
  {
    name: "bf16, 2 ranks, stage 3, optimizer on disk",
    ranks: 2,
    zero: { stage: 3, offload_optimizer: nvme },
    precision: "bf16",
  },
];

const seqLength = 512;

const settingsOf = ({ zero, precision, accumulation = 1 }: Case): object => ({
  train_micro_batch_size_per_gpu: 1,
  gradient_accumulation_steps: accumulation,
  ...(precision === "bf16" && { bf16: { enabled: true } }),
  zero_optimization: zero,
  optimizer: { type: "AdamW", params: { lr: 1e-5 } },
});

export async function measureForetold(): Promise<ForetoldResult[]> {
  const calibration = await calibrate(tmpdir(), createLogger());
  const results: ForetoldResult[] = [];
  for (const job of cases) {
    const settings = settingsOf(job);
    const runs = await runRanks<number[]>(job.ranks, new URL("./foretold-rank.ts", import.meta.url), {
      settings,
      seqLength,
      steps: 7,
    } satisfies ForetoldJob);
    const threads = Math.max(1, Math.floor(availableParallelism() / job.ranks));
    const { microBatch, gradientAccumulation, ...config } = resolveConfig({
      file: parseConfigObject(settings),
      worldSize: job.ranks,
    });
    const machine = machineOfCalibration(calibration, {
      ranks: job.ranks,
      threads,
      memoryBytes: totalmem(),
      diskBytes: Number.POSITIVE_INFINITY,
    });
    const timed = await timeStep(
      {
        model: gpt2Configs.gpt2,
        statedParameters: undefined,
        seqLength,
        threads,
        configOf: () => ({ microBatch, gradientAccumulation, ...config }),
      },
      config,
      { microBatch, gradientAccumulation },
      { machine, ranks: job.ranks },
    );
    const measuredSeconds = Math.max(...runs.map(median));
    results.push({ name: job.name, measuredSeconds, foretoldSeconds: timed!.time.seconds });
  }
  return results;
}
