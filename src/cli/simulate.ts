/** `shunya simulate`: one job, step by step on the simulated device, with a virtual clock. */
import type { OffloadDevice, Stage } from "../config/types.ts";
import type { TimelineSink } from "../device/timeline.ts";
import { UsageError } from "../errors/errors.ts";
import { createLogger } from "../log/logger.ts";
import type { Placement } from "../plan/placement.ts";
import { shortagesOf } from "../planner/fit.ts";
import { batchChoice } from "../planner/recommend.ts";
import type { BatchSplit } from "../planner/settings.ts";
import { timeStep } from "../planner/step-time.ts";
import { renderHeading } from "../report/plan-report.ts";
import { renderFit, renderSimulation, simulationJson } from "../report/simulation-report.ts";
import { renderProgramSpan, renderQueueSpan, renderThreads } from "../report/trace-events.ts";
import { headingOf } from "./plan.ts";
import { type PlanFlags, type PlannedJob, planJob } from "./plan-subject.ts";
import { TraceFile } from "./trace-file.ts";

export interface SimulateFlags extends Omit<PlanFlags, "engine"> {
  readonly stage?: Stage;
  readonly offloadOptimizer?: OffloadDevice;
  readonly offloadParam?: OffloadDevice;
  readonly trace?: string;
  readonly json?: true;
}

/** @returns the exit code: 1 where it does not fit @throws UsageError, ModelError, ConfigError */
export async function runSimulate(flags: SimulateFlags): Promise<number> {
  const job = planJob({ ...flags, engine: "shunya" });
  const { machineOf } = job.machine;
  if (!machineOf) throw new UsageError("simulate needs the speed of a device; name a card with --device, such as A10G");
  const { asked } = job.subject;
  const placement = placementOf(flags, job);
  const batch = batchOf(job);
  await using trace =
    flags.trace === undefined
      ? undefined
      : await TraceFile.open(flags.trace, { inputs: flags.config ? [flags.config] : [], logger: createLogger() });
  const machine = machineOf(asked.ranks);
  const sink = trace && sinkOf(trace);
  // All numbers are of the shape that is simulated, also where it stands for a number of parameters.
  const laidOut = { ...job.jobOf(asked), statedParameters: undefined };
  const timed = await timeStep(laidOut, placement, batch, {
    machine,
    ranks: asked.ranks,
    ...(sink && { sink }),
  });
  if (!timed) throw new UsageError("this configuration and this placement do not go together; see shunya config FILE");
  const simulated = { placement, ranks: asked.ranks, ...timed };
  const room = job.machine.roomOf(asked.ranks);
  if (flags.json) process.stdout.write(`${JSON.stringify(simulationJson(simulated, room), undefined, 2)}\n`);
  else {
    const heading = renderHeading(headingOf(job, "shunya", true), job.subject, batch.microBatch);
    process.stdout.write(`${heading}\n\n${renderSimulation(simulated)}\n\n${renderFit(simulated.estimate, room)}\n`);
  }
  return shortagesOf(simulated.estimate, room).length === 0 ? 0 : 1;
}

/** Flags over the file. @throws UsageError for what no stage allows */
function placementOf({ stage, offloadOptimizer, offloadParam }: SimulateFlags, { asked }: PlannedJob): Placement {
  const placement = {
    stage: stage ?? asked.stage ?? 0,
    offloadOptimizer: offloadOptimizer ?? asked.offloadOptimizer,
    offloadParam: offloadParam ?? asked.offloadParam,
  };
  if (placement.offloadOptimizer !== "none" && placement.stage === 0)
    throw new UsageError("--offload-optimizer needs stage 1, 2 or 3: states that are whole stay on the device");
  if (placement.offloadParam !== "none" && placement.stage !== 3)
    throw new UsageError("--offload-param needs stage 3: parameters that are whole stay on the device");
  return placement;
}

/** The asked micro-batch, or one sequence, and what accumulates to the asked batch. */
function batchOf({ subject }: PlannedJob): BatchSplit {
  const { trainBatch, microBatch, asked } = subject;
  if (trainBatch === undefined) return { microBatch: microBatch ?? 1, gradientAccumulation: 1 };
  const perRank = trainBatch / asked.ranks;
  const split = batchChoice(perRank).splits.find((each) => microBatch === undefined || each.microBatch === microBatch);
  if (!Number.isInteger(perRank) || !split)
    throw new UsageError(
      `--batch ${trainBatch}: wanted a multiple of ${asked.ranks} ranks${microBatch === undefined ? "" : ` x micro-batches of ${microBatch}`}`,
    );
  return split;
}

/** Rank 0's. */
function sinkOf(trace: TraceFile): TimelineSink {
  const write = (events: string): void => trace.write({ type: "trace", events, endsInStep: undefined });
  write(renderThreads(0));
  return {
    queues: (spans) => write(spans.map((span) => renderQueueSpan(0, span)).join("")),
    program: (spans) => write(spans.map((span) => renderProgramSpan(0, span)).join("")),
  };
}
