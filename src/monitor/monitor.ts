/** Metrics in formats that other tools read, under DeepSpeed's tags, by the number of samples that training has seen. */
import type { ResolvedConfig } from "../config/types.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { Logger } from "../log/logger.ts";
import type { StepRecord } from "../zero/record.ts";
import { CsvMonitor } from "./csv.ts";
import { TensorboardMonitor } from "./tensorboard.ts";

export interface MonitorEvent {
  readonly tag: string;
  readonly value: number;
}

export interface Monitor {
  /** The section of the configuration that asked for it. */
  readonly name: string;
  /** @param samples seen by the end of this step, of all ranks @throws the system's error where it cannot be written */
  write(samples: number, events: readonly MonitorEvent[]): void;
  close(): void;
}

/** What of a step is recorded: DeepSpeed's automatic tags, and how each is read. */
const series: readonly {
  readonly tag: string;
  readonly when: (config: ResolvedConfig) => boolean;
  readonly value: (record: StepRecord) => number;
}[] = [
  { tag: "Train/Samples/train_loss", when: () => true, value: (r) => r.loss },
  { tag: "Train/Samples/lr", when: () => true, value: (r) => r.learningRate },
  { tag: "Train/Samples/loss_scale", when: (c) => c.precision === "fp16", value: (r) => r.lossScale },
  ...(["forward", "backward", "step"] as const).map((phase) => ({
    tag: `Train/Samples/elapsed_time_ms_${phase}`,
    when: (c: ResolvedConfig) => c.reporting.wallClockBreakdown,
    value: (r: StepRecord) => r.phaseSeconds[phase] * 1000,
  })),
];

/** Of steps that are validated; DeepSpeed has no tag for it. */
const validationTag = "Validation/loss";

/** All monitors of a run. One that can no longer be written ends with a warning, and training goes on. */
export class Monitors implements Disposable {
  readonly #config: ResolvedConfig;
  readonly #logger: Logger;
  readonly #open = new Set<Monitor>();

  /**
   * Makes their files.
   * @param validates whether validation losses will come @throws UsageError where that fails: better now than after an hour
   */
  constructor(config: ResolvedConfig, logger: Logger, validates: boolean) {
    this.#config = config;
    this.#logger = logger;
    const { csvMonitor, tensorboard } = config.reporting;
    const tags = series.filter((s) => s.when(config)).map((s) => s.tag);
    if (validates) tags.push(validationTag);
    if (csvMonitor) this.#open.add(new CsvMonitor(csvMonitor, tags));
    if (tensorboard) this.#open.add(new TensorboardMonitor(tensorboard));
  }

  /** @param validationLoss where the step was validated */
  step(record: StepRecord, validationLoss: number | undefined): void {
    const events = series.filter((s) => s.when(this.#config)).map(({ tag, value }) => ({ tag, value: value(record) }));
    if (validationLoss !== undefined) events.push({ tag: validationTag, value: validationLoss });
    const samples = record.step * this.#config.trainBatch;
    for (const monitor of this.#open) this.#attempt(monitor, () => monitor.write(samples, events));
  }

  #attempt(monitor: Monitor, write: () => void): void {
    try {
      write();
    } catch (error) {
      this.#open.delete(monitor);
      this.#logger.warnOnce(monitor.name, `${monitor.name} ends here, training goes on: ${reasonOf(error)}`);
      monitor.close();
    }
  }

  [Symbol.dispose](): void {
    for (const monitor of this.#open) monitor.close();
    this.#open.clear();
  }
}
