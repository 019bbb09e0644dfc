/** `shunya plan` without a model: what this machine trains, how fast, and the command that begins. */
import { availableParallelism } from "node:os";
import { gpt2Configs } from "../nn/models/gpt2-config.ts";
import type { Placement } from "../plan/placement.ts";
import { shortagesOf } from "../planner/fit.ts";
import { largestModels } from "../planner/inverse.ts";
import { type MachineRow, renderMachineRows } from "../report/inverse-report.ts";
import { renderHeading } from "../report/plan-report.ts";
import { headingOf, type PlanOutputs } from "./plan.ts";
import { type PlanFlags, type PlannedJob, planJob } from "./plan-subject.ts";

const oneSequence = { microBatch: 1, gradientAccumulation: 1 };
/** To describe the machine by; its answers are for other sizes. */
const anyParameters = 1e8;

/** @returns the exit code */
export async function planThisMachine(flags: PlanFlags & PlanOutputs): Promise<number> {
  const ranks = flags.ranks > 1 ? flags.ranks : flags.device === undefined ? availableParallelism() : flags.ranks;
  const asked = { ...flags, ranks };
  const job = planJob({ ...asked, params: anyParameters });
  const rows: MachineRow[] = [];
  for (const { placement, answer } of await largestModels(job.subject)) {
    const variant = { ...job.subject.asked, ...(answer !== undefined && { parameters: answer }) };
    const timed = answer === undefined ? undefined : await job.subject.timeOf?.(variant, placement, oneSequence);
    const published = await largestPublished(asked, placement);
    rows.push({ placement, answer, tokensPerSecond: timed?.time.tokensPerSecond, published });
  }
  if (flags.json)
    process.stdout.write(
      `${JSON.stringify({ ranks, rows: rows.map(({ placement, ...row }) => ({ ...placement, ...row })) }, undefined, 2)}\n`,
    );
  else process.stdout.write(render(job, flags, rows));
  return rows.some(({ answer }) => answer !== undefined) ? 0 : 1;
}

/** The name of the largest GPT-2 that fits. */
async function largestPublished(flags: PlanFlags, placement: Placement): Promise<string | undefined> {
  for (const name of Object.keys(gpt2Configs).reverse()) {
    const { subject } = planJob({ ...flags, model: name });
    const estimate = await subject.estimateOf(subject.asked)(placement, oneSequence);
    if (estimate && shortagesOf(estimate, subject.roomOf(subject.asked)).length === 0) return name;
  }
  return undefined;
}

function render(job: PlannedJob, flags: PlanFlags, rows: readonly MachineRow[]): string {
  const model = "GPTs of any size, as wide and deep as published ones";
  const lines = [
    renderHeading({ ...headingOf(job, flags.engine), model }, job.subject, 1),
    renderMachineRows(rows),
    ...(job.machine.isThisMachine ? [commandFor(rows, job)] : []),
  ];
  return `${lines.join("\n\n")}\n`;
}

/** Of the largest published model that needs the fewest offloads. */
function commandFor(rows: readonly MachineRow[], { subject, like }: PlannedJob): string {
  const sizes = Object.keys(gpt2Configs);
  const plainRows = rows.filter(({ placement }) => placement.offloadOptimizer === "none");
  const best = [...plainRows, ...rows]
    .filter(({ published }) => published !== undefined)
    .sort((a, b) => sizes.indexOf(b.published!) - sizes.indexOf(a.published!))
    .find(
      ({ placement }) => placement.offloadOptimizer === "none" || plainRows.every((row) => row.published === undefined),
    );
  if (!best) return "No published model fits; train --data my.txt chooses a small one.";
  const { stage } = best.placement;
  const { ranks, seqLength } = subject.asked;
  const precision = like.precision === "fp32" ? "" : ` --set ${like.precision}.enabled=true`;
  return [
    `To begin:\n  shunya train --model ${best.published} --ranks ${ranks} --stage ${stage} \\`,
    `    --micro-batch 1 --seq-length ${seqLength}${precision} --data my.txt`,
  ].join("\n");
}
