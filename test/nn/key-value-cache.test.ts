// The law of the cache: however a text is cut into passes, the logits are those of one pass over all of it, to the bit.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import { KeyValueCache } from "../../src/nn/key-value-cache.ts";
import type { LanguageBatch, LanguageModel } from "../../src/nn/models/language-model.ts";
import { createModel } from "../../src/nn/models/models.ts";
import type { Engine } from "../../src/zero/engine.ts";

const oracles = fileURLToPath(new URL("../oracles/", import.meta.url));
const bytes = readFileSync(`${oracles}gpt2-tiny/tokens.bin`);
const tokens = Int32Array.from(new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + 120)));

interface Opened {
  readonly engine: Engine<LanguageBatch>;
  readonly model: LanguageModel;
}

async function withModel(folder: string, precision: object, body: (opened: Opened) => Promise<void>): Promise<void> {
  await using opened = await openModelFolder(`${oracles}${folder}`);
  const model = createModel(opened.config);
  const overrides = Object.entries({ train_micro_batch_size_per_gpu: 1, ...precision });
  const config = resolveConfig({ overrides, worldSize: 1 });
  const weights = opened.weights!;
  await using engine = await initializeIn<LanguageBatch>(joinWorld({ threads: 2 }), config, { model, weights });
  await body({ engine, model });
}

const cacheOf = ({ engine, model }: Opened, capacity: number): KeyValueCache =>
  new KeyValueCache(engine.device, model.keyValueShape, capacity, engine.plan.residences.parameters.dtype);

function logits({ engine, model }: Opened, ids: Int32Array, cache?: KeyValueCache): Promise<Float32Array> {
  return engine.infer((tape) => model.nextLogits(tape, tape.integers(ids, [1, ids.length]), cache));
}

/** Ends of passes over a text of 60 tokens: token by token, in pieces, and all at once. */
const cuts: Readonly<Record<string, readonly number[]>> = {
  "all at once": [60],
  "token by token after a prompt": [40, ...Array.from({ length: 20 }, (_, i) => 41 + i)],
  "uneven pieces": [1, 4, 9, 10, 41, 58, 60],
};

describe.each([
  ["gpt2-tiny/model", {}],
  ["gpt2-tiny/model", { bf16: { enabled: true } }],
  ["llama-family/llama", {}],
  ["llama-family/qwen3", {}],
  ["llama-family/qwen3", { bf16: { enabled: true } }],
  ["llama-family/mistral-window", {}],
  ["llama-family/qwen2-window", { bf16: { enabled: true } }],
] as const)("%s %j", (folder, precision) => {
  test.each(Object.keys(cuts))("%s", async (name) => {
    await withModel(folder, precision, async (opened) => {
      using cache = cacheOf(opened, 60);
      let begin = 0;
      for (const end of cuts[name]!) {
        const found = await logits(opened, tokens.slice(begin, end), cache);
        expect(cache.length).toBe(end);
        expect(found, `after ${end} tokens`).toEqual(await logits(opened, tokens.slice(0, end)));
        begin = end;
      }
    });
  });
});

describe("longrope, whose long texts turn otherwise from their first position on", () => {
  test.each(Object.keys(cuts))("a long text that is announced, %s", async (name) => {
    await withModel("llama-family/llama-longrope", {}, async (opened) => {
      expect(opened.model.shortTextTokens).toBe(32);
      using cache = cacheOf(opened, 60);
      cache.clear(60);
      let begin = 0;
      let found: Float32Array = new Float32Array();
      for (const end of cuts[name]!) {
        found = await logits(opened, tokens.slice(begin, end), cache);
        begin = end;
      }
      expect(found).toEqual(await logits(opened, tokens.slice(0, 60)));
    });
  });

  test("a short text needs no announcement, and one that becomes long unannounced is refused by name", async () => {
    await withModel("llama-family/llama-longrope", {}, async (opened) => {
      using cache = cacheOf(opened, 60);
      await logits(opened, tokens.slice(0, 20), cache);
      expect(await logits(opened, tokens.slice(20, 32), cache)).toEqual(await logits(opened, tokens.slice(0, 32)));
      const wanted = /grows from 32 tokens to 33 .*clear\(33\).*beyond 32 tokens longrope/;
      await expect(logits(opened, tokens.slice(32, 33), cache)).rejects.toThrow(wanted);
    });
  });
});

test("its memory is that of the rows, on the device's ledger, and goes with it", async () => {
  await withModel("llama-family/llama", {}, async (opened) => {
    const { ledger } = opened.engine.device;
    const before = ledger.total("device");
    const cache = cacheOf(opened, 100);
    // 2 layers, keys and values, 100 rows of 2 heads of 16 in fp32: 12,800 bytes are a multiple of 256 already.
    expect(ledger.total("device") - before).toBe(2 * 2 * 100 * 2 * 16 * 4);
    cache.dispose();
    expect(ledger.total("device")).toBe(before);
  });
});

test("a cache that was cleared begins anew, and one that is full refuses more", async () => {
  await withModel("llama-family/llama", {}, async (opened) => {
    using cache = cacheOf(opened, 10);
    await logits(opened, tokens.slice(20, 30), cache);
    await expect(logits(opened, tokens.slice(0, 1), cache)).rejects.toThrow(/room for \[10, 32\]; .*\[11, 32\]/);
    cache.clear();
    expect(await logits(opened, tokens.slice(0, 7), cache)).toEqual(await logits(opened, tokens.slice(0, 7)));
  });
});
