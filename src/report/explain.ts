/** The explanation of a configuration: as data, and as a page for a terminal. */
import type { ConfigProblem } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { tierOf } from "../plan/residence.ts";
import { parametersOf, type Subject } from "../planner/explained.ts";
import { type AdviceLine, adviceLines, type Leaner, type Misfit, renderAdvice } from "./explain-advice.ts";
import { type BucketLine, bucketLines, renderBucketTable } from "./explain-buckets.ts";
import { hiddenNotes } from "./explain-hidden.ts";
import { renderStateTable, type StateLine, stateLines, stateNotes } from "./explain-states.ts";
import { onTier } from "./explain-text.ts";
import { renderTrafficLines, type TrafficLine, trafficLines, trafficNotes } from "./explain-traffic.ts";
import { renderValueLines, type ValueLine } from "./explain-values.ts";
import { batchNotes, optimizerNotes, precisionNotes } from "./explain-words.ts";
import { formatMany } from "./numbers.ts";
import { wrap } from "./wrap.ts";

export interface Explanation {
  readonly config: string;
  readonly ranks: number;
  readonly model: string | null;
  readonly parameters: number | null;
  readonly summary: readonly string[];
  readonly states: readonly StateLine[];
  readonly stateNotes: readonly string[];
  readonly buckets: readonly BucketLine[];
  readonly overlap: readonly string[];
  readonly traffic: readonly TrafficLine[];
  readonly trafficNotes: readonly string[];
  readonly precision: readonly string[];
  readonly batch: readonly string[];
  readonly optimizer: readonly string[];
  readonly values: readonly ValueLine[];
  readonly advice: readonly AdviceLine[];
}

export interface ExplainInput {
  readonly subject: Subject;
  readonly values: readonly ValueLine[];
  readonly problems: readonly ConfigProblem[];
  readonly leaner: Leaner | undefined;
  readonly misfit: Misfit | undefined;
}

export function explain({ subject, values, problems, leaner, misfit }: ExplainInput): Explanation {
  const states = stateLines(subject);
  const traffic = trafficLines(subject);
  return {
    config: subject.file,
    ranks: subject.config.worldSize,
    model: subject.modelName ?? null,
    parameters: parametersOf(subject) ?? null,
    summary: summaryOf(subject),
    states,
    stateNotes: stateNotes(subject, states),
    buckets: bucketLines(subject),
    overlap: hiddenNotes(subject),
    traffic,
    trafficNotes: trafficNotes(subject, traffic),
    precision: precisionNotes(subject),
    batch: batchNotes(subject),
    optimizer: optimizerNotes(subject),
    values,
    advice: adviceLines(subject, problems, { leaner, misfit }),
  };
}

const shares: readonly string[] = [
  "nothing is shared: every rank holds the whole model, its gradients and its optimizer states (plain data parallelism)",
  "ranks share the optimizer states: each holds 1/N of them, and all parameters and gradients",
  "ranks share optimizer states and gradients: each holds 1/N of them, and all parameters",
  "ranks share everything: each holds 1/N of parameters, gradients and optimizer states, and a layer's parameters are whole only while they are used",
];

function summaryOf({ config }: Subject): string[] {
  const { stage, worldSize, precision, trainBatch, optimizer, offloadOptimizer, offloadParam } = config;
  const offloaded = [
    ...(offloadOptimizer === "none"
      ? []
      : [`optimizer states live ${onTier[tierOf[offloadOptimizer]]} and are updated by the host's cores`]),
    ...(offloadParam === "none" ? [] : [`parameters rest ${onTier[tierOf[offloadParam]]}`]),
  ];
  return [
    `ZeRO stage ${stage} on ${formatMany(worldSize, "rank")}: ${shares[stage]}.`,
    ...(offloaded.length === 0 ? [] : [`Offload: ${offloaded.join("; ")}.`]),
    `It trains in ${precision} with ${optimizer.type}, ${formatMany(trainBatch, "sample")} a step.`,
  ];
}

/** @param columns of the terminal */
export function renderExplanation(explanation: Explanation, columns: number): string {
  const paragraph = (text: string): string => wrap(text, { width: columns });
  const bullet = (text: string): string => `- ${wrap(text, { first: 2, indent: 2, width: columns })}`;
  const section = (title: string, ...parts: string[]): string =>
    [title, "─".repeat(Math.min(columns, title.length)), ...parts].join("\n");
  const { buckets, traffic, advice } = explanation;
  return `${[
    section(printable(explanation.config), paragraph(explanation.summary.join(" "))),
    section("Where model states live", renderStateTable(explanation.states), "", ...explanation.stateNotes.map(bullet)),
    section(
      "Buckets and limits, in elements",
      renderBucketTable(buckets),
      ...buckets.map(
        ({ says }) =>
          `\n${[says[0]!, ...says.slice(1)].map((text, i) => (i === 0 ? paragraph(text) : `  ${wrap(text, { first: 2, indent: 2, width: columns })}`)).join("\n")}`,
      ),
    ),
    section("What runs beside what", ...explanation.overlap.map(bullet)),
    section(
      "What crosses which link",
      ...(traffic.length === 0 ? [] : [renderTrafficLines(traffic), ""]),
      ...explanation.trafficNotes.map(bullet),
    ),
    section("Precision", ...explanation.precision.map(bullet)),
    section("Batch", ...explanation.batch.map(bullet)),
    section("Optimizer and schedule", ...explanation.optimizer.map(bullet)),
    section("Every value and where it is from", renderValueLines(explanation.values, columns)),
    section(
      "What to change",
      ...(advice.length === 0
        ? ["Nothing that Shunya knows of."]
        : advice.map((line) => bullet(printable(renderAdvice(line))))),
    ),
  ].join("\n\n")}\n`;
}
