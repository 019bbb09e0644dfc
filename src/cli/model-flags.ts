/** What `--model`, `--adapter` and `--tokenizer` mean: the only place that decides it. */
import { statSync } from "node:fs";
import type { Command } from "commander";
import type { Need } from "../hub/needs.ts";
import { parseRepository, type Repository, titleOfSnapshot } from "../hub/repository.ts";
import type { Logger } from "../log/logger.ts";
import { type ModelConfig, publishedConfig } from "../nn/models/models.ts";

export type ModelMeaning =
  /** A published size: its shape alone, for weights that are drawn anew. */
  | { readonly kind: "published"; readonly config: ModelConfig }
  /** A folder or file, whether it is there or not. */
  | { readonly kind: "path" }
  /** `owner/name` or `owner/name@revision`, where no such path is here. */
  | { readonly kind: "hub"; readonly repository: Repository };

export function meaningOf(model: string): ModelMeaning {
  const config = publishedConfig(model);
  if (config) return { kind: "published", config };
  const repository = isNowhere(model) ? parseRepository(model) : undefined;
  return repository ? { kind: "hub", repository } : { kind: "path" };
}

/** Not in a folder that cannot be looked into, nor below a file: then it is a path, and reading it says what is wrong. */
function isNowhere(path: string): boolean {
  try {
    statSync(path);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}

/** A folder of the cache by the name that it was asked for by. */
export const shownModel = (model: string): string => titleOfSnapshot(model) ?? model;

/** Commands that take the weights, and what they take where they only foretell. */
const weightCommands: readonly string[] = ["train", "generate", "merge", "export"];

/** Makes folders of the names of models on a hub, before a command (and long before its ranks) looks at its flags. */
export async function fetchNamedModels(command: Command, logger: Logger): Promise<void> {
  const { model, adapter, tokenizer, dryRun } = command.opts<Partial<Record<string, unknown>>>();
  const ofModel: Need = !weightCommands.includes(command.name()) ? "config" : dryRun ? "job" : "model";
  const flags = [
    ["model", model, ofModel],
    ["adapter", adapter, "adapter"],
    ["tokenizer", tokenizer, "tokenizer"],
  ] as const;
  const isNamed = flags.some(([, value]) => typeof value === "string" && meaningOf(value).kind === "hub");
  if (isNamed) {
    const { checkNamedFiles } = await import("./before-fetch.ts");
    await checkNamedFiles(command.opts());
  }
  for (const [flag, value, need] of flags) {
    if (typeof value !== "string") continue;
    const folder = await folderOf(value, need, logger);
    if (folder !== undefined) command.setOptionValue(flag, folder);
  }
}

async function folderOf(value: string, need: Need, logger: Logger): Promise<string | undefined> {
  const meaning = meaningOf(value);
  if (meaning.kind !== "hub") return undefined;
  const [{ fetchModel }, { hubSettings }, { FetchProgress }] = await Promise.all([
    import("../hub/fetch-model.ts"),
    import("../hub/settings.ts"),
    import("./fetch-progress.ts"),
  ]);
  const folder = await fetchModel(meaning.repository, need, await hubSettings(), new FetchProgress(value, logger));
  logger.info(`${shownModel(folder)} is in ${folder}`);
  return folder;
}
