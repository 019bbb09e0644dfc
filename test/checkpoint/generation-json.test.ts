// What of a generation_config.json is taken, what is only told, and what is refused by name.
import { describe, expect, test } from "vitest";
import { parseGenerationConfig } from "../../src/checkpoint/generation-json.ts";
import { ModelError } from "../../src/errors/errors.ts";

const parse = (content: unknown) =>
  parseGenerationConfig(typeof content === "string" ? content : JSON.stringify(content), "dir/generation_config.json");

describe("files as published", () => {
  // Meta's, Qwen's and SmolLM's.
  test.each([
    [
      { bos_token_id: 128000, do_sample: true, eos_token_id: [128001, 128008, 128009], temperature: 0.6, top_p: 0.9 },
      [128001, 128008, 128009],
      { temperature: 0.6, topK: 50, topP: 0.9 },
      [],
    ],
    [
      {
        do_sample: true,
        eos_token_id: [151645, 151643],
        repetition_penalty: 1.05,
        temperature: 0.7,
        top_k: 20,
        top_p: 0.8,
      },
      [151645, 151643],
      { temperature: 0.7, topK: 20, topP: 0.8 },
      ["repetition_penalty 1.05"],
    ],
    [
      { _from_model_config: true, bos_token_id: 0, eos_token_id: 0, transformers_version: "4.42.3" },
      [0],
      undefined,
      [],
    ],
  ])("%j", (content, endTokens, sampling, notApplied) => {
    expect(parse(content)).toEqual({ endTokens, sampling, notApplied });
  });
});

test.each([
  [{}, undefined],
  [{ do_sample: null, temperature: 0.6 }, undefined],
  [{ do_sample: true }, { temperature: 1, topK: 50, topP: 1 }],
  [
    { do_sample: true, top_k: 0 },
    { temperature: 1, topK: undefined, topP: 1 },
  ],
  [
    { do_sample: false, temperature: 0.6, top_k: 7 },
    { temperature: 0, topK: 7, topP: 1 },
  ],
])("what %j says of drawing", (content, sampling) => {
  expect(parse(content)).toEqual({ endTokens: undefined, sampling, notApplied: [] });
});

test("what is not applied is told, where it does something", () => {
  const idle = { repetition_penalty: 1.0, num_beams: 1, min_p: null, bad_words_ids: null };
  expect(parse({ ...idle, no_repeat_ngram_size: 3 }).notApplied).toEqual(["no_repeat_ngram_size 3"]);
});

test.each([
  ["{", /^dir\/generation_config\.json is not JSON: /],
  ["[]", /^dir\/generation_config\.json: found \[\]; wanted a JSON object/],
  [{ eos_token_id: "</s>" }, /eos_token_id: found "<\/s>"; wanted a token's id, or a list of ids/],
  [{ eos_token_id: [1, -1] }, /eos_token_id: found \[1, -1\]/],
  [{ do_sample: "yes" }, /do_sample: found "yes"; wanted true or false/],
  [{ temperature: "hot", top_p: 0, top_k: 1.5 }, /temperature: found "hot".*\n.*top_k: found 1\.5.*\n.*top_p: found 0/],
])("%j is refused", (content, message) => {
  expect(() => parse(content)).toThrow(ModelError);
  expect(() => parse(content)).toThrow(message);
});
