/** `shunya explain --oom FILE`: which bytes an out-of-memory message was about, and the smallest change that fits. */
import { createReadStream } from "node:fs";
import { readConfigFile } from "../config/json.ts";
import type { ConfigResolution } from "../config/resolve.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { expectedStates } from "../plan/expected.ts";
import type { Plan } from "../plan/plan.ts";
import { defaultBuckets } from "../planner/deepspeed.ts";
import { placementOf } from "../planner/explained.ts";
import { type OomFinding, OomLog } from "../planner/oom-log.ts";
import { planOfPsi } from "../planner/psi-model.ts";
import { type SmallestChange, smallestChange } from "../planner/smallest-change.ts";
import { explainOom, renderOom } from "../report/explain-oom.ts";
import type { OomJob } from "../report/explain-oom-advice.ts";
import { terminalWidth, wrap } from "../report/wrap.ts";
import { answerConfig } from "./config.ts";
import { renderConfigAnswer } from "./config-report.ts";
import { estimateForDeepSpeed } from "./deepspeed-job.ts";
import { alignmentBytes, type ExplainedModel, type ExplainQuestion, modelOf, seqLengthOf } from "./explain-subject.ts";

export interface OomQuestion extends Omit<ExplainQuestion, "file" | "ranks"> {
  /** A log; "-" for standard input. */
  readonly log: string;
  /** The job's configuration; undefined: not known. */
  readonly file: string | undefined;
  /** Undefined: not known, or one with a configuration. */
  readonly ranks: number | undefined;
}

/** @returns the exit code: 1 where the log has no such message, 2 where the configuration has an error */
export async function runExplainOom(question: OomQuestion, asJson: boolean): Promise<number> {
  const columns = process.stdout.columns || terminalWidth;
  const findings = await readLog(question.log);
  const model = modelOf(question);
  const { config, exitCode } = await readConfig(question, model, columns);
  if (exitCode !== undefined) return exitCode;
  if (findings.length === 0) {
    process.stdout.write(`${wrap(nothingFound(question.log), { width: columns })}\n`);
    return exitCodes.internal;
  }
  const job = jobOf(question, config, model);
  const explanations = findings.map((finding) => explainOom(finding, job, changeFor(finding, question, config, model)));
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
    throw new UsageError(`--oom ${log} cannot be read: ${reasonOf(error)}; name a log file, or - for standard input`);
  }
  if (rest !== "") reader.push(rest);
  return reader.end();
}

async function readConfig(
  { file, overrides, ranks = 1 }: OomQuestion,
  model: ExplainedModel | undefined,
  columns: number,
): Promise<{ config?: ConfigResolution; exitCode?: number }> {
  if (file === undefined) return {};
  const answer = await answerConfig(
    { file, overrides, ranks, model: undefined, ...model?.forConfig },
    readConfigFile(file),
  );
  if (answer.problems.every(({ level }) => level === "warning")) return { config: answer.draft as ConfigResolution };
  process.stdout.write(renderConfigAnswer(answer, columns));
  return { exitCode: exitCodes.user };
}

function jobOf(question: OomQuestion, config: ConfigResolution | undefined, model: ExplainedModel | undefined): OomJob {
  const parameters = model?.statedParameters ?? model?.shape.parameters;
  const plan = config && parameters !== undefined ? planOfPsi(config, parameters, alignmentBytes()) : undefined;
  return {
    parameters,
    shape: model?.shape,
    ranks: question.ranks ?? (config && 1),
    microBatch: config?.microBatch,
    gradientAccumulation: config?.gradientAccumulation ?? 1,
    checkpointing: config?.activationCheckpointing ?? false,
    seqLength: seqLengthOf(question, model),
    elementBytes: config?.precision === "fp32" ? dtypeBytes.f32 : dtypeBytes.bf16,
    reduceElements: config?.sizes.reduceBucketSize ?? defaultBuckets.reduceElements,
    overlapComm: config?.overlapComm ?? false,
    stage: config?.stage,
    offloadOptimizer: config?.offloadOptimizer ?? "none",
    offloadParam: config?.offloadParam ?? "none",
    deviceStateBytes: plan && stateBytes(plan, "device"),
    hostStateBytes: plan && stateBytes(plan, "host"),
  };
}

function stateBytes(plan: Plan, tier: Tier): number {
  const { parameters, gradients, optimizer } = expectedStates(plan, tier);
  return parameters.formulaBytes + gradients.formulaBytes + optimizer.formulaBytes;
}

/** What CUDA, NCCL and libraries take of a card beside PyTorch's allocator: of the message, or about what is usual. */
const usualContextBytes = 1.7e9;

/** Changes are sought for a device that was full, where the job is known well enough to be estimated. */
function changeFor(
  { place, capacity }: OomFinding,
  question: OomQuestion,
  config: ConfigResolution | undefined,
  model: ExplainedModel | undefined,
): SmallestChange | undefined {
  const seqLength = seqLengthOf(question, model);
  if (place !== "device" || config === undefined || model === undefined || seqLength === undefined) return undefined;
  const { ranks = 1, machine } = question;
  const deviceBytes = capacity && capacity.bytes - usualContextBytes;
  const anywhere = { hostBytes: Number.POSITIVE_INFINITY, diskBytes: Number.POSITIVE_INFINITY, hostSharers: 1 };
  const room = machine?.roomOf(ranks) ?? (deviceBytes === undefined ? undefined : { deviceBytes, ...anywhere });
  if (room === undefined) return undefined;
  const { microBatch, gradientAccumulation, activationCheckpointing: checkpointing } = config;
  const asked = { placement: placementOf(config), microBatch, gradientAccumulation, checkpointing };
  const ranksPerNode = machine?.machineOf?.(ranks).ranksPerNode ?? ranks;
  return smallestChange(asked, room, (placement, batch, isCheckpointed) =>
    estimateForDeepSpeed(config, placement, {
      ...{ ...batch, shape: model.shape, ranks, ranksPerNode, seqLength, checkpointing: isCheckpointed },
    }),
  );
}
