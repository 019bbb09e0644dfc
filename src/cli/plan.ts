/** `shunya plan`: what fits, why, and what it costs. */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { isReplaceable } from "../monitor/earlier-file.ts";
import { answerPlan, type PlanAnswer } from "../planner/answer.ts";
import { handedOver } from "../planner/handover.ts";
import { fewestRanks, type Inverse, largestBatches, largestModels } from "../planner/inverse.ts";
import { type RunLength, runLength } from "../planner/run-length.ts";
import type { PlanSubject } from "../planner/subject.ts";
import { tokenOperations } from "../planner/utilisation.ts";
import { type InverseQuestion, renderInverse } from "../report/inverse-report.ts";
import { formatCount } from "../report/numbers.ts";
import { renderOffloadWork } from "../report/offload-work.ts";
import { planJson } from "../report/plan-json.ts";
import { type PlanHeading, renderHeading, renderPlan } from "../report/plan-report.ts";
import { renderWork } from "../report/plan-work.ts";
import { renderRunLength } from "../report/run-length-text.ts";
import { planThisMachine } from "./plan-machine.ts";
import { writeHtml, writeSvg } from "./plan-picture.ts";
import { type PlanFlags, type PlannedJob, planJob } from "./plan-subject.ts";

export interface PlanOutputs extends Partial<Readonly<Record<InverseQuestion, true>>> {
  readonly json?: true;
  readonly writeConfig?: string;
  readonly showWork?: true;
  readonly svg?: string;
  readonly html?: string;
  readonly overwrite?: true;
  /** Of the whole run. */
  readonly tokens?: number;
  /** Of an hour of one device. */
  readonly price?: number;
}

const engineWords = {
  shunya: "Shunya's own, simulated: some steps of it on a device that keeps the ledger",
  deepspeed: "DeepSpeed on PyTorch, estimated (docs/deepspeed-estimates.md)",
} as const;

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const printJson = (value: object): void => print(JSON.stringify(value, undefined, 2));

/** @returns the exit code: 1 where nothing fits @throws UsageError, ModelError, ConfigError */
export async function runPlan(flags: PlanFlags & PlanOutputs): Promise<number> {
  if (flags.price !== undefined && flags.tokens === undefined)
    throw new UsageError("--price is of a run; give its length with --tokens 30e9");
  checkOutputs(flags);
  const question = inverseOf(flags);
  if (question) return answerInverse(question, flags);
  if (flags.params === undefined && flags.model === undefined) return planThisMachine(flags);
  const job = planJob(flags);
  const answer = await answerPlan(job.subject, job.asked);
  const length = flags.tokens === undefined ? undefined : lengthOf(flags.tokens, flags, job, answer);
  const { shape } = job.model;
  if (flags.json) {
    const json = planJson(answer, { name: shape.name, parameters: shape.parameters });
    printJson({ ...json, ...(length && { run: length.run }) });
  } else {
    for (const warning of job.warnings) process.stderr.write(`warning: ${warning}\n`);
    print(renderPlan(headingOf(job, flags.engine), answer));
    if (length) print(`\n${renderRunLength(length.run, length.assumed)}`);
    if (flags.showWork) print(`\n${[renderWork(answer), ...offloadWork(job, answer)].join("\n\n")}`);
  }
  const { svg, html, writeConfig: configPath } = flags;
  if (svg !== undefined) writeSvg(svg, job, answer);
  if (html !== undefined) await writeHtml(html, job, answer, flags.engine);
  if (configPath !== undefined) writeConfig(configPath, job, answer);
  const written = [svg, html, configPath].filter((path) => path !== undefined);
  if (!flags.json && written.length > 0) print(`\nWritten: ${written.join(", ")}.`);
  return answer.recommended ? 0 : 1;
}

/** By the first bytes of a file: may it be replaced unasked? A configuration may be a person's own. */
const isOurs = {
  svg: (head: string) => head.includes('class="shunya-footprint"'),
  html: (head: string) => head.includes('name="generator" content="shunya"'),
  "write-config": () => false,
} as const;

/** Before anything is calculated. @throws UsageError where one file would take another's place */
function checkOutputs(flags: PlanFlags & PlanOutputs): void {
  const { config, svg, html, writeConfig: written, overwrite } = flags;
  const named = [config, svg, html, written].flatMap((path) => (path === undefined ? [] : [resolve(path)]));
  if (new Set(named).size < named.length)
    throw new UsageError("--config, --svg, --html and --write-config name one file twice; give each its own");
  if (overwrite) return;
  for (const [flag, path] of Object.entries({ svg, html, "write-config": written })) {
    if (path === undefined || isReplaceable(path, isOurs[flag as keyof typeof isOurs], `--${flag} ${path}`)) continue;
    throw new UsageError(
      `--${flag} ${path} is there already and may be somebody's own; give another name, or --overwrite to replace it`,
    );
  }
}

/** @param isLaidOut the numbers are those of the shape itself, also where a number of parameters was given */
export function headingOf(
  { model, machine, like }: PlannedJob,
  engine: PlanFlags["engine"],
  isLaidOut = false,
): PlanHeading {
  const { shape, statedParameters } = model;
  const size = `${shape.layers} layers, ${shape.hidden} wide`;
  return {
    model:
      statedParameters === undefined
        ? `${shape.name}, ${formatCount(shape.parameters)} parameters: ${size}`
        : `${shape.name}; ${isLaidOut ? "simulated as that shape is laid out" : "states are of the number that was given, all else of that shape"}`,
    machine: machine.words,
    engine: engineWords[engine],
    job: `${like.precision}, ${like.optimizer.type}${tuningWords(like)}`,
  };
}

/** Nothing where all is trained. */
function tuningWords({ lora, freeze }: PlannedJob["like"]): string {
  if (lora) return `, LoRA of rank ${lora.rank}`;
  return freeze.length > 0 ? `, but for ${freeze.join(", ")}` : "";
}

function writeConfig(path: string, { settings, autos }: PlannedJob, { recommended, subject }: PlanAnswer): void {
  if (!recommended) throw new UsageError(`--write-config ${path}: nothing fits, so there is nothing to write`);
  const { placement, batch } = recommended;
  const { ranks, checkpointing } = subject.asked;
  const placed = handedOver({ settings, autos, placement, batch, ranks, checkpointing });
  try {
    writeFileSync(path, `${JSON.stringify(placed, undefined, 2)}\n`);
  } catch (error) {
    throw new UsageError(`--write-config ${path} cannot be written: ${reasonOf(error)}`);
  }
}

/** Of an optimizer on the host, which a row has or the recommendation. */
function offloadWork({ machine, subject, like }: PlannedJob, { stages, recommended }: PlanAnswer): string[] {
  const row = [recommended, ...stages].find((each) => each?.placement.offloadOptimizer === "cpu");
  const { ranks, seqLength } = subject.asked;
  const rates = machine.machineOf?.(ranks);
  if (!row || !rates) return [];
  const { processor, hostLink, host, ranksPerNode } = rates;
  const { microBatch, gradientAccumulation } = row.batch;
  const job = {
    parameters: subject.parameters,
    tokens: microBatch * gradientAccumulation * seqLength,
    ranks,
    hosts: Math.ceil(ranks / ranksPerNode),
  };
  // An update reads and writes three fp32 states, reads a gradient and writes a parameter.
  const updateBytes = 28;
  return [
    renderOffloadWork(job, {
      operationsPerSecond: processor.productsPerSecond[like.precision],
      linkBytesPerSecond: hostLink.bytesPerSecond,
      updateSecondsPerBillion: (updateBytes * 1e9) / host.memoryBytesPerSecond,
    }),
  ];
}

/** Times are those of the shape, in the tables too; how far it is from the number is said, and not hidden in another rate. */
function shapeNote({ parameters, laidOutParameters = parameters }: PlannedJob["model"]["shape"]): string {
  const more = Math.round(100 * (parameters / laidOutParameters - 1));
  return more === 0
    ? ""
    : `; the shape that is timed has ${Math.abs(more)} % ${more > 0 ? "fewer" : "more"} parameters than were given`;
}

/** Undefined where nothing fits. */
function lengthOf(
  tokens: number,
  { price, ranks }: PlanFlags & PlanOutputs,
  { machine, model, subject }: PlannedJob,
  { recommended }: PlanAnswer,
): { readonly run: RunLength; readonly assumed: string } | undefined {
  if (!recommended) return undefined;
  const { peakPerSecond } = machine;
  const { shape } = model;
  const ofShape = shapeNote(shape);
  if (recommended.time)
    return {
      run: runLength(tokens, recommended.time, { ranks, price, peakPerSecond }),
      assumed: `the simulated step, with the shares of peak and of links in docs/hardware.md${ofShape}`,
    };
  const products = machine.machineOf?.(ranks).processor.productsPerSecond;
  if (!products) throw new UsageError("--tokens needs a speed; name a card with --device, such as A10G");
  const work = tokenOperations({ ...shape, sequence: subject.asked.seqLength, attention: "whole" });
  // Checkpointing runs the forward pass again: 8 operations for each 6.
  const operations = subject.asked.checkpointing ? (work * 4) / 3 : work;
  const reached = products.bf16;
  const tokensPerSecond = (ranks * reached) / operations;
  return {
    run: runLength(
      tokens,
      { tokensPerSecond, operations, seconds: 1 / tokensPerSecond },
      { ranks, price, peakPerSecond },
    ),
    assumed: `compute alone, 6 operations a parameter and token and attention's, at the share of peak in docs/hardware.md${ofShape}`,
  };
}

/** @throws UsageError for several */
function inverseOf(flags: PlanOutputs): InverseQuestion | undefined {
  const asked = (["largestModel", "fewestRanks", "largestBatch"] as const).filter((question) => flags[question]);
  if (asked.length > 1)
    throw new UsageError("--largest-model, --fewest-ranks and --largest-batch are one question each");
  return asked[0];
}

const answers: Readonly<Record<InverseQuestion, (subject: PlanSubject) => Promise<Inverse[]>>> = {
  largestModel: largestModels,
  fewestRanks,
  largestBatch: largestBatches,
};

/** Any model will do where the largest is asked for. */
const anyParameters = 1e9;

async function answerInverse(question: InverseQuestion, flags: PlanFlags & PlanOutputs): Promise<number> {
  if (question === "largestModel" && (flags.params !== undefined || flags.model !== undefined))
    throw new UsageError("--largest-model looks for the model; leave --params and --model out");
  const { writeConfig: written, svg, html, tokens, showWork } = flags;
  if ([written, svg, html, tokens, showWork].some((flag) => flag !== undefined))
    throw new UsageError(
      "--write-config, --svg, --html, --tokens and --show-work are of one plan; ask an inverse question without them",
    );
  const job = planJob(question === "largestModel" ? { ...flags, params: anyParameters } : flags);
  const found = await answers[question](job.subject);
  if (flags.json)
    printJson({ question, answers: found.map(({ placement, answer }) => ({ ...placement, answer: answer ?? null })) });
  else {
    const heading = headingOf(job, flags.engine);
    const model = question === "largestModel" ? "GPTs of any size, as wide and deep as published ones" : heading.model;
    print(renderHeading({ ...heading, model }, job.subject, 1));
    print(`\n${renderInverse(question, found)}`);
  }
  return found.some(({ answer }) => answer !== undefined) ? 0 : 1;
}
