/** `shunya plan`: what fits, why, and what it costs. */
import { writeFileSync } from "node:fs";
import { UsageError } from "../errors/errors.ts";
import { answerPlan, type PlanAnswer } from "../planner/answer.ts";
import { handedOver } from "../planner/handover.ts";
import { formatCount } from "../report/numbers.ts";
import { planJson } from "../report/plan-json.ts";
import { type PlanHeading, renderPlan } from "../report/plan-report.ts";
import { type PlanFlags, type PlannedJob, planJob } from "./plan-subject.ts";

export interface PlanOutputs {
  readonly json?: true;
  readonly writeConfig?: string;
}

const engineWords = {
  shunya: "Shunya's own, simulated: two steps of it on a device that keeps the ledger",
  deepspeed: "DeepSpeed on PyTorch, estimated (docs/deepspeed-estimates.md)",
} as const;

export function headingOf({ model, machine, like }: PlannedJob, engine: PlanFlags["engine"]): PlanHeading {
  const { shape, statedParameters } = model;
  const size = `${shape.layers} layers, ${shape.hidden} wide`;
  const stands = statedParameters === undefined ? "" : "; states are of the number given, all else of that shape";
  return {
    model:
      statedParameters === undefined
        ? `${shape.name}, ${formatCount(shape.parameters)} parameters: ${size}`
        : `${shape.name}${stands}`,
    machine: machine.words,
    engine: engineWords[engine],
    job: `${like.precision}, ${like.optimizer.type}`,
  };
}

/** @returns the exit code: 1 where nothing fits @throws UsageError, ModelError, ConfigError */
export async function runPlan(flags: PlanFlags & PlanOutputs): Promise<number> {
  const job = planJob(flags);
  const answer = await answerPlan(job.subject, job.asked);
  const { shape } = job.model;
  process.stdout.write(
    flags.json
      ? `${JSON.stringify(planJson(answer, { name: shape.name, parameters: shape.parameters }), undefined, 2)}\n`
      : renderPlan(headingOf(job, flags.engine), answer),
  );
  if (flags.writeConfig !== undefined) writeConfig(flags.writeConfig, job, answer, flags.json === true);
  return answer.recommended ? 0 : 1;
}

function writeConfig(
  path: string,
  { settings, autos }: PlannedJob,
  { recommended, subject }: PlanAnswer,
  quiet: boolean,
): void {
  if (!recommended) throw new UsageError(`--write-config ${path}: nothing fits, so there is nothing to write`);
  const { placement, batch } = recommended;
  const { ranks, checkpointing } = subject.asked;
  const placed = handedOver({ settings, autos, placement, batch, ranks, checkpointing });
  try {
    writeFileSync(path, `${JSON.stringify(placed, undefined, 2)}\n`);
  } catch (error) {
    throw new UsageError(`--write-config ${path} cannot be written: ${(error as Error).message}`);
  }
  if (!quiet) process.stdout.write(`\nThe configuration is in ${path}.\n`);
}
