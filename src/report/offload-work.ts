/** `--show-work` of an optimizer on the host: the four legs of its time by ZeRO-Offload's formulas, by schedule. */
import {
  accumulationThatHides,
  hidingTokens,
  type OffloadJob,
  type OffloadRates,
  offloadLegs,
  offloadSchedules,
  offloadStepSeconds,
} from "../planner/offload-time.ts";
import { formatCount } from "./numbers.ts";
import { secondsText } from "./plan-words.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./wrap.ts";

const scheduleWords = {
  serial: "one after the other",
  overlapped: "transfers beside compute and update",
  earlyForward: "update beside the next forward pass",
  delayed: "update a step late",
} as const;

export function renderOffloadWork(job: OffloadJob, rates: OffloadRates): string {
  const legs = offloadLegs(job, rates);
  const steps = offloadStepSeconds(legs);
  const hiding = hidingTokens(job.parameters, legs, rates);
  const hides = { serial: undefined, ...hiding };
  const accumulation = accumulationThatHides(Math.max(legs.down, legs.up), legs.compute);
  return [
    wrap(
      `Optimizer on the host, by ZeRO-Offload's formulas for ${formatCount(job.tokens)} tokens of a rank: compute ` +
        `${secondsText(legs.compute)}, gradients down ${secondsText(legs.down)}, update ${secondsText(legs.update)}, ` +
        `parameters up ${secondsText(legs.up)}.`,
    ),
    renderTable({
      columns: [
        { header: "schedule", align: "left" },
        { header: "step", align: "right" },
        { header: "hidden from, tokens", align: "right" },
      ],
      rows: offloadSchedules.map((schedule) => [
        scheduleWords[schedule],
        secondsText(steps[schedule]),
        hides[schedule] === undefined ? "never" : formatCount(Math.ceil(hides[schedule])),
      ]),
    }),
    wrap(
      `A transfer alone is as long as the compute of ${formatCount(Math.ceil(hiding.transfer))} tokens; ` +
        `accumulation of ${accumulation} hides one that crosses once in a step (gradients of stages 2 and 3 cross in every micro-batch).`,
    ),
  ].join("\n");
}
