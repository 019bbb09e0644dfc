// Text from a model folder: transformers' greedy tokens, the rule for long texts, how a text ends, and that nothing is left behind.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { UsageError } from "../../src/errors/errors.ts";
import { openGenerator } from "../../src/generation/open-generator.ts";
import { readingBytes } from "../../src/generation/pass-memory.ts";
import { type GenerateOptions, type GenerationEnd, TextGenerator } from "../../src/generation/text-generator.ts";
import { generateTokens } from "../../src/generation/tokens.ts";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import { addAdapters } from "../../src/nn/lora.ts";
import type { LanguageBatch } from "../../src/nn/models/language-model.ts";
import { createModel, modelConfigs } from "../../src/nn/models/models.ts";
import { byteTokenizer } from "../../src/tokenizer/tokenizer.ts";

const oracles = fileURLToPath(new URL("../oracles/", import.meta.url));
const bytes = readFileSync(`${oracles}gpt2-tiny/tokens.bin`);
/** Bytes are tokens, and those of the file are ASCII. */
const text = String.fromCharCode(...new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + 800)));

/** The trained weights beside the configuration, which lies with the first ones. */
const trained = mkdtempSync(join(tmpdir(), "shunya-generator-"));
copyFileSync(`${oracles}gpt2-tiny/model/config.json`, join(trained, "config.json"));
copyFileSync(`${oracles}gpt2-tiny/final/model.safetensors`, join(trained, "model.safetensors"));
afterAll(() => rmSync(trained, { recursive: true }));

const folderOf = (name: string): string => (name === "gpt2-tiny" ? trained : `${oracles}llama-family/${name}`);
const greedy = { temperature: 0 } as const;
const one = { threads: 1 } as const;

async function whole(model: TextGenerator, prompt: string, options: GenerateOptions) {
  const pieces: string[] = [];
  const generation = model.generate(prompt, options);
  let next = await generation.next();
  for (; !next.done; next = await generation.next()) pieces.push(next.value);
  return { pieces, text: pieces.join(""), end: next.value as GenerationEnd };
}

interface Expected {
  readonly prompt_tokens: number;
  readonly tokens: readonly number[];
}
const expected = JSON.parse(readFileSync(`${oracles}generation.json`, "utf8")) as Record<string, readonly Expected[]>;

describe("greedy tokens are transformers'", () => {
  test.each(Object.keys(expected))("%s", async (name) => {
    await using opened = await openModelFolder(folderOf(name));
    const model = createModel(opened.config);
    const config = resolveConfig({ overrides: [["train_micro_batch_size_per_gpu", 1]], worldSize: 1 });
    const weights = opened.weights!;
    await using engine = await initializeIn<LanguageBatch>(joinWorld(one), config, { model, weights });
    for (const { prompt_tokens: count, tokens } of expected[name]!) {
      const options = { ...greedy, seed: 0, tokens: tokens.length, vocabularySize: 256, ends: new Set<number>() };
      const found: number[] = [];
      const prompt = Int32Array.from(byteTokenizer.encode(text.slice(0, count)));
      for await (const token of generateTokens({ engine, model }, prompt, options)) found.push(token);
      expect(found).toEqual(tokens);
    }
  });
});

test("a text that longrope counts among the long ones, in the middle of it, is that of passes over all of it", async () => {
  await using opened = await openModelFolder(folderOf("llama-longrope"));
  const model = createModel(opened.config);
  const config = resolveConfig({ overrides: [["train_micro_batch_size_per_gpu", 1]], worldSize: 1 });
  await using engine = await initializeIn<LanguageBatch>(joinWorld(one), config, { model, weights: opened.weights! });
  const options = { ...greedy, seed: 0, tokens: 12, vocabularySize: 256, ends: new Set<number>() };
  const all = [...byteTokenizer.encode(text.slice(0, 28))]; // 32 are the longest short text
  const prompt = Int32Array.from(all);
  for await (const token of generateTokens({ engine, model }, prompt, options)) {
    const ids = Int32Array.from(all);
    const logits = await engine.infer((tape) => model.nextLogits(tape, tape.integers(ids, [1, ids.length])));
    expect(token, `after ${ids.length} tokens`).toBe(logits.indexOf(Math.max(...logits)));
    all.push(token);
  }
  expect(all).toHaveLength(40);
});

describe("a text longer than the model", () => {
  test("goes on with the newest half of what the model takes", async () => {
    await using model = await openGenerator(trained, one);
    expect(model.longestSequence).toBe(128);
    const prompt = text.slice(0, 120);
    const { text: found } = await whole(model, prompt, { ...greedy, tokens: 80 });
    // By hand: the text of each stretch anew. 128 places hold the prompt and 8 tokens, and the ninth follows from those.
    let wanted = (await whole(model, prompt, { ...greedy, tokens: 9 })).text;
    // Then the newest 64 are read again, the ninth among them, and 64 more fit; 65 tokens follow.
    const newest = (prompt + wanted).slice(-64);
    wanted += (await whole(model, newest, { ...greedy, tokens: 65 })).text;
    wanted += (await whole(model, (prompt + wanted).slice(-64), { ...greedy, tokens: 6 })).text;
    expect(found).toBe(wanted);
  });

  test("of a prompt it sees the end", async () => {
    await using model = await openGenerator(trained, one);
    const long = await whole(model, text.slice(0, 300), { ...greedy, tokens: 1 });
    expect(long.text).toBe((await whole(model, text.slice(300 - 128, 300), { ...greedy, tokens: 1 })).text);
    expect(long.end.promptTokens).toBe(300);
  });
});

describe("the end", () => {
  test("before a stop string, wherever tokens begin and end", async () => {
    await using model = await openGenerator(trained, one);
    const all = (await whole(model, text.slice(0, 40), { ...greedy, tokens: 40 })).text;
    const stop = all.slice(10, 14);
    const found = await whole(model, text.slice(0, 40), { ...greedy, tokens: 40, stop: ["\n\n\n", stop] });
    expect(found.text).toBe(all.slice(0, all.indexOf(stop)));
    expect(found.end).toMatchObject({ finish: "stop", tokens: all.indexOf(stop) + 4 });
  });

  test("by a signal, at the next token", async () => {
    await using model = await openGenerator(trained, one);
    const stop = new AbortController();
    const generation = model.generate("we ", { ...greedy, signal: stop.signal });
    await generation.next();
    stop.abort();
    expect(await generation.next()).toEqual({
      done: true,
      value: { finish: "interrupted", tokens: 1, promptTokens: 3 },
    });
  });

  test("seeds make different texts, and one seed the same", async () => {
    await using model = await openGenerator(trained, one);
    const drawn = async (seed: number) => (await whole(model, "we ", { seed, tokens: 30, topP: 0.95 })).text;
    expect(await drawn(1)).toBe(await drawn(1));
    expect(await drawn(1)).not.toBe(await drawn(2));
  });
});

describe("what a text took", () => {
  const stage3 = {
    config: { zero_optimization: { stage: 3, stage3_param_persistence_threshold: 0 }, train_batch_size: 32 },
  };

  test.each(["left early", "thrown in", "ended"])("is free again when the loop is %s", async (how) => {
    await using model = await openGenerator(trained, { ...one, ...stage3 });
    const { ledger } = model.engine.device;
    const before = ledger.total("device");
    const read = async (): Promise<void> => {
      for await (const piece of model.generate("we ", { ...greedy, tokens: 5 })) {
        expect(ledger.total("device"), piece).toBeGreaterThan(before);
        if (how === "left early") return;
        if (how === "thrown in") throw new Error("the reader's own");
      }
    };
    if (how === "thrown in") await expect(read()).rejects.toThrow("the reader's own");
    else await read();
    expect(ledger.total("device")).toBe(before);
    expect((await whole(model, "we ", { ...greedy, tokens: 5 })).end.tokens).toBe(5);
  });

  test("keeps others out meanwhile, and says so", async () => {
    await using model = await openGenerator(trained, one);
    const generation = model.generate("we ", greedy);
    await generation.next();
    await expect(model.generate("they ", greedy).next()).rejects.toThrow(/while a text is generated/);
    await expect(model.engine.step()).rejects.toThrow(UsageError);
    await generation.return({ finish: "interrupted", tokens: 0, promptTokens: 0 });
    expect((await whole(model, "they ", { ...greedy, tokens: 2 })).end.tokens).toBe(2);
  });

  test("is known before: the same passes on the simulated device", async () => {
    const config = { ...modelConfigs.gpt2!, layers: 2 };
    const kv = (tokens: number): number => 2 * 2 * tokens * 768 * 4;
    const sizes = { passTokens: 512, dtype: "f32" } as const;
    const model = createModel(config);
    const [short, long] = [
      await readingBytes(model, { ...sizes, capacity: 512 }),
      await readingBytes(model, { ...sizes, capacity: 1024 }),
    ];
    expect(short).toBeGreaterThan(kv(512));
    expect(long - short).toBeGreaterThanOrEqual(kv(512));
    expect(long - short).toBeLessThan(kv(512) * 1.5);
    // Adapters (LoRA) make activations of their own.
    addAdapters(model, { rank: 512, alpha: 1, dropout: 0, targets: ["all-linear"], rankStabilized: false });
    expect(await readingBytes(model, { ...sizes, capacity: 512 })).toBeGreaterThan(short + 512 * 512 * 4);
  });
});

test("a prompt as what a user says: the chat template's text, with the beginning of an answer", async () => {
  await using model = await openGenerator(trained, one);
  const chat_template =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const tokenizer = { ...byteTokenizer, settings: { chat_template } };
  const { engine } = model;
  const chatty = new TextGenerator({ engine, model: createModel(modelConfigs.gpt2!), tokenizer });
  expect(tokenizer.decode(chatty.encode("why?", { chat: true }))).toBe("<user>why?<assistant>");
  expect(tokenizer.decode(chatty.encode("why?"))).toBe("why?");
});

test.each([1, 3])("an answer ends where the chat template closes it, with %d token(s)", async (count) => {
  await using opened = await openModelFolder(trained);
  const model = createModel(opened.config);
  const config = resolveConfig({ overrides: [["train_micro_batch_size_per_gpu", 1]], worldSize: 1 });
  await using engine = await initializeIn<LanguageBatch>(joinWorld(one), config, { model, weights: opened.weights! });
  const [prompt, options] = [text.slice(0, 40), { temperature: 2, topK: 256, seed: 3, tokens: 40 }];
  const plain = new TextGenerator({ engine, model, tokenizer: byteTokenizer });
  const all = (await whole(plain, prompt, options)).text;
  const closing = all
    .slice(2)
    .match(/[a-z]{3}/)![0]
    .slice(0, count);
  const chat_template = `{% for m in messages %}{{ m.content }}{% if m.role == "assistant" %}${closing}{% endif %}{% endfor %}`;
  const chatty = new TextGenerator({ engine, model, tokenizer: { ...byteTokenizer, settings: { chat_template } } });
  const found = await whole(chatty, prompt, { ...options, chat: true });
  expect(found.text).toBe(all.slice(0, all.indexOf(closing)));
  expect(found.text).not.toBe("");
  expect(found.end.finish).toBe(count === 1 ? "end" : "stop");
});

test("what cannot be is refused by name", async () => {
  await using model = await openGenerator(trained, one);
  const refused = (prompt: string, options: GenerateOptions) => expect(model.generate(prompt, options).next()).rejects;
  await refused("", {}).toThrow(/the prompt is empty/);
  await refused(undefined as never, {}).toThrow(/prompt: found nothing; wanted text/);
  await refused("a", { tokens: 0 }).toThrow(/tokens: found 0/);
  await refused("a", { topP: 2 }).toThrow(/topP: found 2/);
  await refused("a", { stop: [""] }).toThrow(/a stop string is empty/);
  await refused("a", { chat: true }).toThrow(/no chat template/);
  await expect(openGenerator(`${oracles}gpt2-tiny/nowhere`)).rejects.toThrow(/no such|has no/);
});
