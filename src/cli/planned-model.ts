/** The model that a plan is about: a published name, a folder, a config.json, or nothing but a number of parameters. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { isModelType, parseModelConfig } from "../checkpoint/architectures.ts";
import { ModelError, UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { describeModel } from "../nn/describe.ts";
import { type Gpt2Config, plainGpt2 } from "../nn/models/gpt2-config.ts";
import { createModel, isLlama, type ModelConfig } from "../nn/models/models.ts";
import { shapeOfHuggingFaceConfig } from "../planner/huggingface-shape.ts";
import { publishedShape } from "../planner/published-shapes.ts";
import type { TransformerShape } from "../planner/shape.ts";
import { type SizedShape, shapeForParameters } from "../planner/shape-for-parameters.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { meaningOf, shownModel } from "./model-flags.ts";

export interface PlannedModel {
  /** Of a number of parameters also how many it really has. */
  readonly shape: TransformerShape & Partial<Pick<SizedShape, "laidOutParameters">>;
  /** What this engine trains; undefined: a model that it does not have. */
  readonly config: ModelConfig | undefined;
  /** Where a file's architecture is known and its settings are not: which. */
  readonly refusal?: string;
  /** The number of parameters that the model only stands for. */
  readonly statedParameters: number | undefined;
}

/** @throws UsageError for neither or both, ModelError for what is no model */
export function plannedModel({
  params,
  model,
}: {
  params?: number | undefined;
  model?: string | undefined;
}): PlannedModel {
  if (params !== undefined && model !== undefined)
    throw new UsageError("--params and --model both say how large the model is; give one of them");
  if (params !== undefined) return modelOfSize(params);
  if (model === undefined) throw new UsageError("no model: give --params 1.5e9, or --model NAME, DIR or config.json");
  const meaning = meaningOf(model);
  if (meaning.kind === "published") {
    const { config } = meaning;
    return { shape: shapeOfModel(config, model.toLowerCase()), config, statedParameters: undefined };
  }
  const published = publishedShape(model);
  if (published) return { shape: published, config: undefined, statedParameters: undefined };
  return modelOfFile(model);
}

/** The GPT of about that many parameters. */
export function modelOfSize(parameters: number): PlannedModel {
  const shape = shapeForParameters(parameters);
  return { shape, config: gptOfShape(shape), statedParameters: parameters };
}

const gptOfShape = ({ vocabulary, positions, hidden, layers, heads }: TransformerShape): Gpt2Config => ({
  vocabularySize: vocabulary,
  positions,
  hidden,
  layers,
  heads,
  ...plainGpt2,
});

export function shapeOfModel(config: ModelConfig, name: string): TransformerShape {
  const { description } = describeModel(createModel(config));
  const parameters = description.units
    .flatMap((unit) => unit.parameters)
    .reduce((sum, { shape }) => sum + elementsOf(shape), 0);
  return {
    name,
    parameters,
    layers: config.layers,
    hidden: config.hidden,
    heads: config.heads,
    keyValueHeads: isLlama(config) ? config.keyValueHeads : config.heads,
    feedForward: isLlama(config) ? config.feedForward : 4 * config.hidden,
    isGated: isLlama(config),
    vocabulary: config.vocabularySize,
    positions: config.positions,
    isTied: config.tied,
    hasDropout: !isLlama(config) && config.residualDropout > 0,
  };
}

function modelOfFile(path: string): PlannedModel {
  const file = isFolder(path) ? join(path, "config.json") : path;
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    const known = `a published name (gpt2, llama-3.2-1b, qwen2.5-0.5b, ...), a folder with config.json, a config.json, or owner/name of a model on Hugging Face`;
    const why = (error as NodeJS.ErrnoException).code === "ENOENT" ? "no such model or file" : reasonOf(error);
    throw new ModelError(`--model ${path}: ${why}; wanted ${known}; --params 1.5e9 needs none of them`);
  }
  const record = jsonObject(text, file);
  if (record.model_type === "gpt2") {
    const config = parseModelConfig(text, file);
    return { shape: shapeOfModel(config, shownModel(path)), config, statedParameters: undefined };
  }
  const ours = trainable(record.model_type, text, file);
  const shape = ours.config
    ? shapeOfModel(ours.config, shownModel(path))
    : { ...shapeOfHuggingFaceConfig(record, file), name: shownModel(path) };
  return { shape, ...ours, statedParameters: undefined };
}

/** A file that this engine refuses has a shape nevertheless, which is all that DeepSpeed's estimate needs. */
function trainable(type: unknown, text: string, file: string): Pick<PlannedModel, "config" | "refusal"> {
  if (!isModelType(type)) return { config: undefined };
  try {
    return { config: parseModelConfig(text, file) };
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    return { config: undefined, refusal: error.message };
  }
}

function jsonObject(text: string, file: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new ModelError(`${file} is not a JSON object; wanted the config.json of a model, or --params 1.5e9`);
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // reading it says why
  }
}
