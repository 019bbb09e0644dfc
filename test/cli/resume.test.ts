// `shunya train --save-every` and `--resume` as a user runs them: ranks as processes, files on disk.
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { findTraining } from "../../src/checkpoint/find-training.ts";
import { stepFolderName } from "../../src/checkpoint/training-manifest.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { until } from "../launch/processes.ts";
import { run, start, temporaryFolder, tinyModel, tinyTokens, writeFiles } from "./command.ts";

const here = temporaryFolder();
const config = join(here, "config.json");
writeFiles(here, {
  "config.json": {
    train_micro_batch_size_per_gpu: 2,
    gradient_accumulation_steps: 2,
    bf16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 0.003, weight_decay: 0.1 } },
    scheduler: {
      type: "WarmupDecayLR",
      params: { warmup_min_lr: 0, warmup_max_lr: 0.003, warmup_num_steps: 3, total_num_steps: 20 },
    },
    zero_optimization: { stage: 3 },
  },
});
const flags = ["train", "--data", tinyTokens, "--seq-length", "32", "--threads", "1", "--ranks", "2"];
const tiny = [...flags, "--config", config, "--model", tinyModel];
const folderOf = (name: string): string => join(here, name);
const checkpointsIn = (name: string): string => join(here, name, "checkpoints");

function readLog(path: string): object[] {
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => {
    const { step, loss, gradNorm, learningRate, lossScale } = JSON.parse(line) as LoggedStep;
    return { step, loss, gradNorm, learningRate, lossScale };
  });
}

const modelOf = (name: string): Buffer => readFileSync(join(here, name, "model.safetensors"));

beforeAll(async () => {
  const args = [
    ...tiny,
    "--steps",
    "10",
    "--output",
    folderOf("straight"),
    "--log-json",
    join(here, "straight.ndjson"),
  ];
  expect((await run(args)).exitCode).toBe(exitCodes.ok);
});

test("4 steps and the other 6 later are the 10 steps of a run without a stop, to the byte", async () => {
  const output = ["--output", folderOf("half"), "--save-every", "3"];
  const first = await run([...tiny, ...output, "--steps", "4", "--log-json", join(here, "first.ndjson")]);
  expect(first).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(first.stdout).toMatch(/^The newest checkpoint, of step 4, is .*step-00000004 \(.*, saved in .* s\)\.$/m);
  expect(readdirSync(checkpointsIn("half")).sort()).toEqual(["step-00000003", "step-00000004"]);
  const resume = ["--resume", checkpointsIn("half"), "--steps", "10", "--log-json", join(here, "second.ndjson")];
  const second = await run([...tiny, ...output, ...resume]);
  expect(second).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(second.stdout).toMatch(/^Going on after step 4 of 10, from .*step-00000004\.$/m);
  expect(second.stdout).toMatch(/^ +step 5 +step 10$/m);
  const logs = [...readLog(join(here, "first.ndjson")), ...readLog(join(here, "second.ndjson"))];
  expect(logs).toEqual(readLog(join(here, "straight.ndjson")));
  expect(modelOf("half").equals(modelOf("straight"))).toBe(true);
  expect(readdirSync(checkpointsIn("half")).length).toBe(5);
});

for (const signal of ["SIGINT", "SIGTERM"] as const)
  test(`${signal} leaves a checkpoint of the last step, from which the run goes on`, async () => {
    const folder = `stopped-${signal}`;
    const log = join(here, `${folder}.ndjson`);
    const saving = ["--output", folderOf(folder), "--save-every", "100000", "--keep", "1"];
    const running = start([...tiny, ...saving, "--steps", "100000", "--log-json", log]);
    const lines = (): number => (existsSync(log) ? readFileSync(log, "utf8").split("\n").length - 1 : 0);
    await until(() => lines() >= 2, 20_000);
    running.child.kill(signal);
    const { exitCode } = await running.ended;
    expect(exitCode).toBe(exitCodes.interrupted);
    const names = readdirSync(checkpointsIn(folder));
    expect(names).toEqual([stepFolderName(lines())]);
    const steps = ["--steps", String(lines() + 2)];
    const again = [...tiny, ...steps, "--output", folderOf(`again-${signal}`), "--resume", checkpointsIn(folder)];
    expect(await run(again)).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    await run([...tiny, ...steps, "--output", folderOf(`without-${signal}`)]);
    expect(modelOf(`again-${signal}`).equals(modelOf(`without-${signal}`))).toBe(true);
  });

test("--keep: the newest stay, and the one that the run goes on from", async () => {
  const output = ["--output", folderOf("kept"), "--save-every", "1", "--keep", "2"];
  expect((await run([...tiny, ...output, "--steps", "4"])).exitCode).toBe(exitCodes.ok);
  expect(readdirSync(checkpointsIn("kept")).sort()).toEqual([3, 4].map(stepFolderName));
  const more = ["--resume", join(checkpointsIn("kept"), stepFolderName(4)), "--steps", "7"];
  expect(await run([...tiny, ...output, ...more])).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(readdirSync(checkpointsIn("kept")).sort()).toEqual([4, 6, 7].map(stepFolderName));
  const alone = await run([...tiny, "--keep", "2"]);
  expect(alone).toMatchObject({
    exitCode: exitCodes.user,
    stderr: expect.stringMatching(/--keep says how many checkpoints of --save-every K stay/),
  });
});

describe("with what is there", () => {
  beforeAll(async () => {
    const args = [...tiny, "--steps", "4", "--output", folderOf("run"), "--save-every", "2"];
    expect((await run(args)).exitCode).toBe(exitCodes.ok);
  });
  const resume = (...more: string[]) => run([...tiny, "--resume", checkpointsIn("run"), ...more]);

  test("a run that is done already is done again at once", async () => {
    const { exitCode, stdout, stderr } = await resume("--steps", "4", "--output", folderOf("done"));
    expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
    expect(stdout).toMatch(/Going on after step 4 of 4/);
    expect(modelOf("done").equals(modelOf("run"))).toBe(true);
  });

  test("other ranks and another stage go on; what changed is said", async () => {
    const args = [
      ...flags.slice(0, -1),
      "1",
      "--config",
      config,
      "--model",
      tinyModel,
      "--resume",
      checkpointsIn("run"),
    ];
    const lower = ["--lr", "0.001", "--set", "scheduler.params.warmup_max_lr=0.001"];
    const { exitCode, stderr, stdout } = await run([...args, "--stage", "1", ...lower, "--steps", "5"]);
    expect(exitCode).toBe(exitCodes.ok);
    expect(stderr).toMatch(/settings changed:\n {2}worldSize was 2, now 1\n {2}trainBatch was 8, now 4\n/);
    expect(stderr).toMatch(/optimizer\.learningRate was 0\.003, now 0\.001/);
    expect(stdout).toMatch(/^step 5\/5 /m);
  });

  test("without --model it is the model of the checkpoint", async () => {
    const args = [...flags, "--config", config, "--resume", checkpointsIn("run"), "--steps", "5"];
    expect(await run(args)).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  });

  test("nor is more needed than data where everything had been chosen", async () => {
    const text = join(here, "text.txt");
    writeFileSync(text, "All that is gold does not glitter, not all those who wander are lost. ".repeat(20));
    const chosen = ["train", "--data", text, "--threads", "1"];
    const saving = ["--steps", "2", "--output", folderOf("chosen"), "--save-every", "1"];
    expect((await run([...chosen, ...saving])).exitCode).toBe(exitCodes.ok);
    const again = await run([...chosen, "--resume", checkpointsIn("chosen"), "--steps", "3"]);
    expect(again.exitCode).toBe(exitCodes.ok);
    expect(again.stderr).not.toMatch(/settings changed/);
    expect(again.stdout).toMatch(/^step 3\/3 /m);
  });

  test("a damaged newest one is passed over loudly", async () => {
    const folder = join(here, "damaged", "checkpoints");
    const args = [...tiny, "--steps", "4", "--output", join(here, "damaged"), "--save-every", "2"];
    expect((await run(args)).exitCode).toBe(exitCodes.ok);
    appendFileSync(join(folder, "step-00000004", "rank-0001-of-0002.safetensors"), "x");
    const { exitCode, stderr, stdout } = await run([...args, "--resume", folder]);
    expect(exitCode).toBe(exitCodes.ok);
    expect(stderr).toMatch(
      /^warning: an older checkpoint is taken, since .*rank-0001-of-0002\.safetensors has \d+ bytes; wanted/,
    );
    expect(stdout).toMatch(/Going on after step 2 of 4/);
    expect(modelOf("damaged").equals(modelOf("run"))).toBe(true);
    // The damaged one was replaced.
    expect(await run([...args, "--resume", folder])).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  });

  const refusals: readonly [string, readonly string[], RegExp][] = [
    ["saving without a place", ["--save-every", "2"], /--save-every needs --output DIR/],
    ["saving nothing", ["--save-every", "0", "--output", folderOf("never")], /--save-every/],
    [
      "a new run among another's checkpoints",
      ["--save-every", "2", "--output", folderOf("run")],
      /holds checkpoints of a run, up to step 4: give --resume/,
    ],
    [
      "an older step among newer ones",
      ["--save-every", "2", "--output", folderOf("run"), "--resume", join(checkpointsIn("run"), "step-00000002")],
      /holds a checkpoint of step 4, later than step 2/,
    ],
    ["a folder that is not there", ["--resume", folderOf("nowhere")], /nowhere does not exist/],
    [
      "another model",
      ["--resume", checkpointsIn("run"), "--model", "gpt2"],
      /no checkpoint of this training:\n {2}tensor .*found shape/,
    ],
    ["an output that is a file", ["--save-every", "2", "--output", folderOf("file")], /checkpoints/],
  ];
  for (const [name, more, message] of refusals)
    test(`${name} is refused before anything is trained`, async () => {
      mkdirSync(folderOf("file"), { recursive: true });
      writeFileSync(join(folderOf("file"), "checkpoints"), "");
      const { exitCode, stdout, stderr } = await run([...tiny, "--steps", "4", ...more]);
      expect(exitCode).toBe(exitCodes.user);
      expect(stderr).toMatch(message);
      expect(stdout).not.toMatch(/^step /m);
    });
});

test("killed with its ranks again and again, a run goes on from what was published last", async () => {
  const folder = checkpointsIn("killed");
  const args = [...tiny, "--steps", "100000", "--output", folderOf("killed"), "--save-every", "1"];
  let published = 0;
  for (const delayMs of [3, 17, 41]) {
    const { child, ended, output } = start([...args, ...(published > 0 ? ["--resume", folder] : [])]);
    await until(() => existsSync(folder) && readdirSync(folder).includes(stepFolderName(published + 2)), 20_000);
    await sleep(delayMs);
    process.kill(-child.pid!, "SIGKILL");
    await ended;
    expect(output.stderr).toBe("");
    if (published > 0) expect(output.stdout).toContain(`Going on after step ${published} of`);
    await using newest = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
    expect(newest.manifest.step).toBeGreaterThanOrEqual(published + 2);
    published = newest.manifest.step;
  }
});

test("a disk that refuses a checkpoint beside training stops all ranks after one step, with the words of the save", async () => {
  const folder = checkpointsIn("refused");
  const args = [...tiny, "--steps", "100000", "--output", folderOf("refused"), "--save-every", "2"];
  const { ended, output } = start(args);
  await until(() => existsSync(folder) && readdirSync(folder).includes(stepFolderName(2)), 20_000);
  // Nothing can be made below a file.
  renameSync(folder, folderOf("refused-before"));
  writeFileSync(folder, "");
  const { exitCode } = await ended;
  expect(exitCode).toBe(exitCodes.user);
  expect(output.stderr).toMatch(/the checkpoint of step \d+ could not be saved, and those before it are as they were/);
  expect(existsSync(join(folderOf("refused"), "model.safetensors"))).toBe(false);
  await using newest = await findTraining(folderOf("refused-before"), { onDamaged: (text) => expect.fail(text) });
  expect(newest.manifest.step).toBeGreaterThanOrEqual(2);
});

test("a numerical failure leaves the model, and no checkpoint of its step", async () => {
  const args = [
    ...flags,
    "--model",
    tinyModel,
    "--lr",
    "1e30",
    "--steps",
    "50",
    "--output",
    folderOf("failed"),
    "--save-every",
    "1000",
  ];
  const { exitCode, stdout, stderr } = await run(args);
  expect({ exitCode, stderr }).toMatchObject({ exitCode: exitCodes.numerical });
  expect(stdout).toMatch(/^The model after step \d+ is in .*failed\.$/m);
  expect(existsSync(join(here, "failed", "model.safetensors"))).toBe(true);
  expect(existsSync(checkpointsIn("failed"))).toBe(false);
});
