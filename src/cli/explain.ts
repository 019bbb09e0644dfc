/** `shunya explain CONFIG`: what a DeepSpeed file does, in words and numbers. */
import { type ConfigReading, readConfigFile } from "../config/json.ts";
import type { ConfigResolution, Override } from "../config/resolve.ts";
import { Device } from "../device/device.ts";
import { SimulatedBackend } from "../device/simulated.ts";
import { UsageError } from "../errors/errors.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { describeModel } from "../nn/describe.ts";
import { Gpt2 } from "../nn/models/gpt2.ts";
import { createPlan, type Plan } from "../plan/plan.ts";
import { bucketSizes } from "../planner/buckets.ts";
import type { Estimate } from "../planner/estimate.ts";
import type { RankRoom } from "../planner/fit.ts";
import { leanerPlacement } from "../planner/leaner.ts";
import { planOfPsi } from "../planner/psi-model.ts";
import { placementOf, type Subject } from "../planner/subject.ts";
import { type Explanation, explain, renderExplanation } from "../report/explain.ts";
import type { Leaner } from "../report/explain-advice.ts";
import { bucketLines } from "../report/explain-buckets.ts";
import { terminalWidth } from "../report/wrap.ts";
import type { Forecast } from "../zero/forecast.ts";
import { answerConfig, type ConfigAnswer } from "./config.ts";
import { renderConfigAnswer, renderConfigJson } from "./config-report.ts";
import { valueLines } from "./explain-values.ts";
import { forecastShape } from "./foretell.ts";
import { openModel } from "./job.ts";

export interface ExplainQuestion {
  readonly file: string;
  readonly overrides: readonly Override[];
  readonly ranks: number;
  /** A published name or a folder. */
  readonly model: string | undefined;
  /** In place of a model. */
  readonly parameters: number | undefined;
  /** Undefined: the model's positions. */
  readonly seqLength: number | undefined;
  /** What training may use of each rank's device; undefined: not judged. */
  readonly deviceBytes: number | undefined;
}

export interface ExplainAnswer {
  readonly answer: ConfigAnswer;
  /** Undefined where the file has an error. */
  readonly explanation: Explanation | undefined;
}

/** @throws ModelError where the model cannot be opened, UsageError for a sequence that it cannot take */
export async function explainConfig(question: ExplainQuestion, reading: ConfigReading): Promise<ExplainAnswer> {
  const answer = await answerConfig(question, reading);
  if (answer.problems.some(({ level }) => level === "error")) return { answer, explanation: undefined };
  // Without an error the draft is the whole configuration.
  const config = answer.draft as ConfigResolution;
  const { subject, leaner } = await examine(question, config);
  return {
    answer,
    explanation: explain({ subject, leaner, problems: answer.problems, values: valuesOf(subject, answer) }),
  };
}

/** @returns the exit code: 1 where the file has an error, which is then shown as `shunya config` shows it */
export async function runExplain(question: ExplainQuestion, asJson: boolean): Promise<number> {
  const columns = process.stdout.columns || terminalWidth;
  const { answer, explanation } = await explainConfig(question, readConfigFile(question.file));
  if (explanation === undefined) {
    process.stdout.write(asJson ? renderConfigJson(answer) : renderConfigAnswer(answer, columns));
    return exitCodes.internal;
  }
  process.stdout.write(
    asJson ? `${JSON.stringify(explanation, undefined, 2)}\n` : renderExplanation(explanation, columns),
  );
  return exitCodes.ok;
}

/** Values of sizes that do nothing at this stage are left out. */
function valuesOf(subject: Subject, answer: ConfigAnswer) {
  const told = bucketLines(subject).map(({ key }) => `zero_optimization.${key}`);
  const idle = bucketSizes(subject)
    .map(({ path }) => path)
    .filter((path) => !told.includes(path));
  return valueLines(answer, subject.config, idle);
}

async function examine(
  question: ExplainQuestion,
  config: ConfigResolution,
): Promise<{ subject: Subject; leaner: Leaner | undefined }> {
  const { file, model, parameters, seqLength } = question;
  if (model === undefined) {
    const subject: Subject = {
      ...{ file, config, seqLength, forecast: undefined },
      plan: planOfPsi(config, parameters, alignmentBytes()),
      known: parameters === undefined ? "nothing" : "parameters",
      modelName: undefined,
    };
    return { subject, leaner: undefined };
  }
  await using opened = await openModel(model);
  const { positions } = opened.config;
  const tokens = seqLength ?? positions;
  if (tokens > positions)
    throw new UsageError(`--seq-length ${tokens} is longer than the model's ${positions} positions; give at most that`);
  const run = (changed: Partial<ConfigResolution>): Promise<Forecast> =>
    forecastShape(opened.config, { config: withAnyDisk({ ...config, ...changed }), seqLength: tokens, threads: 1 });
  const plan = createPlan({
    model: describeModel(new Gpt2(opened.config)).description,
    config: withAnyDisk(config),
    alignmentBytes: alignmentBytes(),
  });
  const forecast = isCountable(plan) ? await run({}) : undefined;
  const subject: Subject = {
    file,
    config,
    plan,
    known: "model",
    modelName: model,
    seqLength: tokens,
    forecast,
  };
  if (question.deviceBytes === undefined || forecast === undefined) return { subject, leaner: undefined };
  const room: RankRoom = {
    deviceBytes: question.deviceBytes,
    hostBytes: Number.POSITIVE_INFINITY,
    diskBytes: Number.POSITIVE_INFINITY,
  };
  const estimate = await leanerPlacement(config, room, async (placement) =>
    estimateOf({ ...config, ...placement }, await run(placement)),
  );
  return { subject, leaner: estimate && { estimate, room } };
}

/** A forecast makes every collective and every update's piece of two steps one by one. */
const mostPieces = 1e5;

function isCountable({ parameterElements, worldSize, sizes }: Plan): boolean {
  const collectives = parameterElements / Math.min(sizes.reduceBucket.elements, sizes.allgatherBucket.elements);
  const updates = parameterElements / worldSize / sizes.subGroup.elements;
  return Math.max(collectives, updates) <= mostPieces;
}

/** A forecast needs the name of a folder, and no folder. */
const withAnyDisk = (config: ConfigResolution): ConfigResolution => ({
  ...config,
  disk: {
    ...config.disk,
    folders: config.disk.folders.length > 0 ? config.disk.folders : ["FOLDER"],
    parameterBufferElements: undefined,
  },
});

function alignmentBytes(): number {
  using device = new Device({ backend: new SimulatedBackend(1), arenaBytes: 2 ** 52 });
  return device.alignmentBytes;
}

/** What the engine's own forecast says, in the planner's words. */
function estimateOf(config: ConfigResolution, { highest, report }: Forecast): Estimate {
  const { parameters, gradients, optimizer, activations } = highest.device.byKind;
  const { reduceScatter, allGather } = report.traffic;
  return {
    ...placementOf(config),
    microBatch: config.microBatch,
    device: {
      parametersBytes: parameters,
      gradientsBytes: gradients,
      optimizerBytes: optimizer,
      activationsBytes: activations,
      buffersBytes: highest.device.bytes - parameters - gradients - optimizer - activations,
      totalBytes: highest.device.bytes,
    },
    hostBytes: highest.host.bytes,
    diskBytes: highest.disk.bytes,
    commElements: reduceScatter.elementsSent + allGather.elementsSent,
  };
}
