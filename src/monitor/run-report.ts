/**
 * What a configuration asks to be reported beside the progress line: steps in phases, memory, communication, a profile, and
 * metrics for other tools. `shunya train` and `initialize` report by this same object.
 */
import { writeFileSync } from "node:fs";
import type { ReportingConfig } from "../config/types.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Plan } from "../plan/plan.ts";
import { CommunicationTotals, renderStepTraffic } from "../report/communication.ts";
import { type OperationsByUnit, profileBegin, renderFlopsProfile } from "../report/flops-profile.ts";
import { renderMemoryBreakdown } from "../report/memory-table.ts";
import { formatMany } from "../report/numbers.ts";
import { PhaseTimes } from "../report/phase-table.ts";
import { renderState } from "../report/state.ts";
import type { StepRecord } from "../zero/record.ts";
import { AppendFile } from "./append-file.ts";
import { Monitors } from "./monitor.ts";

export interface RunReportOptions {
  readonly plan: Plan;
  /** Asked for when the profile is due; then the engine has run at least one step. */
  readonly operationsByUnit: () => OperationsByUnit;
  readonly logger: Logger;
  /** Whether steps come with a loss on validation data. */
  readonly validates?: boolean;
}

export class RunReport implements Disposable {
  readonly #options: RunReportOptions;
  readonly #reporting: ReportingConfig;
  readonly #monitors: Monitors;
  readonly #communication = new CommunicationTotals();
  readonly #allPhases = new PhaseTimes();
  /** Since the last line about them. */
  #phases = new PhaseTimes();

  /** Makes the files that it will write. @throws UsageError where one cannot be */
  constructor(options: RunReportOptions) {
    this.#options = options;
    this.#reporting = options.plan.config.reporting;
    const profile = this.#reporting.flopsProfiler?.outputFile;
    if (profile !== undefined)
      new AppendFile(profile, { setting: "flops_profiler.output_file", firstWords: profileBegin, levels: 1 }).close();
    this.#monitors = new Monitors(options.plan.config, options.logger, options.validates ?? false);
  }

  /** What to show before the first step; empty without `dump_state`. Whole lines, like all that follows. */
  begin(): string {
    return this.#reporting.dumpState ? `${renderState(this.#options.plan)}\n` : "";
  }

  /** Takes a step in. @returns what to show after its progress line */
  step(record: StepRecord, validationLoss?: number): string {
    const { stepsPerPrint, wallClockBreakdown, memoryBreakdown, commsLogger, flopsProfiler } = this.#reporting;
    this.#monitors.step(record, validationLoss);
    const due = record.step % stepsPerPrint === 0;
    const parts: string[] = [];
    if (wallClockBreakdown) {
      this.#allPhases.add(record);
      this.#phases.add(record);
      if (due) {
        parts.push(`step ${record.step}: ${this.#phases.renderLine()}`);
        this.#phases = new PhaseTimes();
      }
    }
    if (commsLogger) {
      this.#communication.add(record.ranks[0]!.traffic);
      if (commsLogger.verbose) parts.push(renderStepTraffic(record.step, record.ranks[0]!.traffic));
    }
    if (memoryBreakdown && due)
      parts.push(
        renderMemoryBreakdown(
          record.step,
          record.ranks.map((r) => r.memory),
        ),
      );
    if (record.step === flopsProfiler?.profileStep) parts.push(this.#profile(record));
    return parts.map((part) => `${part}\n`).join("");
  }

  /** What to show after the last step. */
  end(): string {
    const parts: string[] = [];
    if (this.#allPhases.steps > 0)
      parts.push(`Time of ${formatMany(this.#allPhases.steps, "step")} by phase:\n${this.#allPhases.renderTable()}`);
    if (this.#reporting.commsLogger) parts.push(this.#communication.render());
    return parts.map((part) => `\n${part}\n`).join("");
  }

  #profile(record: StepRecord): string {
    const { plan, operationsByUnit, logger } = this.#options;
    const options = this.#reporting.flopsProfiler!;
    const profile = renderFlopsProfile(plan, operationsByUnit(), record, options);
    if (options.outputFile === undefined) return profile;
    try {
      writeFileSync(options.outputFile, `${profile}\n`);
      return `The profile of step ${record.step} is in ${options.outputFile}.`;
    } catch (error) {
      logger.warn(`flops_profiler.output_file: ${options.outputFile}: ${reasonOf(error)}; here it is instead`);
      return profile;
    }
  }

  [Symbol.dispose](): void {
    this.#monitors[Symbol.dispose]();
  }
}
