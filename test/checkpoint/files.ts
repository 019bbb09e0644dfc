/** Small files for tests of the checkpoint room. */

import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tensorNamesOf } from "../../src/checkpoint/architectures.ts";
import { gpt2TensorShapes } from "../../src/checkpoint/gpt2-tensors.ts";
import type { ModelFolder } from "../../src/checkpoint/huggingface.ts";
import { defaultFormat, type ModelFormat } from "../../src/checkpoint/weight-names.ts";
import {
  type ModelContent,
  type ModelTensor,
  type WrittenModel,
  writeModel,
} from "../../src/checkpoint/write-model.ts";
import type { Gpt2Config } from "../../src/nn/models/gpt2-config.ts";

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "shunya-checkpoint-"));
}

/** The bytes of a safetensors file from any header and data, right or wrong. */
export function safetensorsBytes(header: unknown, dataBytes: number | Uint8Array): Uint8Array {
  const json = typeof header === "string" ? header : JSON.stringify(header);
  const text = new TextEncoder().encode(json);
  const data = typeof dataBytes === "number" ? new Uint8Array(dataBytes) : dataBytes;
  const bytes = new Uint8Array(8 + text.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  bytes.set(data, 8 + text.length);
  return bytes;
}

export interface TestTensor {
  readonly shape: readonly number[];
  readonly dtype?: string;
}

/** A file of zero tensors. */
export function zeroTensors(tensors: Readonly<Record<string, TestTensor>>): Uint8Array {
  const header: Record<string, unknown> = {};
  let end = 0;
  for (const [name, { shape, dtype = "F32" }] of Object.entries(tensors)) {
    const begin = end;
    end += shape.reduce((product, size) => product * size, dtype === "F32" ? 4 : dtype === "U8" ? 1 : 2);
    header[name] = { dtype, shape, data_offsets: [begin, end] };
  }
  return safetensorsBytes(header, end);
}

export const tinyConfig: Gpt2Config = {
  vocabularySize: 7,
  positions: 5,
  hidden: 4,
  layers: 2,
  heads: 2,
  layerNormEpsilon: 1e-5,
  initializerRange: 0.02,
  embeddingDropout: 0,
  attentionDropout: 0.1,
  residualDropout: 0,
  tied: true,
};

/** Every weight of the tiny GPT-2, under its full name. */
export function tinyTensors(config = tinyConfig): Record<string, TestTensor> {
  return Object.fromEntries([...gpt2TensorShapes(config)].map(([name, shape]) => [name, { shape }]));
}

/** A folder with these files; objects are written as JSON. */
export function modelFolder(parent: string, name: string, files: Readonly<Record<string, unknown>>): string {
  const folder = join(parent, name);
  mkdirSync(folder);
  for (const [file, content] of Object.entries(files)) {
    const raw = typeof content === "string" || content instanceof Uint8Array;
    writeFileSync(join(folder, file), raw ? content : JSON.stringify(content));
  }
  return folder;
}

/** The tensors that a configuration implies, in their order. */
export const tensorsOf = (config: ModelFolder["config"]): ModelTensor[] =>
  [...tensorNamesOf(config).shapes].map(([name, shape]) => ({ name, shape }));

/** What a folder holds, to be written again. */
export const contentOf = ({ config, weights }: ModelFolder): ModelContent<ModelTensor> => ({
  config,
  tensors: tensorsOf(config),
  values: async function* ({ name, shape }) {
    const elements = shape.reduce((a, b) => a * b, 1);
    for (let at = 0; at < elements; at += 1000) yield await weights!.read(name, at, Math.min(1000, elements - at));
  },
});

export const copyModel = (
  from: ModelFolder,
  folder: string,
  format: Partial<ModelFormat> = {},
): Promise<WrittenModel> => writeModel(folder, contentOf(from), { ...defaultFormat, ...format });
