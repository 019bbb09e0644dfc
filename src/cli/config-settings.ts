/** A configuration file that a plan starts from: what it says as it is, and its settings as an object that a placement is written into. */
import { type ConfigNode, type ParsedConfig, parseConfigFile } from "../config/json.ts";
import { type ConfigResolution, type Override, type ResolveInput, resolveConfig } from "../config/resolve.ts";
import { withOverrides } from "./overrides.ts";

export interface ConfigFileSettings {
  readonly fileName: string;
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
  const config = resolveConfig({ file, overrides, worldSize, model });
  const settings = withOverrides(plainValue(file.root) as object, overrides) as Record<string, unknown>;
  return { fileName: path, settings, config };
}

function plainValue(node: ConfigNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "array") return node.items.map(plainValue);
  return Object.fromEntries(node.members.map(({ key, value }) => [key, plainValue(value)]));
}
