/** What `shunya train` shows and logs of each step. */
import { memoryKinds } from "../device/ledger.ts";
import type { RunReport } from "../monitor/run-report.ts";
import { renderProgress, renderSamples, renderSkip, renderValidation, type Terminal } from "../report/progress.ts";
import { renderStepRecord, stepRecord } from "../report/step-record.ts";
import type { StepRecord } from "../zero/record.ts";
import type { LineLog } from "./destinations.ts";
import type { OpenedJob } from "./job.ts";
import type { Sample } from "./samples.ts";
import type { ValidationRecord } from "./validation.ts";

export interface StepPrinterOptions {
  readonly opened: Pick<OpenedJob, "config" | "steps" | "seqLength">;
  readonly report: RunReport;
  readonly log: LineLog | undefined;
  readonly terminal: Terminal;
  readonly write: (text: string) => void;
}

export class StepPrinter {
  readonly #options: StepPrinterOptions;
  #seconds = 0;
  #shownSteps = 0;
  /** A progress line stands on the terminal, to be replaced by the next. */
  #isLineOpen = false;

  constructor(options: StepPrinterOptions) {
    this.#options = options;
  }

  show(record: StepRecord, validation?: ValidationRecord, samples?: readonly Sample[]): void {
    const { report, log, opened } = this.#options;
    this.#seconds += record.seconds;
    this.#shownSteps++;
    const { config, seqLength } = opened;
    const tokensPerSecond = (config.trainBatch * seqLength) / record.seconds;
    const phaseSeconds = config.reporting.wallClockBreakdown ? record.phaseSeconds : undefined;
    const summary = { ...record, tokensPerSecond, phaseSeconds, validationLoss: validation?.loss, samples };
    log?.write(renderStepRecord(stepRecord(summary, record.ranks)));
    this.#progress(record, tokensPerSecond);
    const skip = record.skipped ? renderSkip(record, config.precision) : "";
    const evaluated =
      (validation ? renderValidation(record.step, validation) : "") + renderSamples(record.step, samples ?? []);
    const more = skip + evaluated + report.step(record, validation?.loss);
    if (more === "") return;
    this.endLine();
    this.#options.write(more);
  }

  /** Ends a progress line that stands open. */
  endLine(): void {
    if (this.#isLineOpen) this.#options.write("\n");
    this.#isLineOpen = false;
  }

  #progress(record: StepRecord, tokensPerSecond: number): void {
    const { terminal, write } = this.#options;
    const { config, steps } = this.#options.opened;
    const isLast = record.step === steps;
    const isFirst = this.#shownSteps === 1;
    const isDue = isFirst || isLast || record.step % config.reporting.stepsPerPrint === 0;
    if (!terminal.isTerminal && !isDue) return;
    const peakBytes = Math.max(...record.ranks.map((r) => memoryKinds.reduce((sum, k) => sum + r.memory.atPeak[k], 0)));
    const secondsLeft = (this.#seconds / this.#shownSteps) * (steps - record.step);
    const progress = { ...record, phaseSeconds: undefined, tokensPerSecond, steps, peakBytes, secondsLeft };
    write(renderProgress(progress, terminal));
    this.#isLineOpen = terminal.isTerminal;
    if (isLast) this.endLine();
  }
}
