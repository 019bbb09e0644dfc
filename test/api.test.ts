// What the public calls say of what they cannot use: every options object is checked by name and kind, and nothing falls through as a TypeError.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkOptions, type Kinds, oneOf, required, texts, wholeNumber } from "../src/errors/options.ts";
import * as shunya from "../src/index.ts";

// JavaScript callers have no compiler.
// biome-ignore lint/suspicious/noExplicitAny: every call here is a wrong one
const api = shunya as any;

const model = fileURLToPath(new URL("oracles/gpt2-tiny/model", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "shunya-api-"));
afterAll(() => rmSync(folder, { recursive: true }));

const small = { ...shunya.gpt2Configs.gpt2, vocabularySize: 32, positions: 16, hidden: 16, layers: 1, heads: 2 };
const config = { train_micro_batch_size_per_gpu: 1, optimizer: { type: "AdamW", params: { lr: 1e-3 } } };

// biome-ignore lint/suspicious/noExplicitAny: as above
let generator: any;
beforeAll(async () => {
  generator = await shunya.openGenerator(model, { threads: 1 });
});
afterAll(() => generator?.[Symbol.asyncDispose]());

const next = (prompt: unknown, options?: unknown): Promise<unknown> => generator.generate(prompt, options).next();
const chat = { chat_template: "{{ messages[0].content }}" };
const engine = (): unknown => generator.engine;

type Case = readonly [what: string, call: () => unknown, message: RegExp];

const unknown: readonly Case[] = [
  [
    "initialize",
    () => api.initialize({ model: new shunya.Gpt2(small), config, sed: 1 }),
    /unknown option sed; did you mean seed\?/,
  ],
  ["joinWorld", () => api.joinWorld({ thread: 1 }), /unknown option thread; did you mean threads\?/],
  ["openGenerator", () => api.openGenerator(model, { tokeniser: "x" }), /did you mean tokenizer\?/],
  ["generate", () => next("a", { maxTokens: 1 }), /unknown option maxTokens; it knows tokens, temperature/],
  ["generate, in another case", () => next("a", { top_k: 1 }), /unknown option top_k; did you mean topK\?/],
  ["TextGenerator", () => new api.TextGenerator({ ...generator, modle: 1 }), /^TextGenerator: /],
  [
    "saveCheckpoint",
    () => api.saveCheckpoint(engine(), folder, { keeps: 1 }),
    /unknown option keeps; did you mean keep\?/,
  ],
  ["saveModel", () => api.saveModel(engine(), small, folder, { dtyp: "fp16" }), /did you mean dtype\?/],
  [
    "saveAdapter",
    () => api.saveAdapter(engine(), { config: small, lora: {}, base: null, rank: 1 }, folder),
    /^saveAdapter: unknown option rank/,
  ],
  ["renderChat", () => api.renderChat([], chat, { addGenerationPromt: true }), /did you mean addGenerationPrompt\?/],
  ["encode", () => api.byteTokenizer.encode("a", { addSpecialToken: true }), /did you mean addSpecialTokens\?/],
  ["decode", () => api.byteTokenizer.decode([97], { skip: true }), /^decode: unknown option skip/],
  ["forward", () => generator.engine.forward({}, { stepTarget: 1 }), /did you mean stepTargets\?/],
  [
    "forecast",
    () => api.forecast({ model: new shunya.Gpt2(small), config: {}, batch: {}, threads: 1, ranks: 2 }),
    /did you mean rank\?/,
  ],
  ["Gpt2", () => new api.Gpt2({ ...small, head: 2 }), /unknown option head; did you mean heads\?/],
  ["createModel", () => api.createModel({ ...shunya.modelConfigs["llama-3.2-1b"], layer: 2 }), /did you mean layers\?/],
  ["Linear", () => new api.Linear(2, 2, { biass: false }), /did you mean bias\?/],
  [
    "CausalSelfAttention",
    () => new api.CausalSelfAttention({ hidden: 4, heads: 2, name: "a", dropout: 0 }),
    /^CausalSelfAttention: unknown option dropout/,
  ],
  ["Mlp", () => new api.Mlp({ hidden: 4, name: "a", iner: 2 }), /did you mean inner\?/],
  [
    "Parameter",
    () => new api.Parameter([1], { kind: "constant", value: 0 }, { trainible: false }),
    /did you mean trainable\?/,
  ],
  ["causalAttention", () => api.causalAttention({}, {}, { heads: 1, name: "a", dropuot: 0 }), /did you mean dropout\?/],
  [
    "groupedAttention",
    () => api.groupedAttention({}, {}, {}, {}, { heads: 1, name: "a", kvHead: 1 }),
    /did you mean kvHeads\?/,
  ],
];

const wrong: readonly Case[] = [
  ["initialize without anything", () => api.initialize(), /^initialize: found nothing; wanted an object of options/],
  [
    "initialize without a model",
    () => api.initialize({ config }),
    /^initialize: model: found nothing; wanted a Module/,
  ],
  [
    "a model that is a shape",
    () => api.initialize({ model: small, config }),
    /model: found an object; wanted a Module/,
  ],
  [
    "a configuration that is a number",
    () => api.initialize({ model: new shunya.Gpt2(small), config: 5 }),
    /config: found 5; wanted a path or an object/,
  ],
  [
    "a seed that is text",
    () => api.initialize({ model: new shunya.Gpt2(small), config, seed: "1" }),
    /seed: found "1"; wanted a whole number/,
  ],
  [
    "a signal that is none",
    () => api.initialize({ model: new shunya.Gpt2(small), config, signal: {} }),
    /signal: found an object; wanted an AbortSignal/,
  ],
  [
    "a logger without warn",
    () => api.initialize({ model: new shunya.Gpt2(small), config, logger: () => {} }),
    /logger: found a function; wanted a logger/,
  ],
  ["a world that is null", () => api.joinWorld(null), /^joinWorld: found null/],
  ["no folder", () => api.openGenerator(), /folder: found nothing; wanted a path/],
  ["an empty folder name", () => api.openGenerator(""), /folder: found ""; wanted a path/],
  ["a folder name that no system has", () => api.openGenerator("a\0b"), /folder: found "a\\u0000b"; wanted a path/],
  ["openModelFolder(5)", () => api.openModelFolder(5), /^openModelFolder: folder: found 5/],
  ["openAdapterFolder(null)", () => api.openAdapterFolder(null, small), /folder: found null/],
  ["openTokenizer({})", () => api.openTokenizer({}), /found an object; wanted a path/],
  ["downloadModel(5)", () => api.downloadModel(5), /name: found 5; wanted text/],
  [
    "a teller that tells nothing",
    () => api.downloadModel("a/b", {}),
    /teller: found an object; wanted a teller \(an object with begin/,
  ],
  ["a text that is a number", () => api.byteTokenizer.encode(5), /^encode: text: found 5; wanted text/],
  ["ids of null", () => api.byteTokenizer.decode(null), /^decode: ids: found null; wanted a list of token ids/],
  ["no prompt", () => next(undefined), /prompt: found nothing; wanted text/],
  ["null for options", () => next("a", null), /^generate: found null; wanted an object of options/],
  ["one stop string", () => next("a", { stop: "b" }), /stop: found "b"; wanted a list of texts/],
  [
    "a signal of an old kind",
    () => next("a", { signal: { aborted: false } }),
    /signal: found an object; wanted an AbortSignal/,
  ],
  ["chat as text", () => next("a", { chat: "yes" }), /chat: found "yes"; wanted true or false/],
  ["tokens as text", () => next("a", { tokens: "5" }), /tokens: found "5"; wanted a whole number of at least 1/],
  ["tokens of null", () => next("a", { tokens: null }), /tokens: found null/],
  ["a seed that is too large a number", () => next("a", { seed: 2 ** 60 }), /seed: found/],
  ["withWhole(5)", () => generator.engine.withWhole(5), /body: found 5; wanted a function/],
  ["withWhole with text for bytes", () => generator.engine.withWhole(() => 1, "1"), /besideBytes: found "1"/],
  [
    "an event that there is not",
    () => generator.engine.on("steps", () => 1),
    /event: found "steps"; wanted "step" or "end"/,
  ],
  ["no listener", () => generator.engine.on("step"), /listener: found nothing; wanted a function/],
  ["infer()", () => generator.engine.infer(), /body: found nothing; wanted a function/],
  ["weights(5)", () => generator.engine.weights(5), /wants: found 5; wanted a function/],
  ["saveStates(5)", () => generator.engine.saveStates(5), /body: found 5; wanted a function/],
  ["a checkpoint without a folder", () => api.saveCheckpoint(engine()), /folder: found nothing; wanted a path/],
  [
    "keep: 0",
    () => api.saveCheckpoint(engine(), folder, { keep: 0 }),
    /keep: found 0; wanted a whole number of at least 1/,
  ],
  [
    "a model of an unknown type",
    () => api.saveModel(engine(), small, folder, { dtype: "int8" }),
    /dtype: found "int8"; wanted "fp32" or "bf16" or "fp16"/,
  ],
  ["messages that are text", () => api.renderChat("hello", chat), /messages: found "hello"; wanted a list of messages/],
  ["answers of null", () => api.renderAnswers([null], chat), /messages: found a list of 1/],
  ["a width of text", () => new api.Gpt2({ ...small, hidden: "16" }), /hidden: found "16"; wanted a whole number/],
  ["a shape that lacks something", () => new api.Gpt2({ hidden: 16 }), /vocabularySize: found nothing/],
  ["createModel()", () => api.createModel(), /config: found nothing/],
  ["a linear layer without outputs", () => new api.Linear(2), /outputs: found nothing/],
  ["a parameter of no shape", () => new api.Parameter(5, { kind: "constant", value: 0 }), /shape: found 5/],
  [
    "a dropout of everything",
    () => new api.Dropout(1, "a"),
    /probability: found 1; wanted a number of at least 0 and below 1/,
  ],
];

async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe.each([
  ["an option that nobody knows", unknown],
  ["a value of another kind", wrong],
])("%s", (_, cases) => {
  test.each(cases)("%s", async (_, call, message) => {
    const error = (await thrownBy(call)) as Error;
    expect(error?.name).toBe("UsageError");
    expect(error.message).toMatch(message);
  });
});

test("after all of that the engine still answers", async () => {
  expect((await next("a", { tokens: 1, stop: undefined })) as object).toMatchObject({ done: false });
});

test("undefined counts as left out, long values are shown in part", () => {
  const kinds: Kinds<{ one?: string | undefined; two: number; three?: readonly string[] }> = {
    one: oneOf(["a", "b"]),
    two: required(wholeNumber(1, 3)),
    three: texts,
  };
  expect(() => checkOptions("call", { one: undefined, two: 3 }, kinds)).not.toThrow();
  expect(() => checkOptions("call", { one: "c".repeat(1000), two: 3 }, kinds)).toThrow(
    /^call: one: found "c{60}\.\.\."; wanted "a" or "b"$/,
  );
  expect(() => checkOptions("call", { two: 4 }, kinds)).toThrow(
    "call: two: found 4; wanted a whole number from 1 to 3",
  );
  expect(() => checkOptions("call", { two: 1, three: ["a", 1] as never }, kinds)).toThrow(
    "three: found a list of 2; wanted a list of texts",
  );
});
