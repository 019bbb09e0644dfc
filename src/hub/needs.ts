/** Which files of a repository are read here. Nothing else is ever fetched: no code, and no weights in other forms. */

import { adapterConfigName, adapterWeightNames } from "../checkpoint/adapter-folder.ts";
import {
  configName,
  otherWeights,
  parseIndex,
  safetensorsNames,
  torchNames,
  type WeightNames,
} from "../checkpoint/weight-names.ts";
import { chatTemplateName, settingsName, tokenizerName } from "../tokenizer/open.ts";

/** What a command reads: the shape alone, the tokenizer alone, both, or these and the weights; or LoRA's adapters. */
export type Need = "config" | "tokenizer" | "job" | "model" | "adapter";

const tokenizerFiles = [tokenizerName, settingsName, "special_tokens_map.json", chatTemplateName];

/** Fetched where a repository has them. */
const others: Readonly<Record<Need, readonly string[]>> = {
  config: [],
  tokenizer: tokenizerFiles,
  job: tokenizerFiles,
  model: ["generation_config.json", ...tokenizerFiles],
  adapter: [],
};

/** Without which a folder is of no use. */
const required: Readonly<Record<Need, readonly string[]>> = {
  config: [configName],
  tokenizer: [tokenizerName],
  job: [configName],
  model: [configName],
  adapter: [adapterConfigName],
};

/** As a folder is read: one file before several, safetensors before PyTorch's. */
const weights: Readonly<Record<Need, readonly WeightNames[]>> = {
  config: [],
  tokenizer: [],
  job: [],
  model: [safetensorsNames, torchNames],
  adapter: adapterWeightNames,
};

export const needsWeights = (need: Need): boolean => weights[need].length > 0;

/** For a message. */
export const wantedWeights = (need: Need): string => weights[need].map(({ file }) => file).join(" or ");

/** Without a tokenizer bytes would be tokens: whether a repository has one must be known. */
export const mayLackTokenizer = (need: Need): boolean =>
  others[need].includes(tokenizerName) && !required[need].includes(tokenizerName);

export interface SmallFiles {
  readonly names: readonly string[];
  /** Required ones that are not there. */
  readonly missing: readonly string[];
  /** In which the files of the weights are named. */
  readonly index: { readonly name: string; readonly extension: string } | undefined;
  /** All weights in one file. */
  readonly weights: string | undefined;
}

/** What to read before the files of the weights are known. @param names of all files that a repository has */
export function smallFiles(need: Need, names: ReadonlySet<string>): SmallFiles {
  const kind = weights[need].find(({ file, index }) => names.has(file) || names.has(index));
  const whole = kind && names.has(kind.file) ? kind.file : undefined;
  const index = kind && whole === undefined ? { name: kind.index, extension: kind.extension } : undefined;
  const wanted = [...required[need], ...others[need].filter((name) => !required[need].includes(name))];
  return {
    names: [...wanted.filter((name) => names.has(name)), ...(index ? [index.name] : [])],
    missing: required[need].filter((name) => !names.has(name)),
    index,
    weights: whole,
  };
}

/** The files that an index names. @throws ModelError */
export const shardsOf = (path: string, text: string, extension: string): string[] => [
  ...new Set(parseIndex(path, text, extension).map(([, shard]) => shard)),
];

/** Of a repository without weights that are read here: those it has, for a message. */
export const foreignWeights = (names: ReadonlySet<string>): string[] =>
  [...names].filter((name) => otherWeights.includes(name) || /\.(gguf|onnx|pth|pt|h5|msgpack|safetensors)$/.test(name));
