/** How a run shows that it moves: one line that rewrites itself on a terminal, one plain line a step elsewhere. */
import { createColors } from "picocolors";
import type { Precision } from "../config/types.ts";
import { printable } from "../errors/printable.ts";
import type { StepRecord } from "../zero/record.ts";
import { formatBytes, formatCount, formatDuration, formatMany, formatReal } from "./numbers.ts";
import type { StepSummary } from "./types.ts";
import { wrap } from "./wrap.ts";

/** What the stream can show. */
export interface Terminal {
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly color: boolean;
}

export interface Progress extends StepSummary {
  /** Steps of the whole run. */
  readonly steps: number;
  /** Highest device bytes of any rank in this step. */
  readonly peakBytes: number;
  readonly secondsLeft: number;
}

/**
 * Some terminals say that they have 0 columns, and a line cut to nothing would be worse than a guess. NO_COLOR set to anything
 * but the empty string means no colour (no-color.org).
 */
export function describeTerminal(stream: { isTTY?: boolean; columns?: number }, env: NodeJS.ProcessEnv): Terminal {
  const isTerminal = stream.isTTY === true;
  return { isTerminal, columns: stream.columns || 80, color: isTerminal && !env.NO_COLOR && env.TERM !== "dumb" };
}

/** What to write for this step. On a terminal it replaces the line before and ends without a newline. */
export function renderProgress(progress: Progress, terminal: Terminal): string {
  const fields = progressFields(progress);
  if (!terminal.isTerminal) return `${fields.map(([name, value]) => `${name} ${value}`).join("  ")}\n`;
  return `\r\u001b[2K${fitFields(fields, terminal)}`;
}

/** One plain line about a step of a run whose length nobody knows. */
export function renderStepLine(record: StepRecord, trainBatch: number): string {
  const { step, loss, learningRate, seconds } = record;
  const fields: readonly Field[] = [
    ["step", String(step)],
    ["loss", formatReal(loss)],
    ["lr", formatReal(learningRate)],
    ["norm", normOf(record)],
    ["samples/s", formatReal(trainBatch / seconds)],
  ];
  return `${fields.map(([name, value]) => `${name} ${value}`).join("  ")}\n`;
}

const normOf = ({ skipped, gradNorm }: Pick<StepSummary, "skipped" | "gradNorm">): string =>
  skipped || gradNorm === null ? "skipped" : formatReal(gradNorm);

/** What to say of a skipped step, beside its progress line: a run that skips every step looks healthy otherwise. */
export function renderSkip({ step, reason, lossScale }: Skip, precision: Precision): string {
  const scale = precision === "fp16" ? ` (loss scale ${formatPower(lossScale)})` : "";
  return `step ${step} skipped: ${reason ?? "a gradient is not finite"}${scale}\n`;
}

export function renderValidation(step: number, { loss, rows, rowName, seconds }: Validation): string {
  return `step ${step} validation loss ${formatReal(loss)} over ${formatMany(rows, rowName)} in ${seconds.toFixed(1)} s\n`;
}

/** Control characters are written as escapes, so that no text moves the cursor. */
export function renderSamples(step: number, samples: readonly { prompt: string; text: string | null }[]): string {
  return samples
    .map(({ prompt, text }) => {
      const made = text === null ? `${prompt}: none, the logits are not finite` : prompt + text;
      return `${wrap(`step ${step} sample: ${printable(made.replaceAll("\n", "\\n"))}`)}\n`;
    })
    .join("");
}

interface Validation {
  readonly loss: number;
  readonly rows: number;
  /** In the singular. */
  readonly rowName: string;
  readonly seconds: number;
}

/** "2^16", "1", "1000". */
function formatPower(scale: number): string {
  const exponent = Math.log2(scale);
  return Number.isInteger(exponent) && exponent > 3 ? `2^${exponent}` : String(scale);
}

type Skip = Pick<StepSummary, "step" | "reason" | "lossScale">;

type Field = readonly [name: string, value: string];

/** The most telling first: a narrow terminal loses the last ones. */
function progressFields(progress: Progress): Field[] {
  const { step, steps, loss, learningRate } = progress;
  return [
    ["step", `${step}/${steps}`],
    ["loss", formatReal(loss)],
    ["lr", formatReal(learningRate)],
    ["norm", normOf(progress)],
    ["tokens/s", formatCount(progress.tokensPerSecond)],
    ["memory", formatBytes(progress.peakBytes)],
    ["left", formatDuration(progress.secondsLeft)],
  ];
}

function fitFields(fields: readonly Field[], terminal: Terminal): string {
  const colors = createColors(terminal.color);
  // A line as wide as the terminal would wrap on some, and the next \r would not reach its start.
  let room = terminal.columns - 1;
  const shown: string[] = [];
  for (const [name, value] of fields) {
    const width = name.length + 1 + value.length + (shown.length > 0 ? 2 : 0);
    if (width > room) break;
    room -= width;
    shown.push(`${colors.dim(name)} ${name === "loss" ? colors.bold(value) : value}`);
  }
  return shown.join("  ");
}
