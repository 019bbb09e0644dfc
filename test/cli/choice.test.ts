// What is trained when nobody says what: chosen by the machine's speed and the text's length.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseGpt2Config } from "../../src/checkpoint/gpt2-json.ts";
import { type Choice, chooseJob, type MachineSpeed } from "../../src/cli/choice.ts";
import { renderChoice } from "../../src/cli/choice-text.ts";
import type { TrainRequest } from "../../src/cli/job.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { run, temporaryFolder, tooWide, writeFiles } from "./command.ts";

const request: TrainRequest = {
  config: undefined,
  overrides: [],
  model: undefined,
  data: ["my.txt"],
  ranks: 1,
  steps: undefined,
  seqLength: undefined,
  seed: 42,
  shuffle: true,
  deviceMemoryBytes: undefined,
  hostMemoryBytes: undefined,
  threads: 2,
  output: undefined,
  overwrite: false,
  dryRun: false,
  saveEvery: undefined,
  keep: undefined,
  resume: undefined,
  trace: undefined,
};
/** Two cores with bf16 instructions. */
const speed: MachineSpeed = { fp32: 118e9, bf16: 235e9, cores: 2 };
const novel = 1_100_000;

const choose = (changes: Partial<TrainRequest>, tokens = novel, machine = speed): Promise<Choice> =>
  chooseJob({ ...request, ...changes }, { tokenCount: tokens, vocabularySize: 256 }, machine);

const minutes = ({ seconds }: Choice): number => seconds / 60;
const setting = (choice: Choice, path: string): unknown =>
  path.split(".").reduce((at, key) => (at as Record<string, unknown> | undefined)?.[key], choice.settings as unknown);

test("a novel on two cores takes some minutes and a few epochs", async () => {
  const choice = await choose({});
  expect(minutes(choice)).toBeGreaterThan(5);
  expect(minutes(choice)).toBeLessThan(10);
  expect(choice.epochs).toBeLessThanOrEqual(8);
  expect(choice.model).toMatchObject({ hidden: 192, layers: 6, vocabularySize: 256 });
  expect(setting(choice, "bf16.enabled")).toBe(true);
  expect(setting(choice, "scheduler.params.total_num_steps")).toBe(choice.steps);
  expect(choice.job).toMatchObject({ model: choice.model, config: choice.settings, steps: choice.steps });
});

test("with text without end the time is used up, and a faster machine gets a larger model", async () => {
  const slow = await choose({}, 1e9);
  const fast = await choose({ threads: 64 }, 1e9, { fp32: 200e9, bf16: 800e9, cores: 64 });
  for (const choice of [slow, fast]) {
    expect(choice.boundBy).toBe("time");
    expect(minutes(choice)).toBeGreaterThan(8.5);
    expect(minutes(choice)).toBeLessThanOrEqual(9);
  }
  expect(fast.model.hidden).toBeGreaterThan(slow.model.hidden);
});

test("a short text is not learned by heart: its epochs end the run, and that is said", async () => {
  const choice = await choose({}, 20_000);
  expect(choice.boundBy).toBe("epochs");
  expect(choice.epochs).toBeGreaterThan(7);
  expect(choice.epochs).toBeLessThanOrEqual(8);
  expect(choice.model.hidden).toBe(64);
  expect(renderChoice(choice, speed)).toMatch(/see the text 8\.0 times, in about \d+ s\.\nMore than 8 times would/);
});

test("where bf16 is no faster it is not used", async () => {
  const choice = await choose({}, novel, { ...speed, bf16: 118e9 });
  expect(setting(choice, "bf16")).toBeUndefined();
});

test("ranks share the batch and the machine", async () => {
  const [one, two] = [await choose({}), await choose({ ranks: 2, threads: 1 })];
  expect(setting(two, "train_micro_batch_size_per_gpu")).toBe(
    (setting(one, "train_micro_batch_size_per_gpu") as number) / 2,
  );
  expect(two.seconds / one.seconds).toBeCloseTo(1, 1);
});

test("a budget of memory is kept", async () => {
  const free = await choose({}, 1e9);
  const tight = await choose({ deviceMemoryBytes: 16e6 }, 1e9);
  expect(tight.model.hidden).toBeLessThan(free.model.hidden);
});

test("what the user says stays: length, window, and values in the configuration", async () => {
  const choice = await choose({
    steps: 77,
    seqLength: 48,
    overrides: [
      ["optimizer.params.lr", 5e-4],
      ["zero_optimization.stage", "3"],
      ["csv_monitor.enabled", "false"],
    ],
  });
  expect(choice).toMatchObject({ steps: 77, boundBy: "--steps" });
  expect(choice.model.positions).toBe(48);
  expect(setting(choice, "optimizer.params.lr")).toBe(5e-4);
  expect(setting(choice, "zero_optimization.stage")).toBe(3);
  expect(setting(choice, "csv_monitor.enabled")).toBe(false);
  expect(setting(choice, "optimizer.type")).toBe("AdamW");
});

const here = temporaryFolder();
writeFiles(here, {
  "text.txt": "to be, or not to be, that is the question. ".repeat(400),
  "ds.json": { train_micro_batch_size_per_gpu: 3, optimizer: { type: "SGD", params: { lr: 0.01 } } },
});

test("with a configuration only the model is chosen", async () => {
  const config = join(here, "ds.json");
  const choice = await choose({ config });
  expect(choice.settings).toBeUndefined();
  expect(choice.job.config).toBe(config);
  expect(renderChoice(choice, speed)).not.toMatch(/ds_config\.json/);
  expect(tooWide(renderChoice(choice, speed))).toEqual([]);
});

test("train --data alone says what it chose, and what it keeps trains again", async () => {
  const flags = ["--data", "text.txt", "--steps", "3", "--lr", "1e-3", "--micro-batch", "4"];
  const { exitCode, stdout, stderr } = await run(["train", ...flags, "--output", "out"], here);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const [model, settings] = [...stdout.matchAll(/^\{\n(?:.*\n)*?\}$/gm)].map(([json]) => json);
  const kept = readFileSync(join(here, "out", "ds_config.json"), "utf8");
  expect(parseGpt2Config(model!, "printed")).toEqual(
    parseGpt2Config(readFileSync(join(here, "out", "config.json"), "utf8"), "kept"),
  );
  expect(JSON.parse(settings!)).toEqual(JSON.parse(kept));
  expect(JSON.parse(kept)).toMatchObject({
    train_micro_batch_size_per_gpu: 4,
    optimizer: { params: { lr: 1e-3 } },
    scheduler: { params: { total_num_steps: 3 } },
  });
  expect(existsSync(join(here, "out.lock"))).toBe(false);

  const again = stdout.match(/^ {2}shunya (train .*) --data \.\.\.$/m)![1]!.split(" ");
  const more = await run([...again, "--data", "text.txt", "--steps", "3"], here);
  expect(more).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
});

test("without --output it is said that nothing is kept", async () => {
  const { stdout } = await run(["train", "--data", "text.txt", "--steps", "1"], here);
  expect(stdout).toMatch(/^Nothing is kept without --output DIR/m);
});
