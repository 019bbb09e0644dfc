/** A configuration file that a plan starts from: what it says as it is, and its settings as an object that a placement is written into. */
import { type ConfigNode, type ParsedConfig, parseConfigFile } from "../config/json.ts";
import { type ConfigResolution, examineConfig, type Override, type ResolveInput } from "../config/resolve.ts";
import { ConfigError } from "../errors/errors.ts";
import { withOverrides } from "./overrides.ts";

export interface ConfigFileSettings {
  readonly fileName: string;
  /** The file or a flag says how large the batch is; else it is the plan's to choose. */
  readonly hasBatch: boolean;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly config: ConfigResolution;
}

/** @throws ConfigError with everything that is wrong with it */
export function readConfigSettings(
  path: string,
  overrides: readonly Override[],
  { worldSize, model }: Pick<ResolveInput, "worldSize" | "model">,
): ConfigFileSettings {
  const file: ParsedConfig = parseConfigFile(path);
  const settings = withOverrides(plainValue(file.root) as object, overrides) as Record<string, unknown>;
  const hasBatch = batchKeys.some((key) => settings[key] !== undefined && settings[key] !== "auto");
  const filled: readonly Override[] = hasBatch ? overrides : [...overrides, ["train_micro_batch_size_per_gpu", 1]];
  // How long a run is, a plan need not know.
  const { config, problems } = examineConfig({ file, overrides: filled, worldSize, model });
  if (!config)
    throw new ConfigError(
      path,
      problems.filter(({ level }) => level === "error"),
    );
  return { fileName: path, hasBatch, settings, config };
}

const batchKeys = ["train_batch_size", "train_micro_batch_size_per_gpu"];

function plainValue(node: ConfigNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "array") return node.items.map(plainValue);
  return Object.fromEntries(node.members.map(({ key, value }) => [key, plainValue(value)]));
}
