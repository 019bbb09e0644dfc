/** `shunya train --dry-run`: the plan of exactly that job, and nothing is started. */
import { timeStep } from "../planner/step-time.ts";
import { renderSimulation } from "../report/simulation-report.ts";
import { wrap } from "../report/wrap.ts";
import type { OpenedJob, TrainJob } from "./job.ts";
import { plannedMachine } from "./planned-machine.ts";

/** @returns what the job will take a step, and how long this machine needs for it */
export async function renderDryRun(job: TrainJob, { config, model, seqLength, steps }: OpenedJob): Promise<string> {
  const { stage, offloadOptimizer, offloadParam, microBatch, gradientAccumulation } = config;
  const placement = { stage, offloadOptimizer, offloadParam };
  const machine = plannedMachine({});
  const timed = await timeStep(
    { model: model.config, statedParameters: undefined, seqLength, threads: job.threads, configOf: () => config },
    placement,
    { microBatch, gradientAccumulation },
    { machine: machine.machineOf!(job.ranks), ranks: job.ranks },
  );
  const lines = [
    renderSimulation({ placement, ranks: job.ranks, ...timed! }),
    ...machine.words.map((line) => wrap(line)),
    `${steps} steps: about ${Math.ceil((steps * timed!.time.seconds) / 60)} min. Nothing was started (--dry-run).`,
  ];
  return `${lines.join("\n\n")}\n`;
}
