/** adapter_config.json as PEFT writes it: what of it is honoured, and what is refused by name. */
import type { LoraConfig } from "../config/types.ts";
import { ModelError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { allLinear } from "../nn/lora.ts";
import { describeJson } from "./describe.ts";
import { ConfigReader, isRecord, type JsonRecord, parseConfigRecord } from "./json-config.ts";

export interface AdapterConfig {
  readonly lora: LoraConfig;
  /** As whoever trained the adapter named its model; null: not known. */
  readonly base: string | null;
}

/** Keys that say nothing of what an adapter computes. */
const meaningless: ReadonlySet<string> = new Set([
  ...["auto_mapping", "base_model_name_or_path", "revision", "inference_mode", "peft_version", "task_type"],
  // How the factors began, in ways that leave the model as it was.
  ...["eva_config", "lora_ga_config"],
  // Settings of what is off, with defaults that are not empty; and of layers of another library.
  ...["qalora_group_size", "megatron_core", "ensure_weight_tying"],
  // GPT-2's layers have their weights the other way round, which both programs see from the layer.
  "fan_in_fan_out",
]);
const honoured: ReadonlySet<string> = new Set([
  ...["peft_type", "r", "lora_alpha", "lora_dropout", "target_modules", "use_rslora", "bias", "init_lora_weights"],
]);
/** Beginnings that leave the model's own weights as they were; others (PiSSA, OLoRA, CorDA, LoftQ) move a part of them into the adapter. */
const plainBeginnings: readonly unknown[] = [true, false, null, undefined, "gaussian", "eva", "orthogonal"];

/** Reads the text of an adapter_config.json; `path` is how errors name it. @throws ModelError with every problem found */
export function parseAdapterConfig(text: string, path: string): AdapterConfig {
  const record = parseConfigRecord(text, path, "a JSON object with a peft_type");
  const read = new ConfigReader(record);
  read.check("peft_type", record.peft_type === "LORA", '"LORA"');
  const task = record.task_type ?? "CAUSAL_LM";
  read.check("task_type", task === "CAUSAL_LM", '"CAUSAL_LM" or null');
  read.check("bias", (record.bias ?? "none") === "none", '"none": biases that an adapter trains are not read');
  read.check(
    "init_lora_weights",
    plainBeginnings.includes(record.init_lora_weights),
    "true, false, gaussian, eva or orthogonal: the others change the model's own weights",
  );
  const targets = targetsOf(record.target_modules);
  read.check("target_modules", targets !== undefined, `a list of names, or "${allLinear}"; patterns are not read`);
  const rank = read.count("r");
  const alpha = read.number("lora_alpha", 8, 1e9);
  read.check("lora_alpha", alpha > 0 && record.lora_alpha !== null, "a number above 0");
  const lora: LoraConfig = {
    rank,
    alpha,
    targets: targets ?? [],
    dropout: read.number("lora_dropout", 0, 1),
    rankStabilized: read.flag("use_rslora", false),
  };
  for (const [key, value] of Object.entries(record))
    if (!honoured.has(key) && !meaningless.has(key) && !isOff(value))
      read.problems.push(`${printable(key)}: found ${describeJson(value)}; this version does not have it`);
  if (read.problems.length > 0)
    throw new ModelError(`${path} is not an adapter that can be used:\n  ${read.problems.join("\n  ")}`);
  const base = record.base_model_name_or_path;
  return { lora, base: typeof base === "string" && base !== "" ? base : null };
}

function targetsOf(value: unknown): readonly string[] | undefined {
  if (value === allLinear) return [allLinear];
  const isList = Array.isArray(value) && value.length > 0 && value.every((v) => typeof v === "string" && v !== "");
  return isList ? (value as string[]) : undefined;
}

/** How PEFT writes that something is not used. */
const isOff = (value: unknown): boolean =>
  value === null ||
  value === false ||
  value === "" ||
  (Array.isArray(value) && value.length === 0) ||
  (isRecord(value) && Object.keys(value).length === 0);

export interface NewAdapterConfig extends AdapterConfig {
  /** Last parts of the names of the layers. */
  readonly targets: readonly string[];
  /** Whether the layers' weights are [in, out]. */
  readonly fanInFanOut: boolean;
}

/** The text of an adapter_config.json that PEFT reads, old versions too. */
export function renderAdapterConfig({ lora, base, targets, fanInFanOut }: NewAdapterConfig): string {
  const record: JsonRecord = {
    alpha_pattern: {},
    auto_mapping: null,
    base_model_name_or_path: base,
    bias: "none",
    fan_in_fan_out: fanInFanOut,
    inference_mode: true,
    init_lora_weights: true,
    layers_pattern: null,
    layers_to_transform: null,
    lora_alpha: lora.alpha,
    lora_dropout: lora.dropout,
    modules_to_save: null,
    peft_type: "LORA",
    r: lora.rank,
    rank_pattern: {},
    revision: null,
    target_modules: targets,
    task_type: "CAUSAL_LM",
    use_dora: false,
    use_rslora: lora.rankStabilized,
  };
  return `${JSON.stringify(record, undefined, 2)}\n`;
}
