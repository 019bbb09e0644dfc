/** `shunya explain --oom FILE`: which bytes an out-of-memory message was about, and the smallest change that fits. */
import { createReadStream } from "node:fs";
import { readConfigFile } from "../config/json.ts";
import type { ConfigResolution, Override } from "../config/resolve.ts";
import { Device } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import { SimulatedBackend } from "../device/simulated.ts";
import { UsageError } from "../errors/errors.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import type { Gpt2Config } from "../nn/models/gpt2-config.ts";
import { expectedStates } from "../plan/expected.ts";
import type { Plan } from "../plan/plan.ts";
import { type OomFinding, OomLog } from "../planner/oom-log.ts";
import { planOfPsi } from "../planner/psi-model.ts";
import type { TransformerShape } from "../planner/shape.ts";
import { type EstimateVariant, type SmallestChange, smallestChange } from "../planner/smallest-change.ts";
import { explainOom, renderOom } from "../report/explain-oom.ts";
import type { OomJob } from "../report/explain-oom-advice.ts";
import { terminalWidth, wrap } from "../report/wrap.ts";
import { answerConfig } from "./config.ts";
import { renderConfigAnswer } from "./config-report.ts";
import { describeForConfig, openModel } from "./job.ts";

export interface OomQuestion {
  /** A log; "-" for standard input. */
  readonly log: string;
  /** The job's configuration; undefined: not known. */
  readonly file: string | undefined;
  readonly overrides: readonly Override[];
  readonly ranks: number | undefined;
  readonly model: string | undefined;
  readonly parameters: number | undefined;
  readonly seqLength: number | undefined;
  /** Undefined: what the message says of the device. */
  readonly deviceBytes: number | undefined;
}

/** Makes an estimate of the job for placements and batches that it is not in; undefined where too little of it is known. */
export type EstimatorOf = (job: OomJob, config: ConfigResolution | undefined) => EstimateVariant | undefined;

/** @returns the exit code: 1 where the log has no such message, or the configuration has an error */
export async function runExplainOom(
  question: OomQuestion,
  asJson: boolean,
  estimatorOf?: EstimatorOf,
): Promise<number> {
  const columns = process.stdout.columns || terminalWidth;
  const findings = await readLog(question.log);
  const { config, exitCode } = await readConfig(question, columns);
  if (exitCode !== undefined) return exitCode;
  if (findings.length === 0) {
    process.stdout.write(`${wrap(nothingFound(question.log), { width: columns })}\n`);
    return exitCodes.internal;
  }
  const job = await jobOf(question, config);
  const estimateOf = estimatorOf?.(job, config);
  const explanations = findings.map((finding) =>
    explainOom(finding, job, changeFor(finding, question, job, estimateOf)),
  );
  const source = question.log === "-" ? "standard input" : question.log;
  process.stdout.write(
    asJson
      ? `${JSON.stringify({ log: source, messages: explanations }, undefined, 2)}\n`
      : renderOom(explanations, source, columns),
  );
  return exitCodes.ok;
}

const nothingFound = (log: string): string =>
  `${log === "-" ? "Standard input" : log} has no message of memory that ran out. Looked for: "out of memory" of CUDA, HIP or XPU, ` +
  'DefaultCPUAllocator and other host allocations that failed, cudaHostAlloc, a process that was killed (return code -9, exit code 137, "Killed"), ' +
  '"No space left on device", and Shunya\'s own refusal. Give the whole output of the run, the traceback included.';

/** Lines end at a carriage return too: progress bars have no other. */
const lineEnd = /\r\n|\n|\r/;
/** What has no line end for so long is no log; it is cut. */
const longestPart = 2 ** 20;

async function readLog(log: string): Promise<readonly OomFinding[]> {
  const reader = new OomLog();
  const stream: AsyncIterable<string> = (log === "-" ? process.stdin : createReadStream(log)).setEncoding("utf8");
  let rest = "";
  try {
    for await (const chunk of stream) {
      const lines = (rest + chunk).split(lineEnd);
      rest = lines.pop()!;
      for (const line of lines) reader.push(line);
      if (rest.length > longestPart) {
        reader.push(rest);
        rest = "";
      }
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "no such file" : code === "EISDIR" ? "it is a folder" : message;
    throw new UsageError(`--oom ${log} cannot be read: ${why}; name a log file, or - for standard input`);
  }
  if (rest !== "") reader.push(rest);
  return reader.end();
}

async function readConfig(
  { file, overrides, ranks, model }: OomQuestion,
  columns: number,
): Promise<{ config?: ConfigResolution; exitCode?: number }> {
  if (file === undefined) return {};
  const answer = await answerConfig({ file, overrides, ranks: ranks ?? 1, model }, readConfigFile(file));
  if (answer.problems.every(({ level }) => level === "warning")) return { config: answer.draft as ConfigResolution };
  process.stdout.write(renderConfigAnswer(answer, columns));
  return { exitCode: exitCodes.internal };
}

/** DeepSpeed's default. */
const reduceElements = 5e8;

async function jobOf(question: OomQuestion, config: ConfigResolution | undefined): Promise<OomJob> {
  const shape = question.model === undefined ? undefined : await shapeOf(question.model);
  const parameters = shape?.parameters ?? question.parameters;
  const plan = config && parameters !== undefined ? planOfPsi(config, parameters, alignmentBytes()) : undefined;
  return {
    parameters,
    shape,
    ranks: question.ranks ?? (config && 1),
    microBatch: config?.microBatch,
    gradientAccumulation: config?.gradientAccumulation ?? 1,
    seqLength: question.seqLength,
    elementBytes: config?.precision === "fp32" ? dtypeBytes.f32 : dtypeBytes.bf16,
    reduceElements: config?.sizes.reduceBucketSize ?? reduceElements,
    overlapComm: config?.overlapComm ?? false,
    stage: config?.stage,
    offloadOptimizer: config?.offloadOptimizer ?? "none",
    offloadParam: config?.offloadParam ?? "none",
    deviceStateBytes: plan && stateBytes(plan, "device"),
    hostStateBytes: plan && stateBytes(plan, "host"),
  };
}

async function shapeOf(model: string): Promise<TransformerShape> {
  await using opened = await openModel(model);
  const config: Gpt2Config = opened.config;
  return {
    name: model,
    parameters: describeForConfig(model, config)!.parameterElements!,
    layers: config.layers,
    hidden: config.hidden,
    heads: config.heads,
    keyValueHeads: config.heads,
    feedForward: 4 * config.hidden,
    isGated: false,
    vocabulary: config.vocabularySize,
    positions: config.positions,
    isTied: config.tied,
    hasDropout: config.residualDropout > 0,
  };
}

function stateBytes(plan: Plan, tier: Tier): number {
  const { parameters, gradients, optimizer } = expectedStates(plan, tier);
  return parameters.formulaBytes + gradients.formulaBytes + optimizer.formulaBytes;
}

function alignmentBytes(): number {
  using device = new Device({ backend: new SimulatedBackend(1), arenaBytes: 2 ** 52 });
  return device.alignmentBytes;
}

/** Changes are sought for a device that was full, where the job is known well enough to be estimated. */
function changeFor(
  { place, capacity }: OomFinding,
  { deviceBytes = capacity?.bytes }: OomQuestion,
  job: OomJob,
  estimateOf: EstimateVariant | undefined,
): SmallestChange | undefined {
  const { stage, microBatch, offloadOptimizer, offloadParam, gradientAccumulation } = job;
  if (place !== "device" || estimateOf === undefined) return undefined;
  if (deviceBytes === undefined || stage === undefined || microBatch === undefined) return undefined;
  const asked = {
    placement: { stage, offloadOptimizer, offloadParam },
    microBatch,
    gradientAccumulation,
    checkpointing: false,
  };
  const room = { deviceBytes, hostBytes: Number.POSITIVE_INFINITY, diskBytes: Number.POSITIVE_INFINITY };
  return smallestChange(asked, room, estimateOf);
}
