/** `csv_monitor`: one file per tag under output_path/job_name, with DeepSpeed's names: `Train_Samples_train_loss.csv`. */
import { join } from "node:path";
import type { MonitorConfig } from "../config/types.ts";
import { AppendFile, monitorLevels } from "./append-file.ts";
import type { Monitor, MonitorEvent } from "./monitor.ts";

const setting = "csv_monitor.output_path";

export class CsvMonitor implements Monitor {
  readonly name = "csv_monitor";
  readonly #files: ReadonlyMap<string, AppendFile>;

  /** @param tags of all events that will come: their files are made now @throws UsageError */
  constructor({ outputPath, jobName }: MonitorConfig, tags: readonly string[]) {
    const path = (tag: string): string => join(outputPath, jobName, `${tag.replaceAll(/[/ ]/g, "_")}.csv`);
    // A later run goes on in the same files, and a second header would be a row that is no number.
    const open = (tag: string): AppendFile =>
      new AppendFile(path(tag), { setting, head: `step,${tag.split("/").at(-1)}\n`, levels: monitorLevels });
    this.#files = new Map(tags.map((tag) => [tag, open(tag)]));
  }

  write(samples: number, events: readonly MonitorEvent[]): void {
    for (const { tag, value } of events) this.#files.get(tag)?.append(`${samples},${value}\n`);
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
  }
}
