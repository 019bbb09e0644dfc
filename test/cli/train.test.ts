// `shunya train` and `shunya generate` for real: ranks as processes, files on disk.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { memoryKinds, optimizerParts, phases, tiers } from "../../src/device/ledger.ts";
import { trafficKinds } from "../../src/device/traffic.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { isRunning, until } from "../launch/processes.ts";
import { run, start, temporaryFolder, tinyModel, tinyTokens, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tiny = ["train", "--data", tinyTokens, "--seq-length", "32", "--threads", "1", "--no-shuffle"];
const fromTiny = [...tiny, "--model", tinyModel];

function readLog(path: string): LoggedStep[] {
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as LoggedStep);
}

test("training writes a model that loads again and a log with every field", async () => {
  const [output, log] = [join(here, "trained"), join(here, "log.ndjson")];
  const flags = ["--ranks", "2", "--steps", "3", "--stage", "3", "--output", output, "--log-json", log];
  const { exitCode, stdout, stderr } = await run([...fromTiny, ...flags]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  expect(stdout).toMatch(/ZeRO stage 3/);
  expect(stdout).toMatch(/^step 1\/3 {2}loss 5\.\d+ {2}lr .* norm .* tokens\/s .* memory .* left /m);
  expect(stdout).toMatch(/Device memory of ranks 0-1, each, in bytes:/);
  expect(stdout).toMatch(/Traffic of ranks 0-1, each, in elements a step:/);
  expect(stdout).toMatch(/^loss\n/m);
  expect(stdout.endsWith(`The model after step 3 is in ${output}.\n`)).toBe(true);

  const steps = readLog(log);
  expect(steps.map((s) => s.step)).toEqual([1, 2, 3]);
  for (const step of steps) expectEveryField(step, 2);

  await using before = await openModelFolder(tinyModel);
  await using after = await openModelFolder(output);
  expect(after.config).toEqual(before.config);
  const first = (weights: typeof after.weights) => weights!.read("h.0.mlp.c_fc.weight", 0, 8);
  expect(await first(after.weights)).not.toEqual(await first(before.weights));
});

function expectEveryField(step: LoggedStep, ranks: number): void {
  const numbers = ["step", "loss", "targets", "gradNorm", "learningRate", "lossScale", "tokensPerSecond"];
  const fields = [...numbers, "skipped", "reason", "ranks"];
  expect(Object.keys(step).sort()).toEqual(fields.sort());
  expect(step).toMatchObject({ learningRate: 3e-4, lossScale: 1, skipped: false, reason: null });
  for (const number of [step.loss, step.targets, step.gradNorm, step.tokensPerSecond])
    expect(number).toBeGreaterThan(0);
  expect(step.ranks).toHaveLength(ranks);
  for (const { memory, traffic, operations } of step.ranks) {
    expect(Object.keys(memory).sort()).toEqual([...tiers, "peakByPhase"].sort());
    for (const tier of tiers) {
      expect(Object.keys(memory[tier]).sort()).toEqual([...memoryKinds].sort());
      const usages = [
        ...memoryKinds.map((k) => memory[tier][k]),
        ...optimizerParts.map((p) => memory[tier].optimizer[p]),
      ];
      for (const { current, peak } of usages) expect(peak).toBeGreaterThanOrEqual(current);
    }
    expect(memory.device.optimizer.firstMoment.current).toBeGreaterThan(0);
    expect(Object.keys(memory.peakByPhase).sort()).toEqual([...phases].sort());
    expect(Object.keys(traffic).sort()).toEqual([...trafficKinds].sort());
    for (const kind of trafficKinds)
      expect(Object.keys(traffic[kind]).sort()).toEqual(
        ["calls", "elementsSent", "bytesSent", "elementsReceived", "bytesReceived"].sort(),
      );
    expect(traffic.allGather.elementsSent).toBeGreaterThan(0);
    expect(traffic.reduceScatter.elementsSent).toBeGreaterThan(0);
    expect(operations).toBeGreaterThan(0);
  }
}

test("a model folder's weights are where training goes on; without them it begins anew", async () => {
  const [trained, again, anew] = ["once", "again", "anew"].map((name) => join(here, `${name}.ndjson`)) as [
    string,
    string,
    string,
  ];
  const once = join(here, "once");
  await run([
    ...fromTiny,
    "--steps",
    "10",
    "--set",
    "optimizer.params.lr=1e-3",
    "--output",
    once,
    "--log-json",
    trained,
  ]);
  await run([...tiny, "--model", once, "--steps", "1", "--log-json", again]);
  const shape = { "shape/config.json": readFileSync(join(tinyModel, "config.json"), "utf8") };
  await run([...tiny, "--model", join(writeFiles(here, shape), "shape"), "--steps", "1", "--log-json", anew]);
  const [before] = readLog(trained);
  expect(readLog(again)[0]!.loss).toBeLessThan(before!.loss - 0.5);
  expect(readLog(anew)[0]!.loss).toBeCloseTo(Math.log(256), 0);
});

test("a job over the budget is refused with the stage that fits, and leaves nothing", async () => {
  const output = join(here, "refused");
  const flags = ["--ranks", "4", "--steps", "1", "--stage", "0", "--device-memory", "3.5MB", "--output", output];
  const { exitCode, stdout, stderr } = await run([...fromTiny, ...flags]);
  expect(exitCode).toBe(exitCodes.memory);
  expect(stderr).toMatch(/^error: ZeRO stage 0 needs .* and the budget is 3\.50 MB\.\nNothing was allocated\./);
  expect(stderr).toMatch(/^optimizer +/m);
  expect(stderr).toMatch(/Stage [123] fits/);
  expect(stdout).toBe("");
  expect(existsSync(output)).toBe(false);
  const stage = /Stage (\d) fits/.exec(stderr)![1]!;
  const fitting = await run([...fromTiny, ...flags, "--stage", stage]);
  expect(fitting).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
});

test("without a budget the machine's memory is one", async () => {
  const everyByteOfManyMachines = ["--model", "gpt2-xl", "--ranks", "256"];
  const { exitCode, stderr } = await run([...tiny, ...everyByteOfManyMachines]);
  expect(exitCode).toBe(exitCodes.memory);
  expect(stderr).toMatch(/a rank's share of this machine's memory/);
});

/** A signal to the whole job, as a terminal sends it for Ctrl-C and a scheduler to end it. */
async function trainUntil(signal: "SIGINT" | "SIGTERM", output: string) {
  const { child, output: said, ended } = start([...fromTiny, "--ranks", "2", "--steps", "100000", "--output", output]);
  await until(() => /^step 10\//m.test(said.stdout) || child.exitCode !== null, 20_000);
  process.kill(-child.pid!, signal);
  const { exitCode, stdout, stderr } = await ended;
  expect(stderr).toBe("stopping after this step; once more ends the ranks at once\n");
  expect(exitCode).toBe(exitCodes.interrupted);
  await until(() => !groupIsRunning(child.pid!), 2000);
  expect(isRunning(child.pid)).toBe(false);
  return stdout;
}

// As a terminal sends the one, and schedulers and `timeout` the other: to every process.
test.each(["SIGINT", "SIGTERM"] as const)(
  "%s to all ends them after a step, with the model that they have",
  async (signal) => {
    const output = join(here, `stopped-${signal}`);
    expect(await trainUntil(signal, output)).toMatch(/The model after step \d+ is in /);
    const again = await run([...tiny, "--model", output, "--ranks", "2", "--steps", "1"]);
    expect(again.exitCode).toBe(exitCodes.ok);
  },
);

test("Ctrl-C without a place for the model says where it stopped and how to keep it", async () => {
  const { child, output: said, ended } = start([...fromTiny, "--steps", "100000"]);
  await until(() => /^step 10\//m.test(said.stdout) || child.exitCode !== null, 20_000);
  process.kill(child.pid!, "SIGINT");
  const { exitCode, stdout } = await ended;
  expect(exitCode).toBe(exitCodes.interrupted);
  expect(stdout).toMatch(/^Stopped after step \d+ of 100000\. Nothing was kept: --output DIR\s+keeps the model/m);
});

test("a reader that goes away ends the command and its ranks", async () => {
  const { child, output: said, ended } = start([...fromTiny, "--ranks", "2", "--steps", "100000"]);
  await until(() => /^step 10\//m.test(said.stdout) || child.exitCode !== null, 20_000);
  child.stdout!.destroy();
  expect(await ended).toMatchObject({ exitCode: exitCodes.interrupted, stderr: "" });
  await until(() => !groupIsRunning(child.pid!), 2000);
});

/** Whether any process is left in the group. */
function groupIsRunning(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch {
    return false;
  }
}

test("a loss that is not a number ends training with a code of its own", async () => {
  const flags = ["--steps", "20", "--set", "optimizer.params.lr=1e30", "--set", "gradient_clipping=0"];
  const { exitCode, stderr } = await run([...fromTiny, ...flags]);
  expect(stderr).toMatch(/^error: rank 0: step \d+: .*no parameter was changed/);
  expect(exitCode).toBe(exitCodes.numerical);
});

test("a later flag replaces an earlier one, and --stage the rest", async () => {
  const sets = [
    "--set",
    "zero_optimization.stage=1",
    "--set",
    "optimizer.params.lr=1",
    "--set",
    "optimizer.params.lr=2e-3",
  ];
  const { stdout } = await run([...fromTiny, "--steps", "1", ...sets, "--stage", "2"]);
  expect(stdout).toMatch(/ZeRO stage 2/);
  expect(stdout).toMatch(/learning rate 0\.002/);
});

test("the start says what the batch is made of and what every auto became, and each warning once", async () => {
  const config = join(writeFiles(here, { "auto.json": autoConfig }), "auto.json");
  const flags = ["--config", config, "--micro-batch", "2", "--ranks", "2", "--steps", "2"];
  const { exitCode, stdout, stderr } = await run([...fromTiny, ...flags]);
  expect(exitCode).toBe(exitCodes.ok);
  expect(stdout).toMatch(/^batch +2 windows x 3 accumulated x 2 ranks = 12 windows a step$/m);
  expect(stdout).toMatch(/^steps +2, with 156 an epoch: 0\.01 epochs$/m);
  expect(stdout).toMatch(/^ +weight decay 0, gradients clipped at 1$/m);
  expect(stdout).toMatch(/gradient_clipping is 1: .*max_grad_norm$/m);
  expect(stdout).toMatch(/scheduler\.params\.total_num_steps is 2: /);
  expect(stderr.match(/^warning: .*wandb/gm)).toHaveLength(1);
});

test("reports that the configuration asks for stand between and after the progress lines", async () => {
  const reporting = {
    train_micro_batch_size_per_gpu: 2,
    optimizer: { type: "AdamW" },
    steps_per_print: 2,
    dump_state: true,
    wall_clock_breakdown: true,
    memory_breakdown: true,
    comms_logger: { enabled: true },
    flops_profiler: { enabled: true, profile_step: 3 },
    csv_monitor: { enabled: true, output_path: join(here, "metrics"), job_name: "job" },
    tensorboard: { enabled: true, output_path: join(here, "metrics"), job_name: "board" },
  };
  const config = join(writeFiles(here, { "reporting.json": reporting }), "reporting.json");
  const log = join(here, "reporting.ndjson");
  const flags = ["--config", config, "--ranks", "2", "--steps", "4", "--log-json", log];
  const { exitCode, stdout, stderr } = await run([...fromTiny, ...flags]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const order = [
    /^State \(dump_state\):\n\{\n/m,
    /^step 2\/4 .*\nstep 2: forward /m,
    /^Memory of ranks 0-1, each, after step 2:$/m,
    /^Floating-point operations of step 3:$/m,
    /^step 4\/4 .*\nstep 4: forward /m,
    /^4 steps attempted, 4 applied, 0 skipped\.$/m,
    /^Time of 4 steps by phase:$/m,
    /^Communication of rank 0 in 4 steps:$/m,
  ].map((pattern) => stdout.search(pattern));
  expect(order).not.toContain(-1);
  expect(order).toEqual(order.toSorted((a, b) => a - b));
  const [first] = readLog(log);
  expect(Object.keys(first!.phaseSeconds!)).toEqual(["forward", "backward", "step"]);
  expect(readdirSync(join(here, "metrics", "job"))).toHaveLength(5);
  expect(readdirSync(join(here, "metrics", "board"))).toEqual([expect.stringMatching(/tfevents/)]);
});

const autoConfig = {
  train_batch_size: "auto",
  train_micro_batch_size_per_gpu: "auto",
  gradient_accumulation_steps: 3,
  gradient_clipping: "auto",
  optimizer: { type: "AdamW", params: { lr: "auto" } },
  scheduler: { type: "WarmupDecayLR", params: { total_num_steps: "auto", warmup_num_steps: 1 } },
  wandb: { enabled: true },
};

test("a log that cannot grow costs the log, not the training", { skip: !existsSync("/dev/full") }, async () => {
  const { exitCode, stdout, stderr } = await run([...fromTiny, "--steps", "2", "--log-json", "/dev/full"]);
  expect(stderr).toMatch(/^warning: the log \/dev\/full ends here, training goes on: .*\n$/);
  expect(stdout).toMatch(/step 2\/2/);
  expect(exitCode).toBe(exitCodes.ok);
});

test("generation depends on the seed and on nothing else", async () => {
  const write = async (...flags: string[]): Promise<string> => {
    const text = ["generate", "--model", tinyModel, "--prompt", "Once ", "--tokens", "24", ...flags];
    const { exitCode, stdout, stderr } = await run(text);
    expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
    expect(stdout.startsWith("Once ")).toBe(true);
    return stdout;
  };
  const [one, same, other] = [await write("--seed", "1"), await write("--seed", "1"), await write("--seed", "2")];
  expect(same).toBe(one);
  expect(other).not.toBe(one);
  const likeliest = await write("--temperature", "0");
  expect(await write("--temperature", "0", "--seed", "9")).toBe(likeliest);
  expect(await write("--top-k", "1")).toBe(likeliest);
});
