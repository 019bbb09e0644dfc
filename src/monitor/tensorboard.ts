/** `tensorboard`: an event file under output_path/job_name that TensorBoard reads while training goes on. */
import { hostname } from "node:os";
import { join } from "node:path";
import type { MonitorConfig } from "../config/types.ts";
import { AppendFile, monitorLevels } from "./append-file.ts";
import { encodeScalars, encodeVersion, frameRecord } from "./event-file.ts";
import type { Monitor, MonitorEvent } from "./monitor.ts";

const nowSeconds = (): number => Date.now() / 1000;

export class TensorboardMonitor implements Monitor {
  readonly name = "tensorboard";
  readonly #file: AppendFile;

  /** @throws UsageError */
  constructor({ outputPath, jobName }: MonitorConfig) {
    // TensorBoard reads every file with "tfevents" in its name; time first, so that files sort by it. A run has its own.
    const name = `events.out.tfevents.${Math.floor(nowSeconds())}.${hostname()}.${process.pid}.0`;
    const head = frameRecord(encodeVersion(nowSeconds()));
    const setting = "tensorboard.output_path";
    this.#file = new AppendFile(join(outputPath, jobName, name), { setting, head, levels: monitorLevels });
  }

  write(samples: number, events: readonly MonitorEvent[]): void {
    this.#file.append(frameRecord(encodeScalars(nowSeconds(), samples, events)));
  }

  close(): void {
    this.#file.close();
  }
}
