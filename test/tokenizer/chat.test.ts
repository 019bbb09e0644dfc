// Chat templates in the manner of published models; the texts are those that Python's Jinja, set up as transformers does, gives.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Script } from "node:vm";
import { afterAll, describe, expect, type MockInstance, test, vi } from "vitest";
import { ModelError } from "../../src/errors/errors.ts";
import { encodeInTime } from "../../src/tokenizer/bounded.ts";
import { answerClosing, type ChatMessage, renderAnswers, renderChat } from "../../src/tokenizer/chat.ts";
import { byteTokenizer, openTokenizer } from "../../src/tokenizer/tokenizer.ts";

/** As Qwen and many others: every message between two tokens. */
const chatml = {
  eos_token: "<|im_end|>",
  chat_template: `{%- if messages[0].role != "system" %}
    {{- "<|im_start|>system\\nBe helpful.<|im_end|>\\n" }}
{%- endif %}
{%- for m in messages %}
    {{- "<|im_start|>" + m.role + "\\n" + m.content + "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
{%- endif %}`,
};

/** As Llama 3: headers, trimmed content, one token at the beginning. */
const headers = {
  bos_token: { content: "<|begin_of_text|>", special: true },
  chat_template: `{% for m in messages %}
{% set piece = "<|start_header_id|>" ~ m["role"] ~ "<|end_header_id|>\\n\\n" ~ m["content"] | trim ~ "<|eot_id|>" %}
{{ (bos_token if loop.first else "") ~ piece }}
{%- endfor %}
{% if add_generation_prompt %}{{ "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}{% endif %}`,
};

/** As Mistral: users and assistants by turns, and nothing else. */
const turns = {
  bos_token: "<s>",
  eos_token: "</s>",
  chat_template: [
    { name: "tools", template: "{{ raise_exception('not this one') }}" },
    {
      name: "default",
      template: `{{ bos_token }}{% for m in messages %}{% if (m.role == "user") != (loop.index0 % 2 == 0) -%}
{{ raise_exception("roles must take turns") }}{% endif %}{% if m.role == "user" %}{{ "[INST] " + m.content + " [/INST]" }}{% else -%}
{{ " " + m.content + eos_token }}{% endif %}{% endfor %}`,
    },
  ],
};

const messages: readonly ChatMessage[] = [
  { role: "user", content: "भारत की राजधानी?" },
  { role: "assistant", content: "नई दिल्ली " },
  { role: "user", content: "Thanks" },
  { role: "assistant", content: "!" },
];

const whole = {
  chatml:
    "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\nभारत की राजधानी?<|im_end|>\n" +
    "<|im_start|>assistant\nनई दिल्ली <|im_end|>\n<|im_start|>user\nThanks<|im_end|>\n<|im_start|>assistant\n!<|im_end|>\n",
  headers:
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nभारत की राजधानी?<|eot_id|>" +
    "<|start_header_id|>assistant<|end_header_id|>\n\nनई दिल्ली<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nThanks<|eot_id|>" +
    "<|start_header_id|>assistant<|end_header_id|>\n\n!<|eot_id|>",
  turns: "<s>[INST] भारत की राजधानी? [/INST] नई दिल्ली </s>[INST] Thanks [/INST] !</s>",
};

describe("a conversation is rendered, and its answers are found", () => {
  test.each([
    ["chatml", chatml, whole.chatml, ["नई दिल्ली <|im_end|>", "!<|im_end|>"]],
    ["headers", headers, whole.headers, ["नई दिल्ली<|eot_id|>", "!<|eot_id|>"]],
    ["turns", turns, whole.turns, [" नई दिल्ली </s>", " !</s>"]],
  ])("%s", (_, settings, wanted, answers) => {
    expect(renderChat(messages, settings)).toBe(wanted);
    const found = renderAnswers(messages, settings);
    expect(found.text).toBe(wanted);
    expect(found.answers.map(({ start, end }) => wanted.slice(start, end))).toEqual(answers);
  });

  test("with the beginning of an answer, and with values of one's own", () => {
    const asked = renderChat(messages.slice(0, 1), headers, { addGenerationPrompt: true });
    expect(asked).toMatch(/<\|eot_id\|><\|start_header_id\|>assistant<\|end_header_id\|>\n\n$/);
    const settings = { chat_template: "{{ mood }}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}" };
    expect(renderChat([], settings, { values: { mood: "calm", tools: [{ name: "f" }] } })).toBe('calm{"name": "f"}');
  });
});

test("refused: no template, a broken one, messages that a template does not take, answers that change", () => {
  expect(() => renderChat(messages, {})).toThrow(/the tokenizer has no chat template/);
  expect(() => renderChat(messages, { chat_template: "{% for %}" })).toThrow(/the chat template cannot be read/);
  expect(() => renderChat(messages.slice(1), turns)).toThrow(/refuses these messages: roles must take turns/);
  const lastOnly = { chat_template: "{{ messages | length }}{{ messages[-1].content }}" };
  expect(() => renderAnswers(messages, lastOnly)).toThrow(/message 2 of a conversation cannot be found in its text/);
});

function raise(message: string): never {
  throw new Error(message);
}

/** A tenth of a second here, so that nobody waits for what never comes. */
const hasten = (): MockInstance => {
  const { runInContext } = Script.prototype;
  return vi.spyOn(Script.prototype, "runInContext").mockImplementation(function (this: Script, context, options) {
    return runInContext.call(this, context, { ...(options as object), timeout: 100 });
  });
};

describe("a template that does not end is an error", () => {
  const endless = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";

  test("of the model, not of the messages, and the next one is filled in", () => {
    const late = /^the chat template was not done with a conversation after 10 s; look for a loop/;
    const runs = hasten();
    expect(() => renderChat(messages, { chat_template: endless })).toThrow(late);
    expect(() => renderAnswers(messages, { chat_template: endless })).toThrow(ModelError);
    const marked = `${endless}{% generation %}a{% endgeneration %}`;
    expect(() => renderAnswers(messages, { chat_template: marked })).toThrow(late);
    expect(renderChat(messages, chatml)).toBe(whole.chatml);
    expect(runs).toHaveBeenLastCalledWith(expect.anything(), { timeout: 10_000 });
    runs.mockRestore();
  });

  test("nor is a pattern of a tokenizer waited for", () => {
    const pattern = /^(a+)+$/;
    const slow = { ...byteTokenizer, encode: (text: string) => Uint32Array.of(Number(pattern.test(text))) };
    const runs = hasten();
    expect(() => encodeInTime(slow, `${"a".repeat(40)}!`)).toThrow(
      /^the tokenizer bytes was not done with 41 characters after 10 s/,
    );
    expect(encodeInTime(slow, "aa")).toEqual(Uint32Array.of(1));
    expect(() => encodeInTime({ ...slow, encode: () => raise("own") }, "a")).toThrow(/^own$/);
    runs.mockRestore();
  });

  test("a range is as in Jinja, and no larger than its sandbox has it", () => {
    const shown = (text: string): string => renderChat([], { chat_template: `{{ ${text} | join(",") }}` });
    expect(shown("range(3)")).toBe("0,1,2");
    expect(shown("range(1, 4)")).toBe("1,2,3");
    expect(shown("range(5, 0, -2)")).toBe("5,3,1");
    expect(shown("range(2, 2)")).toBe("");
    expect(shown("range(100000)")).toMatch(/,99999$/);
    expect(() => shown("range(1000000000)")).toThrow(/range\(\) of 1000000000 entries; wanted at most 100000/);
    expect(() => shown("range(1, 5, 0)")).toThrow(/range\(\) of Infinity entries/);
  });
});

const folder = mkdtempSync(join(tmpdir(), "shunya-chat-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the template may lie in a file of its own", async () => {
  const path = fileURLToPath(new URL("../oracles/tokenizers/shunya.json", import.meta.url));
  writeFileSync(join(folder, "tokenizer.json"), readFileSync(path));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ chat_template: "old" }));
  writeFileSync(join(folder, "chat_template.jinja"), chatml.chat_template);
  const tokenizer = await openTokenizer(folder);
  const text = renderChat(messages, tokenizer.settings);
  expect(text).toBe(whole.chatml);
  writeFileSync(join(folder, "chat_template.jinja"), "{{ raise_exception('no') }}");
  const refusing = (await openTokenizer(folder)).settings;
  const refused = new RegExp(
    `^the chat template of ${join(folder, "chat_template.jinja")} refuses these messages: no$`,
  );
  expect(() => renderChat(messages, refusing)).toThrow(refused);
  expect(() => renderAnswers(messages, refusing)).toThrow(refused);
  expect(tokenizer.encode(text).filter((id) => id === tokenizer.idOf("<|im_start|>"))).toHaveLength(5);
});

test("what closes an answer, where something does", () => {
  expect(answerClosing(chatml)).toBe("<|im_end|>");
  expect(answerClosing(headers)).toBe("<|eot_id|>");
  expect(answerClosing(turns)).toBe("</s>");
  expect(answerClosing({ chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}" })).toBeUndefined();
});
