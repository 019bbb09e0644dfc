// How training ends when it does not end well: one code for each cause, and what is left is said.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { until } from "../launch/processes.ts";
import { root, run, start, temporaryFolder, tinyModel, tinyTokens, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tiny = ["train", "--model", tinyModel, "--data", tinyTokens, "--seq-length", "32", "--threads", "1"];
const diverges = ["--lr", "1e30", "--set", "gradient_clipping=0"];

test("numerical: the first tensor or loss that is not finite is named, and the last whole model is kept", async () => {
  const output = join(here, "diverged");
  const { exitCode, stdout, stderr } = await run([...tiny, "--steps", "20", ...diverges, "--output", output]);
  expect(exitCode).toBe(exitCodes.numerical);
  expect(stderr).toMatch(/^error: rank 0: step 2: .*(NaN|Infinity|inf).*no parameter was changed/);
  expect(stdout).toMatch(new RegExp(`^The model after step \\d is in ${output}\\.$`, "m"));
  await using model = await openModelFolder(output);
  const values = await model.weights!.read("h.0.mlp.c_fc.weight", 0, 1000);
  expect(values.every(Number.isFinite)).toBe(true);
});

test("skips of bf16 are all shown and logged, without a word of loss scale, and the end says so", async () => {
  const log = join(here, "skips.ndjson");
  const flags = ["--steps", "8", ...diverges, "--set", "bf16.enabled=true", "--log-json", log];
  const { exitCode, stdout, stderr } = await run([...tiny, ...flags]);
  expect(exitCode).toBe(exitCodes.ok);
  expect(stdout.match(/^step \d skipped: .*(NaN|Infinity|inf)/gm)).toHaveLength(7);
  expect(stdout + stderr).not.toMatch(/scale/);
  expect(stdout).toMatch(/^8 steps attempted, 1 applied, 7 skipped \(2, 3, 4, 5, 6, 7, 8\)\.$/m);
  expect(stderr).toMatch(/^warning: the last 7 steps were all skipped/);
  const steps = readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(steps.map((s) => s.skipped)).toEqual([false, ...new Array(7).fill(true)]);
  expect(steps[1]).toMatchObject({ gradNorm: null, reason: expect.stringMatching(/NaN|Infinity|inf/) });
});

test("fp16: skips show the scale that was too large", async () => {
  const flags = ["--steps", "3", "--set", "fp16.enabled=true", "--set", "fp16.initial_scale_power=32"];
  const { stdout } = await run([...tiny, ...flags]);
  expect(stdout).toMatch(/^step 1 skipped: .* \(loss scale 2\^32\)$/m);
});

/** A script that imports Shunya from this checkout and trains a tiny model; `body` stands before each step. */
const script = (config: object, body: string): string => `
  import { initialize, Gpt2 } from ${JSON.stringify(join(root, "src/index.ts"))};
  const model = new Gpt2({ vocabularySize: 64, positions: 16, hidden: 16, layers: 1, heads: 2, layerNormEpsilon: 1e-5,
    initializerRange: 0.02, embeddingDropout: 0, attentionDropout: 0, residualDropout: 0, tied: true });
  await using engine = await initialize({ model, config: ${JSON.stringify(config)} });
  const tokens = { data: new Int32Array(32), shape: [2, 16] };
  for (let step = 0; step < 4; step++) {
    ${body}
    await engine.backward(await engine.forward({ inputs: tokens, targets: tokens }));
    await engine.step();
  }`;
const micro2 = { train_micro_batch_size_per_gpu: 2, optimizer: { type: "AdamW" } };
const killed = 'if (step === 2 && process.env.RANK === "1") process.kill(process.pid, "SIGKILL");';
const reporting = {
  ...micro2,
  steps_per_print: 2,
  wall_clock_breakdown: true,
  comms_logger: { enabled: true },
  csv_monitor: { enabled: true, output_path: join(here, "metrics"), job_name: "job" },
};
writeFiles(here, {
  "lost.mts": script(micro2, killed),
  "reports.mts": script(reporting, ""),
  "mismatch.mts": script({ ...micro2, train_batch_size: 8, gradient_accumulation_steps: 1 }, ""),
  "offload.mts": script({ ...micro2, zero_optimization: { stage: 2, offload_optimizer: { device: "nvme" } } }, ""),
  "throws.mts": 'throw new Error("my own mistake");',
  "commonjs/package.json": { type: "commonjs" },
  "commonjs/awaits.ts": "await Promise.resolve();",
});
const launch = (ranks: number, name: string) => run(["launch", "--ranks", String(ranks), join(here, name)]);

test("lost rank: a rank that is killed", async () => {
  const { exitCode, stderr } = await launch(2, "lost.mts");
  expect(stderr).toMatch(/^error: rank 1: was ended by SIGKILL/m);
  expect(exitCode).toBe(exitCodes.lostRank);
});

test("a script of one's own reports as its configuration asks, from rank 0", async () => {
  const { exitCode, stderr } = await launch(2, "reports.mts");
  expect(exitCode).toBe(exitCodes.ok);
  expect(stderr.match(/^step \d {2}loss/gm)).toEqual(["step 2  loss", "step 4  loss"]);
  expect(stderr).toMatch(/^step 4: forward [\d.]+ ms, backward /m);
  expect(stderr).toMatch(/^Communication of rank 0 in 4 steps:$/m);
  const losses = readFileSync(join(here, "metrics/job/Train_Samples_train_loss.csv"), "utf8").trim().split("\n");
  expect(losses.map((line) => line.split(",")[0])).toEqual(["step", "4", "8", "12", "16"]);
});

test("user: a batch for another number of ranks, where that number comes from, and a disk without a folder", async () => {
  const mismatch = await launch(2, "mismatch.mts");
  expect(mismatch).toMatchObject({ exitCode: exitCodes.user, stderr: expect.stringMatching(/8 != 2 \* 1 \* 2/) });
  expect(mismatch.stderr).toMatch(/from shunya launch --ranks/);
  expect(await launch(4, "mismatch.mts")).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  const offload = await launch(1, "offload.mts");
  expect(offload).toMatchObject({
    exitCode: exitCodes.user,
    stderr: expect.stringMatching(/^error: .*offload_optimizer\.nvme_path is left out/m),
  });
});

test("user: a TypeScript script that its package makes CommonJS is told what to change", async () => {
  const { exitCode, stderr } = await launch(1, "commonjs/awaits.ts");
  expect(stderr).toMatch(/^error: rank 0: .*awaits\.ts awaits at its top level.*"type": "module".*\.mts\n$/);
  expect(exitCode).toBe(exitCodes.user);
});

test("internal: what a script of the user throws, with its stack", async () => {
  const { exitCode, stderr } = await launch(2, "throws.mts");
  expect(stderr).toMatch(/my own mistake(?:.*\n)*.*throws\.mts:1/);
  expect(exitCode).toBe(exitCodes.internal);
});

test.each([
  ["SIGTERM", exitCodes.interrupted, /^stopping after this step; once more ends the ranks at once\n$/],
  ["SIGKILL", exitCodes.lostRank, /rank \d: was ended by SIGKILL/],
] as const)("a rank that alone gets %s from outside ends the run with code %i", async (signal, code, words) => {
  const output = join(here, `alone-${signal}`);
  const { child, output: said, ended } = start([...tiny, "--ranks", "2", "--steps", "100000", "--output", output]);
  await until(() => /^step 10\//m.test(said.stdout) || child.exitCode !== null, 20_000);
  const ranks = execFileSync("pgrep", ["-P", String(child.pid)], { encoding: "utf8" })
    .trim()
    .split("\n");
  expect(ranks).toHaveLength(2);
  process.kill(Number(ranks[1]), signal);
  const { exitCode, stderr } = await ended;
  expect(stderr).toMatch(words);
  expect(exitCode).toBe(code);
  expect(existsSync(join(output, "model.safetensors"))).toBe(signal === "SIGTERM");
});

test("two runs into one folder: the second is refused, and a lock whose run is gone is not", async () => {
  const output = join(here, "shared");
  const { child, output: said, ended } = start([...tiny, "--steps", "100000", "--output", output]);
  await until(() => /^step 10\//m.test(said.stdout) || child.exitCode !== null, 20_000);
  const second = await run([...tiny, "--steps", "1", "--output", output]);
  expect(second.exitCode).toBe(exitCodes.user);
  expect(second.stderr).toMatch(new RegExp(`^error: --output .*shared is being written by process ${child.pid} `));
  child.kill("SIGKILL");
  await ended;
  expect(existsSync(`${output}.lock`)).toBe(true);
  const third = await run([...tiny, "--steps", "1", "--output", output]);
  expect(third).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(existsSync(`${output}.lock`)).toBe(false);
});

test("a lock of another machine counts, a damaged one does not", async () => {
  const output = join(here, "elsewhere");
  writeFileSync(`${output}.lock`, JSON.stringify({ pid: 1, host: `not-${hostname()}` }));
  const held = await run([...tiny, "--steps", "1", "--output", output]);
  expect(held.stderr).toMatch(/written by process 1 on not-.*\(or delete .*elsewhere\.lock/);
  writeFileSync(`${output}.lock`, "");
  expect((await run([...tiny, "--steps", "1", "--output", output])).exitCode).toBe(exitCodes.ok);
});

test("a log goes on where a run is resumed, and begins anew otherwise", async () => {
  const [output, log] = [join(here, "resumed"), join(here, "resumed.ndjson")];
  const flags = ["--output", output, "--save-every", "2", "--log-json", log];
  const steps = (): number[] =>
    readFileSync(log, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).step);
  writeFileSync(log, '{ "step": 99 }\n');
  await run([...tiny, "--steps", "2", ...flags]);
  expect(steps()).toEqual([1, 2]);
  const more = await run([...tiny, "--steps", "4", ...flags, "--resume", join(output, "checkpoints")]);
  expect(more.exitCode).toBe(exitCodes.ok);
  expect(steps()).toEqual([1, 2, 3, 4]);
});
