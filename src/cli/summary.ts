/** What `shunya train` says before and after: the plan, then formula beside fact. */
import type { ConversationSummary } from "../data/conversation-summary.ts";
import { MixedSampler } from "../data/mixed-sampler.ts";
import type { Tier } from "../device/ledger.ts";
import type { LockReport } from "../device/locked-memory.ts";
import { expectedStates, expectedTraffic } from "../plan/expected.ts";
import { expectedCopies } from "../plan/expected-copies.ts";
import type { Plan } from "../plan/plan.ts";
import { renderChart } from "../report/chart.ts";
import { renderHidden } from "../report/hidden.ts";
import { renderMemoryTables } from "../report/memory-table.ts";
import { formatCount, formatMany, formatOperations, formatReal, formatShare } from "../report/numbers.ts";
import { groupRanks } from "../report/rank-groups.ts";
import { renderSizes } from "../report/sizes-table.ts";
import { renderTrafficTables } from "../report/traffic-table.ts";
import type { RankMemory } from "../report/types.ts";
import { wrap } from "../report/wrap.ts";
import { byteTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import type { Forecast } from "../zero/forecast.ts";
import type { StepRecord } from "../zero/record.ts";
import type { OpenedJob, TrainJob } from "./job.ts";
import { shownModel } from "./model-flags.ts";
import { describeRates, groupRows } from "./rates.ts";
import { delayRows, diskLines, diskRows, lockedLines, memoryRows, renderStates } from "./tiers-text.ts";

const labelWidth = 11;

export function renderOpening(job: TrainJob, opened: OpenedJob, f: Forecast): string {
  const { config, model, prepared, sampler, seqLength, steps, tokenizer, validation } = opened;
  const { optimizer, microBatch, gradientAccumulation, worldSize, trainBatch } = config;
  const clipping = config.gradientClipping > 0 ? `gradients clipped at ${config.gradientClipping}` : "no clipping";
  const name = typeof job.model === "string" ? shownModel(job.model) : "chosen";
  const epochs = (steps * trainBatch) / sampler.rowCount;
  const perEpoch = sampler.rowCount / trainBatch;
  const threads = formatMany(job.threads, "thread");
  const { rowName } = opened.rows;
  const rows: readonly (readonly [string, string])[] = [
    ["model", `${name}: ${formatMany(f.plan.parameterElements, "parameter")} in ${config.precision}`],
    ...trainedRows(f.plan),
    ["ranks", `${worldSize} on the CPU with ${threads} each; ZeRO stage ${config.stage}`],
    ...(prepared.summary
      ? conversationRows(prepared.summary, seqLength)
      : [
          [
            "data",
            `${formatMany(opened.rows.tokens, "token")}, ${formatMany(sampler.rowCount, "window")} of ${seqLength}`,
          ] as const,
        ]),
    ...(validation
      ? [["", `${formatMany(validation.places.count, rowName)} held out for validation`] satisfies [string, string]]
      : []),
    ...(sampler instanceof MixedSampler ? mixRows(sampler, steps * trainBatch) : []),
    ...tokenizerRows(tokenizer, model.config.vocabularySize),
    [
      "batch",
      `${formatMany(microBatch, rowName)} x ${gradientAccumulation} accumulated x ${formatMany(worldSize, "rank")} = ${formatMany(trainBatch, rowName)} a step`,
    ],
    ["steps", `${formatCount(steps)}, with ${oneDecimal(perEpoch)} an epoch: ${oneDecimal(epochs)} epochs`],
    ["optimizer", `${optimizer.type}, learning rate ${describeRates(config, steps)}`],
    ["", `weight decay ${optimizer.weightDecay}, ${clipping}`],
    ...groupRows(f.plan, steps),
    ...config.autos.map(({ path, value, why }, i): [string, string] => [
      i === 0 ? '"auto"' : "",
      `${path} is ${JSON.stringify(value)}: ${why}`,
    ]),
    ...memoryRows(job, f),
    ...delayRows(f.plan),
    ...diskRows(f.plan, f),
  ];
  const tables = [renderStates(f.plan), renderSizes(f.plan)].filter((table) => table !== undefined);
  const lines = rows.map(([label, text]) => `${label.padEnd(labelWidth)}${wrap(text, { indent: labelWidth })}`);
  return [...lines, "", ...tables.flatMap((table) => [table, ""]), ""].join("\n");
}

/** "12 conversations, 345 answer tokens of 6,789", and what of the rows is padding. */
function conversationRows(
  { samples, tokens, targets, padded, shorter }: ConversationSummary,
  seqLength: number,
): [label: string, text: string][] {
  const advice = shorter
    ? `; --seq-length ${formatCount(shorter.seqLength)} would cut ${shorter.cut === 0 ? "none" : formatMany(shorter.cut, "conversation")} and make it ${formatShare(shorter.padded, 1)}`
    : "";
  return [
    [
      "data",
      `${formatMany(samples, "conversation")}, ${formatMany(targets, "answer token")} of ${formatCount(tokens)}`,
    ],
    ["", `one a row of ${seqLength}: ${formatShare(padded, 1)} of positions are padding${advice}`],
  ];
}

/** Nothing where all is trained. */
function trainedRows({ trainableElements, parameterElements, config: { lora } }: Plan): [string, string][] {
  if (trainableElements === parameterElements) return [];
  const share = formatShare(trainableElements, parameterElements);
  const words = lora ? `LoRA of rank ${lora.rank}, alpha ${lora.alpha}` : "the others are frozen";
  return [["", `${formatMany(trainableElements, "parameter")} (${share}) are trained: ${words}`]];
}

function mixRows(sampler: MixedSampler, samples: number): [label: string, text: string][] {
  return sampler
    .shares(samples)
    .map(({ name, share, epochs }) => [
      "",
      `${formatShare(share, 1)} from ${name}: ${oneDecimal(epochs)} epochs of it`,
    ]);
}

/** Bytes go without saying. */
function tokenizerRows({ name, vocabularySize }: Tokenizer, ofModel: number): [string, string][] {
  if (name === byteTokenizer.name) return [];
  const model = vocabularySize === ofModel ? "the model's vocabulary" : `${formatCount(ofModel)} in the model`;
  return [["tokenizer", `${name}: ${formatCount(vocabularySize)} tokens, ${model}`]];
}

/** "0.04", "12.5", "1,234". */
function oneDecimal(count: number): string {
  return count >= 100 ? formatCount(count) : count >= 0.95 ? count.toFixed(1) : count.toPrecision(1);
}

/** Tables of the last step, and the loss over all steps. */
export function renderSummary(
  opened: OpenedJob,
  f: Forecast,
  records: readonly StepRecord[],
  locked: LockReport | undefined,
  validations: readonly ValidatedStep[] = [],
): string {
  const last = records.at(-1)!;
  const formula = formulaBytes(f.plan);
  const terms = [...expectedTraffic(f.plan, f.forwardOnly), ...expectedCopies(f.plan, f.forwardOnly)];
  const memory = last.ranks.map((r) => ({ formula, forecast: f.report.memory, measured: r.memory }));
  const traffic = last.ranks.map((r) => ({ terms, forecast: f.report.traffic, measured: r.traffic }));
  const operations = groupRanks(last.ranks.map((r) => r.operations))
    .map(({ title, value }) => `${formatOperations(value)} (${title})`)
    .join(", ");
  const seconds = records.reduce((sum, r) => sum + r.seconds, 0);
  const tokens = records.length * opened.config.trainBatch * opened.seqLength;
  return [
    "",
    renderMemoryTables(memory),
    "",
    renderTrafficTables(traffic),
    "",
    ...[
      `Floating-point operations a step: ${operations}; ${formatOperations(f.report.operations)} expected.`,
      ...hiddenLines(records),
      ...diskLines(records),
      ...lockedLines(f.plan.config, locked),
      countSteps(records),
      ...(validations.length > 0 ? [describeValidations(validations)] : []),
      `${formatMany(tokens, "token")}${opened.prepared.summary ? " with padding" : ""} in ${seconds.toFixed(1)} s: ${formatCount(Math.round(tokens / seconds))} tokens/s.`,
    ].map((line) => wrap(line, { indent: 2 })),
    "",
    ...(records.length > 1
      ? [
          renderChart(
            "loss",
            records.map((r) => r.loss),
            { firstStep: records[0]!.step },
          ),
          "",
        ]
      : []),
  ].join("\n");
}

export interface ValidatedStep {
  readonly step: number;
  readonly loss: number;
}

function describeValidations(validations: readonly ValidatedStep[]): string {
  const last = validations.at(-1)!;
  const best = validations.reduce((a, b) => (b.loss < a.loss ? b : a));
  const words = `Validation loss ${formatReal(last.loss)} after step ${last.step}`;
  return best === last ? `${words}.` : `${words}; it was lowest after step ${best.step}: ${formatReal(best.loss)}.`;
}

/** Bytes of model states at rest by ZeRO's formulas. */
function formulaBytes(plan: Plan): RankMemory["formula"] {
  const tierBytes = (tier: Tier) => {
    const { parameters, gradients, optimizer } = expectedStates(plan, tier);
    const [p, g, o] = [parameters, gradients, optimizer].map((expected) => expected.formulaBytes);
    return { parameters: p!, gradients: g!, optimizer: o! };
  };
  return { device: tierBytes("device"), host: tierBytes("host"), disk: tierBytes("disk") };
}

function hiddenLines(records: readonly StepRecord[]): string[] {
  const hidden = renderHidden(records);
  return hidden === undefined ? [] : [hidden];
}

/** "100 steps attempted, 97 applied, 3 skipped (4, 5, 9)." */
function countSteps(records: readonly StepRecord[]): string {
  const skipped = records.filter((r) => r.skipped).map((r) => r.step);
  const named = skipped.length <= mostNamed ? skipped : [...skipped.slice(0, mostNamed), "..."];
  const which = skipped.length === 0 ? "" : ` (${named.join(", ")})`;
  const applied = records.length - skipped.length;
  return `${formatMany(records.length, "step")} attempted, ${formatCount(applied)} applied, ${formatCount(skipped.length)} skipped${which}.`;
}

const mostNamed = 10;
