/** Finds, reads and checks a tokenizer.json and the settings beside it. */

import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ModelError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";
import { reasonOf } from "../errors/system-error.ts";
import { noteTemplateFile } from "./chat.ts";
import { HuggingFaceTokenizer, type TokenizerJson } from "./huggingface.ts";
import type { Tokenizer, TokenizerSettings } from "./tokenizer.ts";

export const tokenizerName = "tokenizer.json";
export const settingsName = "tokenizer_config.json";
/** Newer folders keep the chat template in a file of its own. */
export const chatTemplateName = "chat_template.jinja";

/** A tokenizer in a form that is not read here; people have the folder and wonder. */
const otherForms = ["tokenizer.model", "vocab.json", "vocab.txt", "spiece.model"];

/** Model types that the format knows (Hugging Face's tokenizers, models). WordLevel is not read by the library used here. */
const modelTypes = ["BPE", "WordPiece", "Unigram"];

/** Where the tokenizer of a model folder is; undefined where the folder has none. */
export async function findTokenizer(folder: string): Promise<string | undefined> {
  const path = join(folder, tokenizerName);
  return (await stat(path).catch(() => undefined))?.isFile() ? path : undefined;
}

export async function openTokenizerJson(folderOrFile: string): Promise<Tokenizer> {
  const found = await stat(folderOrFile).catch((error: Error) => {
    throw new ModelError(`${printable(folderOrFile)}: no such file or folder; wanted a ${tokenizerName}`, {
      cause: error,
    });
  });
  const path = found.isDirectory() ? join(folderOrFile, tokenizerName) : folderOrFile;
  if (found.isDirectory() && (await findTokenizer(folderOrFile)) === undefined) throw await noTokenizer(folderOrFile);
  const json = checkTokenizer(path, await readJson(path));
  const settings = await readSettings(dirname(path));
  try {
    const tokenizer = new HuggingFaceTokenizer(path, json, settings);
    // What is wrong in a part shows when it is used: better now than in the middle of a text.
    tokenizer.decode([...tokenizer.encode("A b"), ...tokenizer.encode("1", { addSpecialTokens: true })]);
    return tokenizer;
  } catch (error) {
    if (error instanceof ModelError) throw error;
    throw new ModelError(`${path} cannot be used as a tokenizer: ${printable((error as Error).message)}`, {
      cause: error,
    });
  }
}

async function noTokenizer(folder: string): Promise<ModelError> {
  for (const name of otherForms) {
    if (!(await isThere(join(folder, name)))) continue;
    return new ModelError(
      `${folder} has its tokenizer in ${name}; wanted ${tokenizerName}: save it again with a fast tokenizer of transformers`,
    );
  }
  return new ModelError(`${folder} has no ${tokenizerName}; wanted a tokenizer as Hugging Face writes it`);
}

async function readJson(path: string): Promise<unknown> {
  const text = await readText(path);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ModelError(`${path} is not JSON: ${printable((error as Error).message)}`, { cause: error });
  }
}

async function readSettings(folder: string): Promise<TokenizerSettings> {
  const path = join(folder, settingsName);
  const settings = (await isThere(path)) ? await readJson(path) : {};
  if (!isObject(settings)) throw new ModelError(`${path} holds no JSON object; wanted a tokenizer's settings`);
  const template = join(folder, chatTemplateName);
  const hasOwnFile = await isThere(template);
  const all = hasOwnFile ? { ...settings, chat_template: await readText(template) } : settings;
  noteTemplateFile(all, hasOwnFile ? template : path);
  return all;
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch((error: Error) => {
    throw new ModelError(`${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  });
}

/** What the library takes for granted. */
function checkTokenizer(path: string, json: unknown): TokenizerJson {
  if (!isObject(json) || !isObject(json.model)) throw new ModelError(`${path} has no "model"; wanted a tokenizer.json`);
  const { model, added_tokens: added = [] } = json;
  const type = model.type ?? untoldType(model);
  if (typeof type !== "string" || !modelTypes.includes(type))
    throw new ModelError(
      `${path}: model type: found ${printable(JSON.stringify(type))}; wanted ${modelTypes.join(", ")}`,
    );
  const { vocab, merges } = model;
  if (typeof vocab !== "object" || vocab === null)
    throw new ModelError(`${path}: model has no "vocab"; wanted the tokens and their ids`);
  if (Array.isArray(vocab) !== (type === "Unigram"))
    throw new ModelError(
      `${path}: vocab: found ${Array.isArray(vocab) ? "a list" : "an object"}; wanted ${type === "Unigram" ? "a list of [token, score]" : "an object of tokens and their ids"}`,
    );
  if (type === "BPE") checkMerges(path, merges);
  if (!Array.isArray(added) || !added.every(isAddedToken))
    throw new ModelError(`${path}: added_tokens: wanted a list of objects with id and content`);
  const parts = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
  return { ...parts, ...json, model: { ...model, type }, added_tokens: added };
}

function checkMerges(path: string, merges: unknown): void {
  if (!Array.isArray(merges)) throw new ModelError(`${path}: model has no "merges"; wanted the list of a BPE's merges`);
  const wrong = merges.findIndex((merge) => !isMerge(merge));
  if (wrong !== -1)
    throw new ModelError(
      `${path}: merges[${wrong}]: found ${printable(JSON.stringify(merges[wrong]).slice(0, 80))}; wanted two tokens, as "a b" or ["a", "b"]`,
    );
}

/** Tokens with a blank in them are written in a list alone. */
function isMerge(merge: unknown): boolean {
  if (typeof merge === "string") return merge.indexOf(" ", 1) > 0 && !merge.endsWith(" ");
  return Array.isArray(merge) && merge.length === 2 && merge.every((token) => typeof token === "string");
}

/** Files of old versions do not say the type of their model. */
function untoldType({ merges, vocab }: Record<string, unknown>): string {
  if (Array.isArray(merges)) return "BPE";
  return Array.isArray(vocab) ? "Unigram" : "WordPiece";
}

function isAddedToken(value: unknown): boolean {
  return (
    isObject(value) && Number.isInteger(value.id) && (value.id as number) >= 0 && typeof value.content === "string"
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
