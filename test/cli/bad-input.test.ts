// Whatever a user may give by mistake is answered with one message that says what and where: no stack, nothing written.
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, run, temporaryFolder, tinyModel, writeFiles } from "./command.ts";

const here = temporaryFolder();
const peft = join(root, "test/oracles/peft/gpt2/final");
const weights = readFileSync(join(tinyModel, "model.safetensors"));
const config = readFileSync(join(tinyModel, "config.json"), "utf8");

writeFiles(here, {
  "text.txt": "to be, or not to be, that is the question. ".repeat(40),
  "short.txt": "too short",
  "latin1.txt": Uint8Array.of(...Buffer.from("caf"), 0xe9, ...Buffer.from(" au lait, s'il vous plait ".repeat(20))),
  "large-ids.bin": Uint8Array.of(...new Array(200).fill(0), 0x10, 0x27, 1, 0),
  "texts/latin1.txt": Uint8Array.of(...Buffer.from("caf"), 0xe9, 0x20),
  "text.txt.bz2": "BZh9",
  "other.jsonl": '{"content":"a"}\n',
  "good.jsonl": '{"text":"to be, or not to be, that is the question"}\n',
  "odd.bin": Uint8Array.of(1, 0, 2),
  "taken/model.safetensors/file": "",
  "escapes/config.json": "\u001b[2J",
  "empty.txt": "",
  "not-json.json": '{ "train_batch_size": 4, oops }',
  "indivisible.json": { train_batch_size: 7, train_micro_batch_size_per_gpu: 2 },
  "offload.json": {
    train_batch_size: 4,
    optimizer: { type: "AdamW" },
    zero_optimization: { stage: 2, offload_optimizer: { device: "nvme" } },
  },
  "monitor.json": {
    train_batch_size: 4,
    optimizer: { type: "AdamW" },
    csv_monitor: { enabled: true, output_path: "text.txt", job_name: "job" },
  },
  "no-config/model.safetensors": weights,
  "no-weights/config.json": config,
  "broken-config/config.json": "{",
  "llama/config.json": { model_type: "bert" },
  "missing-shard/config.json": config,
  "missing-shard/model.safetensors.index.json": { weight_map: { "wte.weight": "model-00001-of-00002.safetensors" } },
  "wrong-shape/config.json": config.replace('"n_embd": 64', '"n_embd": 32'),
  "wrong-shape/model.safetensors": weights,
  "truncated/config.json": config,
  "truncated/model.safetensors": weights.subarray(0, weights.length - 1000),
  "huge/config.json": config.replace('"n_embd": 64', '"n_embd": 1280000').replace(/"n_layer": \d+/, '"n_layer": 4000'),
  "header-only/config.json": config,
  "header-only/model.safetensors": weights.subarray(0, 5),
});
symlinkSync("circle.txt", join(here, "circle.txt"));
const untouched = readdirSync(here, { recursive: true }).length;

const trainOn = (data: string, ...flags: string[]): string[] => [
  ...["train", "--model", tinyModel, "--data", data, "--seq-length", "16", "--steps", "1"],
  ...["--output", "out", "--log-json", "log.ndjson", ...flags],
];
const train = (...flags: string[]): string[] => trainOn("text.txt", ...flags);
const generate = (...flags: string[]): string[] => ["generate", "--model", tinyModel, "--prompt", "x", ...flags];

const cases: readonly (readonly [what: string, args: readonly string[], message: RegExp])[] = [
  // What the issue of a broken job usually is
  ["a configuration that is not JSON", train("--config", "not-json.json"), /not-json\.json.*\n.*line 1/],
  ["a configuration that is not there", train("--config", "nowhere.json"), /nowhere\.json.*\n.*no such file/],
  ["a batch that does not divide", train("--config", "indivisible.json"), /7 != 2 \* 3 \* 1/],
  ["a token id outside the vocabulary", trainOn("large-ids.bin"), /large-ids\.bin has token id 10000 at position 100/],
  ["half a token", trainOn("odd.bin"), /odd\.bin has 3 bytes/],
  ["a text shorter than one window", trainOn("short.txt"), /9 tokens; wanted at least 17/],
  ["an empty text", trainOn("empty.txt"), /empty\.txt is empty/],
  ["a text that is not UTF-8", trainOn("latin1.txt"), /latin1\.txt is not UTF-8.*0xe9 at offset 3/],
  ["a text that is not there", trainOn("nowhere.txt"), /nowhere\.txt: no such file/],
  ["a folder without data", trainOn("llama"), /llama is a folder without data; wanted files that end in/],
  ["a folder with a file that is not UTF-8", trainOn("texts"), /latin1\.txt is not UTF-8.*0xe9 at offset 3/],
  ["a weight for one of two", trainOn("text.txt:0.5", "--data", "short.txt"), /short\.txt has no weight/],
  ["a weight of nothing", trainOn("text.txt:0"), /weight of 0; wanted a number above 0/],
  ["a weighed source of less than a window", trainOn("text.txt:1", "--data", "short.txt:1"), /short\.txt has 9 tokens/],
  ["a pattern that fits nothing", trainOn("*.csv"), /\*\.csv: no file fits/],
  ["a packed file that is not read", trainOn("text.txt.bz2"), /bunzip2/],
  ["JSONL of another shape", trainOn("other.jsonl"), /no document with a text in field "text".*field.* content/],
  ["a cache that is a file", trainOn("good.jsonl", "--data-cache", "text.txt"), /kept in text\.txt.*--data-cache/],
  ["a model folder without config.json", train("--model", "no-config"), /no-config has no config\.json/],
  ["a model folder that is not there", train("--model", "gpt3"), /gpt3: no such folder/],
  ["a config.json that is not JSON", train("--model", "broken-config"), /broken-config.config\.json is not JSON/],
  ["a config.json that would write to the terminal", train("--model", "escapes"), /is not JSON: .*\\u001b/],
  ["another architecture", train("--model", "llama"), /model_type: found "bert"/],
  ["an index that names a missing shard", train("--model", "missing-shard"), /names model-00001-of-00002.*missing/],
  ["a tensor of the wrong shape", train("--model", "wrong-shape"), /found shape \[.*wanted \[/],
  ["a truncated weight file", train("--model", "truncated"), /truncated.model\.safetensors.*/],
  ["a weight file cut in its header", train("--model", "header-only"), /header-only.model\.safetensors/],
  ["generating without weights", ["generate", "--model", "no-weights", "--prompt", "x"], /no-weights has no weights/],
  // Names that are none
  ["an empty model", train("--model", ""), /--model is given without a name \(""\)/],
  ["an empty name among data", trainOn(""), /--data is given without a name/],
  ["an empty folder of checkpoints", ["checkpoint", "inspect", ""], /wanted the name of a file or folder/],
  [
    "an output below a file",
    ["checkpoint", "merge", "--model", tinyModel, "--adapter", peft, "--output", "text.txt"],
    /text\.txt cannot be used: .*\(ENOTDIR\)/,
  ],
  [
    "prompts of a folder",
    ["generate", "--model", tinyModel, "--jsonl", "llama"],
    /llama cannot be read: it is a folder/,
  ],
  ["a name of 300 letters", trainOn("x".repeat(300)), /its name is longer than the file system takes/],
  ["a path through a file", train("--config", "text.txt/ds.json"), /a part of its path, is a file/],
  ["a model below a file", train("--model", "text.txt/model"), /text\.txt.model: .*a part of its path, is a file/],
  ["a link in a circle", trainOn("circle.txt"), /circle\.txt: its symbolic links lead in a circle/],
  [
    "a log through a file",
    train("--log-json", "text.txt/log"),
    /--log-json text\.txt.log cannot be written: .*a part of its path, is a file/,
  ],
  // Flags
  ["an output under a file", train("--output", "text.txt/out"), /--output text\.txt.out cannot be written/],
  [
    "an output where a folder has the name of the model",
    train("--output", "taken", "--overwrite"),
    /model\.safetensors in it is a folder/,
  ],
  ["an output that is a file", train("--output", "text.txt"), /--output text\.txt cannot be written/],
  ["a log in no folder", train("--log-json", "nowhere/log.ndjson"), /--log-json nowhere.log\.ndjson cannot be written/],
  ["a log that is a folder", train("--log-json", "llama"), /--log-json llama cannot be written/],
  ["a log over the data", train("--log-json", "text.txt"), /--log-json text\.txt is also a file that this run reads/],
  ["another device", train("--device", "cuda"), /--device cuda.*CPU only/],
  ["stage 4", train("--stage", "4"), /zero_optimization\.stage: found 4/],
  ["no ranks", train("--ranks", "0"), /--ranks.*"0".*from 1 to/],
  ["a thousand ranks and more", train("--ranks", "100000"), /--ranks.*100000/],
  ["no steps", train("--steps", "0"), /--steps.*"0".*at least 1/],
  ["more steps than numbers", train("--steps", "99999999999999999999"), /--steps/],
  ["more threads than anything has", train("--threads", "1000000"), /--threads.*1000000/],
  ["a window above the positions", train("--seq-length", "4096"), /--seq-length 4096.*128 positions/],
  ["a batch beyond all memory", train("--set", "train_micro_batch_size_per_gpu=9007199254740991"), /train_micro_batch/],
  ["a negative seed", train("--seed", "-1"), /--seed/],
  ["a size that is none", train("--device-memory", "much"), /--device-memory.*"much"/],
  ["a setting without a value", train("--set", "zero_optimization.stage"), /--set zero_optimization\.stage/],
  ["a setting that is unknown", train("--set", "optimizer.params.rate=1"), /optimizer\.params\.rate/],
  ["a learning rate in words", train("--set", "optimizer.params.lr=fast"), /optimizer\.params\.lr.*"fast"/],
  ["an unknown flag", train("--stages", "3"), /unknown option '--stages'.*\n?.*--stage/],
  ["a flag without its value", train("--stage"), /--stage <n>' argument missing/],
  ["no data", ["train"], /--data/],
  ["a micro-batch of none", train("--micro-batch", "0"), /--micro-batch.*"0".*at least 1/],
  ["a learning rate that is none", train("--lr", "-1e-4"), /--lr.*"-1e-4".*above 0/],
  ["token ids without a model", ["train", "--data", "large-ids.bin"], /token id 10000 .*\n.*give --model/],
  ["a text shorter than any window", ["train", "--data", "short.txt"], /9 tokens; wanted at least 65/],
  ["offload to no folder", train("--config", "offload.json"), /nvme_path is left out.*name a folder/],
  ["a monitor in no folder", train("--config", "monitor.json"), /csv_monitor\.output_path: .*cannot be written/],
  ["an argument too many", generate("more"), /too many arguments/],
  ["an empty prompt", generate("--prompt", ""), /the prompt is empty/],
  ["a temperature below zero", generate("--temperature", "-1"), /--temperature/],
  ["a script that is not there", ["launch", "--ranks", "2", "nowhere.ts"], /nowhere\.ts: no such file/],
  ["a folder as script", ["launch", "--ranks", "2", "llama"], /llama/],
  ["an unknown command", ["trian"], /unknown command 'trian'/],
];

test("a model beyond all devices is refused without a number that means nothing", async () => {
  const { exitCode, stderr } = await run(train("--model", "huge"), here);
  expect(stderr).toMatch(/^error: this model takes over 4 PB .* of device memory on a rank: no device holds that/);
  expect(exitCode).toBe(exitCodes.memory);
});

test.each(cases)("%s", async (_what, args, message) => {
  const { exitCode, stdout, stderr } = await run(args, here);
  expect(stderr).toMatch(message);
  expect(stderr).toMatch(/^error: /);
  expect(stderr).not.toMatch(/\n {4}at |internal/);
  expect(stdout).toBe("");
  expect(exitCode).toBe(exitCodes.user);
  expect(readdirSync(here, { recursive: true })).toHaveLength(untouched);
});
