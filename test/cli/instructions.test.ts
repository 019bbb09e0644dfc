// Fine-tuning on conversations as a user does it: what the run says, that the model answers afterwards, and that a run goes on with
// the next conversation at another number of ranks.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { root, run, temporaryFolder, writeFiles } from "./command.ts";

const here = temporaryFolder();
const capitals = { India: "New Delhi", Nepal: "Kathmandu", Japan: "Tokyo", Peru: "Lima" };
const message = (role: string, content: string) => ({ role, content });
const chats = Object.entries(capitals).map(([country, capital]) => ({
  messages: [message("user", country), message("assistant", `${capital}.`)],
}));
const long = {
  messages: [...chats[0]!.messages, message("user", "and a long question ".repeat(9)), message("assistant", "no")],
};
const lines = (records: readonly object[]): string => records.map((record) => `${JSON.stringify(record)}\n`).join("");
const template =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const config = {
  model_type: "gpt2",
  ...{ vocab_size: 490, n_positions: 64, n_embd: 32, n_layer: 2, n_head: 2 },
  ...{ resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0 },
};
writeFiles(here, {
  "model/config.json": JSON.stringify(config),
  "model/tokenizer.json": readFileSync(join(root, "test/oracles/tokenizers/shunya.json")),
  "model/tokenizer_config.json": JSON.stringify({ eos_token: "<|im_end|>", chat_template: template }),
  "chats.jsonl": lines(chats),
  "mixed.jsonl": lines([...chats, long, { messages: [message("user", "no answer")] }]),
  "others.jsonl": lines(
    chats.map(({ messages: [user, answer] }) => ({ prompt: user!.content, completion: answer!.content })),
  ),
  "plain.txt": "plain text",
});

async function train(...flags: string[]) {
  const log = `log-${flags.join("").replaceAll(/\W/g, "")}`;
  const base = ["train", "--model", "model", "--threads", "1", "--data-cache", "cache", "--log-json", log];
  const { exitCode, stdout, stderr } = await run([...base, ...flags], here);
  expect({ exitCode, stderr: exitCode === 0 ? "" : stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const steps = readFileSync(join(here, log), "utf8").trimEnd().split("\n");
  return { stdout, stderr, losses: steps.map((line) => (JSON.parse(line) as LoggedStep).loss) };
}

test("a model that learned the example's answers gives them", async () => {
  const example = join(root, "examples/capitals.jsonl");
  const schedule = ["--steps", "120", "--lr", "1e-2", "--micro-batch", "2", "--seq-length", "64"];
  const { losses } = await train("--data", example, "--ranks", "2", "--stage", "3", ...schedule, "--output", "tuned");
  expect(losses[0]).toBeGreaterThan(4);
  expect(losses.at(-1)).toBeLessThan(0.05);
  const prompt = "<|im_start|>user\nThe capital of Nepal?<|im_end|>\n<|im_start|>assistant\n";
  const flags = ["--prompt", prompt, "--temperature", "0", "--tokens", "20"];
  const { stdout } = await run(["generate", "--model", "tuned", ...flags], here);
  expect(stdout).toMatch(/assistant\nKathmandu\.(<\|im_end\|>)?\s*$/);
});

test("the run says what is learned, what is padding, what was cut and what was left out", async () => {
  const flags = ["--data", "mixed.jsonl:0.5", "others.jsonl:0.5", "--validation", "0.25", "--steps", "2"];
  const { stdout, stderr } = await train(...flags);
  expect(stdout).toMatch(
    /^data +7 conversations, \d+ answer tokens of \d+\n +one a row of 64: [\d.]+ % of positions are padding/m,
  );
  expect(stdout).toMatch(/; --seq-length\s+\d+\s+would\s+cut\s+none\s+and\s+make\s+it\s+[\d.]+\s+%/);
  expect(stdout).toMatch(/^ +2 conversations held out for validation$/m);
  expect(stdout).toMatch(/^ +50\.0 % from mixed\.jsonl: [\d.]+ epochs of it$/m);
  expect(stdout).toMatch(/^step 2 validation loss [\d.]+ over 2 conversations in/m);
  expect(stderr).toMatch(/left out: 1 conversation without an answer: mixed\.jsonl:6\n/);
  expect(stderr).toMatch(/1 conversation longer than the sequence length \(cut at its end\): mixed\.jsonl:5/);
});

test("a run goes on with the next conversation, at another number of ranks", async () => {
  const data = ["--data", "chats.jsonl", "others.jsonl", "--steps", "6", "--lr", "1e-3"];
  const two = ["--ranks", "2", "--micro-batch", "1", "--save-every", "3", "--output", "saved"];
  const whole = await train(...data, ...two);
  const rest = await train(...data, "--micro-batch", "2", "--resume", "saved/checkpoints/step-00000003");
  expect(rest.losses).toHaveLength(3);
  for (const [i, loss] of rest.losses.entries()) expect(loss).toBeCloseTo(whole.losses[3 + i]!, 4);
});

describe("refused", () => {
  test.each([
    [
      "conversations beside text",
      ["--data", "chats.jsonl", "plain.txt"],
      /chats\.jsonl holds conversations or completions, and plain\.txt holds text/,
    ],
    [
      "text to validate conversations",
      ["--data", "chats.jsonl", "--validation-data", "plain.txt"],
      /--data holds conversations.*--validation-data holds text/,
    ],
    ["nothing held out", ["--data", "chats.jsonl", "--validation", "0.1"], /the validation data has no conversation/],
  ])("%s", async (_, flags, wanted) => {
    const { exitCode, stderr } = await run(
      ["train", "--model", "model", "--data-cache", "cache", "--steps", "1", ...flags],
      here,
    );
    expect(stderr).toMatch(wanted);
    expect(exitCode).toBe(exitCodes.user);
  });
});
