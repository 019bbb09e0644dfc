/** `shunya explain CONFIG`: what a DeepSpeed file does, in words and numbers. */
import { type ConfigReading, readConfigFile } from "../config/json.ts";
import type { ConfigResolution } from "../config/resolve.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { bucketSizes } from "../planner/buckets.ts";
import type { Subject } from "../planner/explained.ts";
import { type Explanation, explain, renderExplanation } from "../report/explain.ts";
import { bucketLines } from "../report/explain-buckets.ts";
import { terminalWidth } from "../report/wrap.ts";
import { answerConfig, type ConfigAnswer } from "./config.ts";
import { renderConfigAnswer, renderConfigJson } from "./config-report.ts";
import { type ExplainQuestion, examine, modelOf } from "./explain-subject.ts";
import { valueLines } from "./explain-values.ts";

export interface ExplainAnswer {
  readonly answer: ConfigAnswer;
  /** Undefined where the file has an error. */
  readonly explanation: Explanation | undefined;
}

/** @throws ModelError where the model cannot be opened, UsageError for a sequence that it cannot take */
export async function explainConfig(question: ExplainQuestion, reading: ConfigReading): Promise<ExplainAnswer> {
  const model = modelOf(question);
  const answer = await answerConfig({ ...question, ...model?.forConfig }, reading);
  if (answer.problems.some(({ level }) => level === "error")) return { answer, explanation: undefined };
  // Without an error the draft is the whole configuration.
  const config = answer.draft as ConfigResolution;
  const { subject, leaner, misfit } = await examine(question, config, model);
  return {
    answer,
    explanation: explain({ subject, leaner, misfit, problems: answer.problems, values: valuesOf(subject, answer) }),
  };
}

/** @returns the exit code: 2 where the file has an error, which is then shown as `shunya config` shows it */
export async function runExplain(question: ExplainQuestion, asJson: boolean): Promise<number> {
  const columns = process.stdout.columns || terminalWidth;
  const { answer, explanation } = await explainConfig(question, readConfigFile(question.file));
  if (explanation === undefined) {
    process.stdout.write(asJson ? renderConfigJson(answer) : renderConfigAnswer(answer, columns));
    return exitCodes.user;
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
