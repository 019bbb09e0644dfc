// Conversations and completions: which tokens are learned (as transformers' masks have it), what becomes of odd records, and that any
// number of ranks finds the same samples and the same number of targets.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { ConversationRows } from "../../src/data/conversation-rows.ts";
import { summarise } from "../../src/data/conversation-summary.ts";
import { encodeInstructions } from "../../src/data/encode-instructions.ts";
import { DataLoader } from "../../src/data/loader.ts";
import type { PrepareOptions } from "../../src/data/prepare.ts";
import { samplePlaces } from "../../src/data/row-places.ts";
import { isLearned, tokenOf } from "../../src/data/sample-file.ts";
import { RowSampler } from "../../src/data/sampler.ts";
import { splitOff } from "../../src/data/split.ts";
import type { ChatMessage } from "../../src/tokenizer/chat.ts";
import { openTokenizer } from "../../src/tokenizer/tokenizer.ts";
import { DataFolder } from "./prepared.ts";
import { chatTokenizer, wordTokenizer } from "./word-tokenizer.ts";

interface Masks {
  readonly tokenizer: string;
  readonly settings: { readonly chat_template: string };
  readonly conversations: readonly (readonly ChatMessage[])[];
  readonly rows: readonly { readonly ids: readonly number[]; readonly mask: string }[];
}
const oracle = (name: string): string => fileURLToPath(new URL(`../oracles/${name}`, import.meta.url));
const templates = JSON.parse(readFileSync(oracle("chat-masks.json"), "utf8")) as Readonly<Record<string, Masks>>;

describe.each(Object.entries(templates))(
  "%s: transformers' tokens and masks",
  async (name, { tokenizer, settings, conversations, rows }) => {
    const opened = await openTokenizer(oracle(`tokenizers/${tokenizer}.json`));
    const bare = settings.chat_template
      .replaceAll(/\{%(-?) *generation/g, "{%$1 if true")
      .replaceAll(/\{%(-?) *endgeneration/g, "{%$1 endif");

    test.each([
      ["with generation blocks", settings.chat_template] as const,
      // Without them what closes an answer is learned, and there that is the rest of a word and more.
      ...(name === "within" ? [] : [["without them", bare] as const]),
    ])("%s", (_what, chat_template) => {
      const chat = {
        ...{ name: tokenizer, vocabularySize: opened.vocabularySize, endOfText: undefined },
        encode: (text: string) => opened.encode(text),
        settings: { ...settings, chat_template },
      };
      const instructions = conversations.map((messages, i) => ({
        ...{ instruction: { messages, learnedFrom: 0 }, file: "chats.jsonl", line: i + 1 },
      }));
      const batch = { instructions, border: new Uint32Array(), seqLength: 1000 };
      const { words, lengths, targets, findings } = encodeInstructions(chat, batch);
      expect(findings).toEqual([]);
      let at = 0;
      for (const [i, { ids, mask }] of rows.entries()) {
        const sample = [...words.subarray(at, at + lengths[i]!)];
        expect(sample.map(tokenOf)).toEqual(ids);
        expect(sample.map((word) => Number(isLearned(word))).join("")).toBe(mask);
        expect(targets[i]).toBe(mask.slice(1).split("1").length - 1);
        at += lengths[i]!;
      }
      expect(at).toBe(words.length);
    });
  },
);

const data = new DataFolder();
const words = { tokenizer: chatTokenizer, vocabularySize: 1000, seqLength: 8 };
const say = (...contents: string[]) => ({
  messages: contents.map((content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content })),
});
const lines = (...records: unknown[]): string => records.map((record) => `${JSON.stringify(record)}\n`).join("");

/** All samples as rows of inputs and targets, and what is said of the data. */
async function rowsOf(args: readonly string[], more: Partial<PrepareOptions> = {}) {
  const options = { ...words, ...more };
  const prepared = await data.prepare(args, options);
  const samples = prepared.sources.flatMap((source) => source.samples ?? []);
  await using rows = await ConversationRows.open(samples, 0, options);
  const found: { inputs: number[]; targets: number[] }[] = [];
  for (let place = 0; place < samples.reduce((sum, { count }) => sum + count, 0); place++) {
    const [inputs, targets] = [new Int32Array(rows.seqLength), new Int32Array(rows.seqLength)];
    await rows.read(place, inputs, targets);
    found.push({ inputs: [...inputs], targets: [...targets] });
  }
  return { prepared, found, notices: prepared.notices.join("\n").replaceAll(`${data.path}/`, "") };
}

describe("rows", () => {
  test("a conversation a row: answers and what ends them are targets, the rest and the padding are not", async () => {
    const path = data.file("one.jsonl", lines(say("aaa", "bbbbb"), say("a", "b", "cc", "dd")));
    const { found, notices, prepared } = await rowsOf([path]);
    expect(prepared.kind).toBe("instructions");
    expect(notices).toBe(
      "odd data in one.jsonl:\n  1 conversation longer than the sequence length (cut at its end): one.jsonl:2 (10 tokens)",
    );
    expect(found).toEqual([
      { inputs: [1, 3, 1, 5, 0, 0, 0, 0], targets: [-1, -1, 5, 0, -1, -1, -1, -1] },
      { inputs: [1, 1, 1, 1, 0, 1, 2, 1], targets: [-1, -1, 1, 0, -1, -1, -1, 2] },
    ]);
  });

  test("prompt and completion: no template, the end of text is learned", async () => {
    const path = data.file(
      "pc.jsonl",
      lines({ prompt: "aa bbb", completion: " cccc" }, { prompt: "", completion: "d ee" }),
    );
    const plain = { ...words, tokenizer: wordTokenizer };
    expect((await rowsOf([path], plain)).found).toEqual([
      { inputs: [2, 3, 4, 0, 0, 0, 0, 0], targets: [-1, 4, 0, -1, -1, -1, -1, -1] },
      { inputs: [1, 2, 0, 0, 0, 0, 0, 0], targets: [2, 0, -1, -1, -1, -1, -1, -1] },
    ]);
  });

  test("prompt and completion as messages: answers of the prompt are not learned", async () => {
    const { messages } = say("a", "b", "cc", "dd");
    const path = data.file("lists.jsonl", lines({ prompt: messages.slice(0, 3), completion: messages.slice(3) }));
    const { found } = await rowsOf([path], { seqLength: 9 });
    expect(found).toEqual([{ inputs: [1, 1, 1, 1, 0, 1, 2, 1, 2], targets: [-1, -1, -1, -1, -1, -1, -1, 2, 0] }]);
  });

  test("packed, in folders, in Parquet: the same rows", async () => {
    const text = lines(say("aaa", "bbbbb"), say("cc", "dddd"));
    const plain = data.file("form/plain.jsonl", text);
    const gz = data.file("packed/a.jsonl.gz", gzipSync(text));
    const { found } = await rowsOf([plain]);
    expect((await rowsOf([gz])).found).toEqual(found);
    expect((await rowsOf([data.at("packed")])).found).toEqual(found);
    expect((await rowsOf([oracle("parquet/chats.parquet")])).found).toEqual(found);
  });

  test("workers give what one thread gives", async () => {
    const many = Array.from({ length: 700 }, (_, i) => say("x".repeat(1 + i), "y ".repeat(6500 + i)));
    const path = data.file("many.jsonl", lines(...many)); // above the size from which on workers are used
    const alone = await rowsOf([path], { cacheFolder: data.at(".alone") });
    const tokenizerModule = {
      module: new URL("./word-tokenizer.ts", import.meta.url).href,
      argument: "nothing, and chats",
    };
    const together = await rowsOf([path], { tokenizerModule, cacheFolder: data.at(".workers") });
    expect(together.found).toEqual(alone.found);
    expect(together.notices).toBe(alone.notices);
    expect(alone.found).toHaveLength(700);
  });
});

describe("odd records", () => {
  test("are left out, counted and told with their places", async () => {
    const path = data.file(
      "odd.jsonl",
      `${lines(
        say("good", "answer"),
        { messages: [] },
        { messages: "hello" },
        { messages: [{ role: "user", content: 7 }] },
        { messages: [{ role: "human", content: "a" }] },
        say("only a question"),
        say("question", "  "),
        { ...say("a", "b"), tools: [{ name: "f" }] },
        { text: "plain" },
        { prompt: "a" },
        { prompt: "a", completion: "" },
        { prompt: ["a"], completion: "b" },
        say("a b c d e f g h i j", "too late"),
        { messages: [{ role: "user", content: [{ type: "text", text: "parts" }] }] },
      )}{"messages": [`,
    );
    const { found, notices } = await rowsOf([path]);
    expect(found).toHaveLength(1);
    expect(notices).toBe(
      [
        "odd data in odd.jsonl:",
        "  left out: 1 last line that is cut off: odd.jsonl:15",
        "  left out: 2 records without messages, or prompt and completion: odd.jsonl:9, odd.jsonl:10",
        "  left out: 4 records of another form: odd.jsonl:3 (messages: a string where a list is wanted), " +
          "odd.jsonl:4 (messages[0].content: a number where text is wanted), odd.jsonl:12 (prompt: a list where text is wanted), ...",
        '  left out: 1 conversation with an unknown role: odd.jsonl:5 (messages[0].role: "human")',
        "  left out: 1 conversation with tools: odd.jsonl:8",
        "  left out: 2 conversations without an answer: odd.jsonl:2, odd.jsonl:6",
        "  left out: 2 records with an empty answer: odd.jsonl:7, odd.jsonl:11",
        "  left out: 1 conversation whose answers begin after the sequence length: odd.jsonl:13 (at token 13)",
      ].join("\n"),
    );
  });

  test("conversations that the template refuses are left out with its reason", async () => {
    const chat_template = `{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}${chatTokenizer.settings.chat_template}`;
    const { messages } = say("a", "b");
    const path = data.file("refused.jsonl", lines({ messages: messages.slice(1) }, { messages }));
    const tokenizer = { ...chatTokenizer, settings: { chat_template } };
    const { found, notices } = await rowsOf([path], { tokenizer });
    expect(found).toHaveLength(1);
    expect(notices).toMatch(/1 conversation that the chat template refuses: refused\.jsonl:1 \(.*user first\)/);
  });

  test.each([
    [
      "nothing to learn from",
      lines(say("a")),
      {},
      /^bad\.jsonl has no record to learn from; the first problem: .*, in line 1; wanted "messages"/,
    ],
    [
      "a longer beginning than the rows",
      lines(say("a b c d e f g h i j", "k")),
      {},
      /1 records, and none is left .* answers begin after 8 tokens \(--seq-length\), the first of them after 12: give at least --seq-length 12,/,
    ],
    [
      "no template",
      lines(say("a", "b")),
      { tokenizer: wordTokenizer },
      /the tokenizer has no chat template \(chat_template in tokenizer_config/,
    ],
    [
      "no model",
      lines(say("a", "b")),
      { seqLength: undefined },
      /holds conversations or completions: name the model .* --model/,
    ],
  ] as const)("refused: %s", async (_, content, more, message) => {
    const path = data.file("bad.jsonl", content);
    expect(await data.refusal([path], { ...words, ...(more as Partial<PrepareOptions>) })).toMatch(message);
  });

  test("refused: conversations and text in one run", async () => {
    const path = data.file("both.jsonl", lines(say("a", "b")));
    const text = data.file("both.txt", "some text");
    expect(await data.refusal([path, text], words)).toMatch(
      /^both\.jsonl holds conversations or completions, and both\.txt holds text/,
    );
  });

  test("a record with text is text, as ever", async () => {
    const path = data.file("text.jsonl", lines({ text: "a b", ...say("a", "b") }));
    expect((await data.prepare([path], words)).kind).toBe("text");
  });
});

test("every rank finds the same samples and the number of targets of the whole step, whatever their number", async () => {
  const contents = Array.from({ length: 50 }, (_, i) => say("q".repeat(1 + (i % 7)), "a ".repeat(1 + (i % 5)).trim()));
  const path = data.file("steps.jsonl", lines(...contents));
  const { prepared } = await rowsOf([path]);
  const samples = prepared.sources.map((source) => source.samples!);
  await using rows = await ConversationRows.open(samples, 0, words);
  const sampler = new RowSampler(samplePlaces(50), { seed: 3, shuffle: true });
  const seen = new Set<string>();
  for (const [worldSize, gradientAccumulation] of [
    [1, 1],
    [2, 1],
    [4, 1],
    [2, 2],
  ] as const) {
    const shape = { microBatch: 8 / worldSize / gradientAccumulation, gradientAccumulation, worldSize };
    const targets: number[] = [];
    const told = new Set<number>();
    for (let a = 0; a < gradientAccumulation; a++)
      for (let rank = 0; rank < worldSize; rank++) {
        const loader = new DataLoader({ rows, sampler, ...shape, rank });
        const batch = await loader.batch(5, a);
        await loader.idle();
        targets.push(...batch.targets);
        told.add(batch.stepTargets);
      }
    seen.add(targets.join());
    expect([...told]).toEqual([targets.filter((target) => target >= 0).length]);
  }
  expect(seen.size).toBe(1);
});

test("conversations are held out from the end, and the summary says what is learned and what is padding", async () => {
  const path = data.file("split.jsonl", lines(...Array.from({ length: 10 }, (_, i) => say("q", "a".repeat(i + 1)))));
  const { prepared } = await rowsOf([path], { seqLength: 64 });
  const { training, validation } = splitOff(prepared.sources, 0.25);
  expect([training, validation].map(([source]) => [source!.samples!.first, source!.samples!.count])).toEqual([
    [0, 8],
    [8, 2],
  ]);
  // Four inputs each ("u 1 a 1", and 0 ends it), of which two targets count.
  const summary = await summarise([training[0]!.samples!], 64);
  expect(summary).toMatchObject({ samples: 8, tokens: 40, targets: 16, padded: 60 / 64 });
  expect(summary.shorter).toEqual({ seqLength: 8, cut: 0, padded: 0.5 });
});
