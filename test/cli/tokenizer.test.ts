// `shunya tokenizer` as a user runs it.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { openTokenizer } from "../../src/tokenizer/tokenizer.ts";
import { root, run, temporaryFolder, tinyModel } from "./command.ts";

const folder = temporaryFolder();
const text = join(folder, "text.txt");
const trained = join(folder, "trained");
const line = "भारत की भाषाएँ अनेक हैं, and words repeat: भारत, भाषाएँ, words.\n";
const train = ["tokenizer", "train", "--data", text, "--vocab-size", "305", "--output", trained];

beforeAll(async () => {
  writeFileSync(text, line.repeat(5000));
  const { exitCode, stdout, stderr } = await run([...train, "--special", "<|im_start|>"]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  expect(stdout).toMatch(/^305 tokens \(47 merges\) from \d+ KB of text with \d+ different words, in /);
  expect(stdout).toMatch(/^this tokenizer +\d+\.\d\d +\d+\.\d\d$/m);
  expect(stdout).toMatch(/^GPT-2's \(50,257 tokens\) +\d\.\d\d$/m);
  expect(stdout).toMatch(/^Held out: [\d.]+ KB, spread over the text\.$/m);
});

test("train writes a tokenizer that opens", async () => {
  const tokenizer = await openTokenizer(trained);
  expect(tokenizer).toMatchObject({ vocabularySize: 305, endOfText: 0 });
  expect(tokenizer.idOf("<|im_start|>")).toBe(1);
  expect(tokenizer.decode(tokenizer.encode(line))).toBe(line);
  expect(tokenizer.encode(line).length).toBeLessThan(Buffer.byteLength(line) / 3);
  const settings = JSON.parse(readFileSync(join(trained, "tokenizer_config.json"), "utf8")) as object;
  expect(settings).toMatchObject({ eos_token: "<|endoftext|>", tokenizer_class: "PreTrainedTokenizerFast" });
});

test("train replaces nothing unasked, and says what is wrong", async () => {
  const again = await run(train);
  expect(again.exitCode).toBe(exitCodes.user);
  expect(again.stderr).toMatch(/trained\/tokenizer.json is there already; .* or give --overwrite/);
  const small = await run([...train.slice(0, -1), join(folder, "other"), "--vocab-size", "100"]);
  expect(small.stderr).toMatch(/vocabulary of 100 is too small; wanted at least 257/);
  const missing = await run([...train, "--data", join(folder, "nothing"), "--overwrite"]);
  expect(missing.stderr).toMatch(/nothing: no such file; check --data/);
  const records = join(folder, "records.jsonl");
  writeFileSync(records, `${JSON.stringify({ body: line.repeat(10) })}\nno record\n`);
  const other = ["--data", records, "--output", join(folder, "other"), "--text-field", "body"];
  const { exitCode, stderr } = await run(["tokenizer", "train", "--vocab-size", "300", ...other]);
  expect(exitCode).toBe(exitCodes.ok);
  expect(stderr).toMatch(/odd data in .*\n.*left out: 1 line that is not JSON: .*records\.jsonl:2\n/);
});

test("encode and decode undo each other; show names pieces", async () => {
  const given = ["--tokenizer", trained];
  const { stdout: ids } = await run(["tokenizer", "encode", "भारत<|im_start|>", ...given]);
  expect(ids).toMatch(/^\d+( \d+)* 1\n$/);
  expect((await run(["tokenizer", "decode", ...ids.trim().split(" "), ...given])).stdout).toBe("भारत<|im_start|>");
  expect((await run(["tokenizer", "decode", "1,x"])).stderr).toMatch(/found "x" among the ids; wanted whole numbers/);
  expect((await run(["tokenizer", "decode", "305", ...given])).stderr).toMatch(/token id 305 is not in/);
  const { stdout } = await run(["tokenizer", "show", "words é", ...given]);
  expect(stdout).toMatch(/trained\/tokenizer.json: 305 tokens, end of text <\|endoftext\|> \(0\)/);
  expect(stdout).toMatch(/^ *\d+ {2}"wor"\n *\d+ {2}"ds"\n *\d+ {2}" "\n *\d+ {2}0xc3\n *\d+ {2}0xa9$/m);
  expect(stdout).toMatch(/^8 bytes, 5 tokens, 1\.60 bytes per token$/m);
  expect((await run(["tokenizer", "encode", "é"])).stdout).toBe("195 169\n");
  expect((await run(["tokenizer", "show", "--tokenizer", root])).stderr).toMatch(/has no tokenizer.json/);
});

test("a model trained with it has its vocabulary, keeps it, and generates with it", async () => {
  const output = join(folder, "model");
  const shape = ["--seq-length", "16", "--steps", "2", "--threads", "1", "--data-cache", join(folder, "cache")];
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ train_micro_batch_size_per_gpu: 1, optimizer: { type: "AdamW" } }));
  const dry = ["train", "--model", "gpt2", "--tokenizer", trained, "--data", text, "--config", config, ...shape];
  expect((await run([...dry, "--dry-run"])).stdout).toMatch(/^tokenizer +\S+: 305 tokens, the\s+model's vocabulary$/m);

  const from = join(folder, "from");
  mkdirSync(from);
  const tiny = JSON.parse(readFileSync(join(tinyModel, "config.json"), "utf8")) as object;
  writeFileSync(join(from, "config.json"), JSON.stringify({ ...tiny, vocab_size: 305 }));
  const generation = '{ "do_sample": true, "temperature": 1.0 }\n';
  writeFileSync(join(from, "generation_config.json"), generation);
  const train = ["train", "--model", from, "--data", text, "--config", config, "--output", output, ...shape];
  expect(await run([...train, "--tokenizer", trained])).toMatchObject({ exitCode: exitCodes.ok });
  expect(readFileSync(join(output, "tokenizer.json"))).toEqual(readFileSync(join(trained, "tokenizer.json")));
  expect(readFileSync(join(output, "generation_config.json"), "utf8")).toBe(generation);
  const prompt = ["generate", "--model", output, "--prompt", "भारत", "--tokens", "8", "--temperature", "0"];
  const { stdout, stderr } = await run(prompt);
  expect({ stdout, stderr }).toEqual({ stdout: expect.stringMatching(/^भारत.*\n$/s) as string, stderr: "" });

  // Bytes beside a tokenizer that was not used, and a tokenizer that the model has no rows for.
  const bytes = await run([...train, "--overwrite"]);
  expect(bytes.stderr).toMatch(/holds a tokenizer.json, and in this run bytes are tokens/);
  const small = await run(["generate", "--model", tinyModel, "--prompt", "x", "--tokenizer", trained]);
  expect(small.stderr).toMatch(/has 305 tokens, and the model's vocabulary ends at 256/);
});
