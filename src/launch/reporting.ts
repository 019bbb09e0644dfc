/** What rank 0 of a user's own program says, as the configuration asks: the same reports as those of `shunya train`. */
import type { ResolvedConfig } from "../config/types.ts";
import type { Logger } from "../log/logger.ts";
import { RunReport } from "../monitor/run-report.ts";
import { renderSkip, renderStepLine } from "../report/progress.ts";
import type { Engine } from "../zero/engine.ts";

/** Reports on `engine` until it is disposed. @throws UsageError where a file that it should write cannot be made */
export function reportOn<B extends object>(engine: Engine<B>, config: ResolvedConfig, logger: Logger): void {
  const report = new RunReport({ plan: engine.plan, operationsByUnit: () => engine.operationsByUnit, logger });
  // A program prints its own progress, unless its configuration asks for these lines.
  const interval = config.sources.get("steps_per_print") === "default" ? undefined : config.reporting.stepsPerPrint;
  const say = (text: string): void => {
    const lines = text.trimEnd();
    if (lines !== "") logger.info(lines);
  };
  say(report.begin());
  engine.on("step", (record) => {
    if (interval !== undefined && record.step % interval === 0) say(renderStepLine(record, config.trainBatch));
    if (record.skipped) say(renderSkip(record, config.precision));
    say(report.step(record));
  });
  engine.on("end", () => {
    say(report.end());
    report[Symbol.dispose]();
  });
}
