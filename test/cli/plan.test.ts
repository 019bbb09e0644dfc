// `shunya plan` as a user runs it: the chapter's numbers, the engine's own, what does not fit, and what cannot be.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Gpt2, type LanguageBatch } from "../../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../../src/nn/models/gpt2-config.ts";
import { forecast } from "../../src/zero/forecast.ts";
import { configOf } from "../laws/jobs.ts";
import { type Ended, run, temporaryFolder, tooWide, writeFiles } from "./command.ts";

interface Row {
  readonly stage: number;
  readonly offloadOptimizer: string;
  readonly microBatch: number;
  readonly gradientAccumulation: number;
  readonly modelStatesBytes: number;
  readonly parametersBytes: number;
  readonly gradientsBytes: number;
  readonly optimizerBytes: number;
  readonly activationsBytes: number;
  readonly buffersBytes: number;
  readonly totalBytes: number;
  readonly headroomBytes: number;
  readonly fits: boolean;
  readonly commElements: number;
  readonly stepSeconds: number | null;
}

interface Planned {
  readonly allowedBytes: number;
  readonly stages: readonly Row[];
  readonly splits: readonly Row[];
  readonly recommendation: (Row & { readonly trainBatch: number; readonly why: string }) | null;
  readonly remedies: readonly { readonly change: string; readonly ranks: number; readonly stage: number }[];
}

const here = writeFiles(temporaryFolder(), {
  "xl.json": {
    train_batch_size: 32,
    fp16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 1e-4 } },
    zero_optimization: {
      stage: 2,
      offload_optimizer: { device: "cpu" },
      allgather_bucket_size: 5e8,
      reduce_bucket_size: 5e8,
    },
  },
  "not-json.json": '{\n  "train_batch_size": 4,\n  oops\n}',
  "stage-7.json": '{\n  "train_batch_size": 4,\n  "zero_optimization": { "stage": 7 }\n}',
  "mamba/config.json": { model_type: "mamba", hidden_size: 768 },
  "list.json": [],
});
const filesHere = readdirSync(here, { recursive: true }).length;

async function plan(args: readonly string[], exitCode = 0): Promise<Planned> {
  const ended = await run(["plan", ...args, "--json"], here);
  expect(ended.stderr).toBe("");
  expect(ended.exitCode).toBe(exitCode);
  const planned = JSON.parse(ended.stdout) as Planned;
  for (const row of [...planned.stages, ...planned.splits]) {
    const { parametersBytes, gradientsBytes, optimizerBytes, activationsBytes, buffersBytes } = row;
    const states = parametersBytes + gradientsBytes + optimizerBytes;
    expect(row.modelStatesBytes).toBe(states);
    expect(row.totalBytes).toBe(states + activationsBytes + buffersBytes);
    expect(Math.min(states, activationsBytes, buffersBytes)).toBeGreaterThanOrEqual(0);
    expect(row.headroomBytes).toBeCloseTo(planned.allowedBytes - row.totalBytes, 0);
  }
  return planned;
}

const statesOf = ({ stages }: Planned): number[] => stages.map(({ modelStatesBytes }) => modelStatesBytes / 1e9);

/** A device of which only the memory is known has no times, which take longest. */
const device = ["--device-memory", "22GB"];

describe("a number of parameters", () => {
  test("1.5e9 on 4 A10G: the chapter's bytes and elements", async () => {
    const planned = await plan(["--params", "1.5e9", "--ranks", "4", "--device", "A10G"]);
    expect(statesOf(planned)).toEqual([24, 10.5, 8.25, 6]);
    expect(planned.stages.map(({ commElements }) => commElements)).toEqual([2.25e9, 2.25e9, 2.25e9, 3.375e9]);
    expect(planned.stages.map(({ fits }) => fits)).toEqual([false, true, true, true]);
    expect(planned.stages.every(({ stepSeconds }) => stepSeconds !== null && stepSeconds > 0)).toBe(true);
    const { stage, offloadOptimizer, microBatch, fits, why } = planned.recommendation!;
    expect([stage, offloadOptimizer, fits]).toEqual([1, "none", true]);
    expect(microBatch).toBeGreaterThan(1);
    expect(why).toMatch(/stage 0, the last that was tried before it, takes 26\.\d GB/);
  });

  test.each([
    ["1.5e9 on 8", ["--params", "1.5e9", "--ranks", "8"], [24, 8.25, 5.625, 3]],
    ["1.5e9 on 400", ["--params", "1.5e9", "--ranks", "400", "--ranks-per-node", "8"], [24, 6.045, 3.0525, 0.06]],
    ["Lion on 4", ["--params", "1.5e9", "--ranks", "4", "--optimizer", "Lion"], [18, 9, 6.75, 4.5]],
    ["one rank", ["--params", "1.5e9"], [24, 24, 24, 24]],
  ])("%s", async (_, args, gigabytes) => {
    expect(statesOf(await plan([...args, ...device]))).toEqual(gigabytes);
  });

  test("3e9 on 8 at stage 2", async () => {
    expect(statesOf(await plan(["--params", "3e9", "--ranks", "8", ...device]))[2]).toBe(11.25);
  });

  test("however it is written", async () => {
    const ways = ["1.5B", "1.5e9", "1,500,000,000"];
    const planned: Planned[] = [];
    for (const way of ways) planned.push(await plan(["--params", way, "--ranks", "2", ...device]));
    expect(statesOf(planned[0]!)).toEqual([24, 15, 13.5, 12]);
    expect(planned[1]).toEqual(planned[0]);
    expect(planned[2]).toEqual(planned[0]);
  });
});

test("a model's rows are what the engine itself foretells", async () => {
  const { stages } = await plan(["--model", "gpt2", "--ranks", "2", "--device", "A10G"]);
  expect(stages.map(({ stage }) => stage)).toEqual([0, 1, 2, 3]);
  const field = { data: new Int32Array(1024), shape: [1, 1024] };
  for (const row of stages) {
    const settings = {
      train_micro_batch_size_per_gpu: 1,
      bf16: { enabled: true },
      optimizer: { type: "AdamW" },
      gradient_clipping: 1,
      zero_optimization: { stage: row.stage },
    };
    const { highest, report } = await forecast<LanguageBatch>({
      model: new Gpt2(gpt2Configs.gpt2),
      config: configOf(settings, 2),
      threads: 1,
      batch: { inputs: field, targets: field },
    });
    const { parameters, gradients, optimizer } = report.memory.device;
    const { reduceScatter, allGather } = report.traffic;
    expect(row).toMatchObject({
      totalBytes: highest.device.bytes,
      activationsBytes: highest.device.byKind.activations,
      parametersBytes: parameters.current,
      gradientsBytes: gradients.current,
      optimizerBytes: optimizer.current,
      commElements: reduceScatter.elementsSent + allGather.elementsSent,
    });
  }
});

describe("GPT-2 XL on 4 A10G with the chapter's file", () => {
  test("a micro-batch of 8 does not fit, 1 with accumulation 8 does", async () => {
    const planned = await plan(["--model", "gpt2-xl", "--ranks", "4", "--device", "A10G", "--config", "xl.json"]);
    const of = (microBatch: number): Row => planned.splits.find((row) => row.microBatch === microBatch)!;
    expect(
      planned.splits.map((row) => [row.stage, row.offloadOptimizer, row.microBatch, row.gradientAccumulation]),
    ).toEqual([
      [2, "cpu", 8, 1],
      [2, "cpu", 4, 2],
      [2, "cpu", 2, 4],
      [2, "cpu", 1, 8],
    ]);
    expect([of(8).fits, of(1).fits]).toEqual([false, true]);
    expect(of(8).activationsBytes / 1e9).toBeGreaterThan(19);
    expect(of(8).activationsBytes / 1e9).toBeLessThan(22);
    // Eight small micro-batches take longer than a large one, and no more than twice as long.
    expect(of(1).stepSeconds! / of(8).stepSeconds!).toBeGreaterThan(1);
    expect(of(1).stepSeconds! / of(8).stepSeconds!).toBeLessThan(2);
    expect(planned.recommendation).toMatchObject({ offloadOptimizer: "none", trainBatch: 32, fits: true });
  });
});

describe("where nothing fits", () => {
  test("the exit code is 1, and with a device of 100 MB nothing would help", async () => {
    const planned = await plan(["--model", "gpt2", "--device-memory", "100MB"], 1);
    expect(planned.allowedBytes).toBe(0);
    expect(planned.stages.map(({ fits }) => fits)).toEqual([false, false, false, false]);
    expect(planned.recommendation).toBeNull();
    expect(planned.remedies).toEqual([]);
  });

  test("what would is said, and is true", async () => {
    const job = ["--params", "1.2e8", "--device-memory", "3.4GB", "--host-memory", "100MB", "--disk", "100MB"];
    const { exitCode, stdout, stderr } = await run(["plan", ...job], here);
    expect([exitCode, stderr]).toEqual([1, ""]);
    expect(stdout).toMatch(/Nothing fits, with any stage or offload; the least on a device is/);
    const remedy = /- (\d+) ranks \(--ranks \1\): stage (\d)/.exec(stdout)!;
    expect(tooWide(stdout)).toEqual([]);
    const planned = await plan([...job, "--ranks", remedy[1]!]);
    expect(planned.recommendation!.stage).toBe(Number(remedy[2]));
    await plan([...job, "--ranks", String(Number(remedy[1]) / 2)], 1);
  });
});

describe("the configuration that is written", () => {
  test("is the recommendation", async () => {
    const { stages, recommendation } = await plan([
      "--params",
      "1e8",
      "--ranks",
      "2",
      "--batch",
      "48",
      ...device,
      "--write-config",
      "written.json",
    ]);
    const written = JSON.parse(readFileSync(join(here, "written.json"), "utf8"));
    const { microBatch, gradientAccumulation, stage } = recommendation!;
    expect(microBatch * gradientAccumulation).toBe(24);
    expect(written).toMatchObject({
      train_batch_size: 48,
      train_micro_batch_size_per_gpu: microBatch,
      gradient_accumulation_steps: gradientAccumulation,
      bf16: { enabled: true },
      zero_optimization: { stage },
    });
    expect(stages[0]!.gradientAccumulation).toBe(24);
    // And is read by the command that trains.
    const { exitCode, stdout } = await run(["config", "written.json", "--ranks", "2"], here);
    expect(exitCode, stdout).toBe(0);
  });

  test("replaces its own pictures, and everything else only with --overwrite", async () => {
    const folder = join(here, "written");
    mkdirSync(folder);
    const plan = (...flags: string[]): Promise<Ended> => run(["plan", "--params", "1e8", ...device, ...flags], folder);
    const pictures = ["--svg", "own.svg", "--html", "own.html"];
    for (const _time of ["first", "second"]) expect((await plan(...pictures)).exitCode).toBe(0);
    for (const [flag, name] of Object.entries({
      "--svg": "own.svg",
      "--html": "own.html",
      "--write-config": "a.json",
    })) {
      writeFileSync(join(folder, name), "{}");
      const refused = await plan(flag, name);
      expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
      expect(refused.stderr).toMatch(new RegExp(`${flag} ${name} is there already .*--overwrite`));
      expect(readFileSync(join(folder, name), "utf8")).toBe("{}");
    }
    expect((await plan(...pictures, "--write-config", "a.json", "--overwrite")).exitCode).toBe(0);
    expect(readFileSync(join(folder, "a.json"), "utf8")).toMatch(/zero_optimization/);
    rmSync(folder, { recursive: true });
  });

  test("to a folder that is not there, or where nothing fits, is an error after the answer", async () => {
    const noFolder = await run(["plan", "--params", "1e8", ...device, "--write-config", "nowhere/x.json"], here);
    expect(noFolder.exitCode).toBe(2);
    expect(noFolder.stderr).toMatch(/^error: --write-config nowhere\/x\.json cannot be written: .*no such file/);
    expect(noFolder.stdout).toMatch(/Recommended: stage 0/);
    const none = await run(["plan", "--params", "1e8", "--device-memory", "1GB", "--write-config", "none.json"], here);
    expect(none.exitCode).toBe(2);
    expect(none.stderr).toMatch(/--write-config none\.json: nothing fits, so there is nothing to write/);
    expect(existsSync(join(here, "none.json"))).toBe(false);
  });
});

test.each([
  [
    "a trillion parameters",
    ["--params", "1e12", "--ranks", "1024"],
    /^ {2}elements +2\.00 T +3\.00 T +3\.00 T +3\.00 T$/m,
  ],
  [
    "two memories that are too small",
    ["--params", "70e9", "--config", "on-host.json"],
    /^ {2}short of +device +device, host/m,
  ],
])("the table of %s fits a terminal", async (_, flags, line) => {
  writeFiles(here, { "on-host.json": { zero_optimization: { stage: 2, offload_optimizer: { device: "cpu" } } } });
  const { stdout } = await run(["plan", ...flags, "--engine", "deepspeed", "--device", "A10G"], here);
  expect(stdout).toMatch(line);
  expect(tooWide(stdout)).toEqual([]);
  rmSync(join(here, "on-host.json"));
});

test("days are of the shape that is timed, and how far that is from the number is said", async () => {
  const { stdout } = await run([
    "plan",
    "--params",
    "7e9",
    "--ranks",
    "8",
    "--device",
    "A100-80GB",
    "--tokens",
    "30e9",
  ]);
  // 32 layers, 4096 wide: 12 x 32 x 4096^2 in blocks' products, 52,305 x 4096 in embeddings, and vectors: 6.658e9.
  expect(stdout.replaceAll("\n", " ")).toMatch(/the shape that is timed has 5 % fewer parameters than were given\./);
});

test("a micro-batch that was asked for and does not fit is divided, not dropped", async () => {
  const job = ["--model", "gpt2-xl", "--ranks", "4", "--device", "A10G", "--seq-length", "1024", "--micro-batch", "8"];
  const { stdout } = await run(["plan", ...job, "--engine", "deepspeed", "--json"]);
  const { stages, recommendation } = JSON.parse(stdout) as Planned;
  expect(stages.map(({ microBatch, fits }) => [microBatch, fits])).toEqual(stages.map(() => [8, false]));
  expect(recommendation).toMatchObject({ trainBatch: 32 });
  expect(recommendation!.microBatch).toBeLessThan(8);
});

// --- bad input ---

const params = (...args: string[]): string[] => ["--params", "1e8", "--device", "A10G", ...args];

const cases: readonly (readonly [what: string, args: readonly string[], message: RegExp])[] = [
  ["no parameters", ["--params", "0"], /'--params <n>' argument '0'.*number above 0/],
  ["fewer than none", ["--params", "-1"], /--params.*"-1"; wanted a number such as 1\.5B/],
  ["a number in words", ["--params", "abc"], /--params.*"abc"/],
  ["a unit that is none", ["--params", "1.5X"], /--params.*"1\.5X"/],
  ["half a parameter", ["--params", "1.5"], /--params.*"1\.5".*whole number/],
  ["more parameters than numbers", ["--params", "1e30"], /--params.*at most 9,007,199,254,740,991/],
  ["two models", params("--model", "gpt2"), /--params and --model both say/],
  [
    "a model that is not there",
    ["--model", "gpt3"],
    /--model gpt3: no such model or file; wanted a published name .gpt2, .*--params/,
  ],
  [
    "an unknown architecture",
    ["--model", "mamba"],
    /model_type "mamba"; wanted one of gpt2.*no num_hidden_layers.*--params/,
  ],
  ["a list as model", ["--model", "list.json"], /list\.json is not a JSON object/],
  ["a card that nobody makes", params("--device", "A10X"), /device "A10X" is not known; the nearest names are A10G/],
  ["a card of two sizes", params("--device", "A100"), /A100-40GB.*A100-80GB/],
  ["nodes without ranks", params("--ranks-per-node", "0"), /--ranks-per-node.*"0".*at least 1/],
  ["nodes of a hundred", params("--ranks", "200", "--ranks-per-node", "100"), /ranks per node: found 100.*1 to 16/],
  ["a node half full", params("--ranks", "6", "--ranks-per-node", "4"), /--ranks 6 does not fill nodes of 4/],
  ["no ranks", params("--ranks", "0"), /--ranks.*"0"/],
  [
    "a batch that does not divide",
    params("--ranks", "4", "--batch", "6"),
    /--batch 6: .*over 4 ranks; wanted a multiple of 4/,
  ],
  [
    "a window above the positions",
    ["--model", "gpt2", "--seq-length", "1025"],
    /--seq-length 1025 .*1024 positions of gpt2/,
  ],
  ["a window beyond all memory", params("--seq-length", "3000000000"), /1 x 3000000000 tokens: wanted at most/],
  ["a micro-batch beyond all memory", params("--micro-batch", "100000000"), /100000000 x 1024 tokens: wanted at most/],
  ["a memory that is none", params("--device-memory", "lots"), /--device-memory.*"lots"/],
  ["a link that is none", params("--host-link", "string"), /string/],
  ["a configuration that is not there", params("--config", "nowhere.json"), /nowhere\.json.*\n.*no such file/],
  ["a configuration that is not JSON", params("--config", "not-json.json"), /not-json\.json.*\n.*line [34]/],
  [
    "a configuration with an error",
    params("--config", "stage-7.json"),
    /\n.*line 3: zero_optimization\.stage: found 7; wanted/,
  ],
  [
    "an optimizer beside a file",
    params("--config", "xl.json", "--optimizer", "Lion"),
    /--optimizer and --config: xl\.json says/,
  ],
  ["an unknown optimizer", params("--optimizer", "Adan"), /--optimizer.*Adan/],
  ["a calibration that is none", ["--params", "1e8", "--machine", "list.json"], /list\.json is not a calibration/],
  [
    "a calibration that is not there",
    ["--params", "1e8", "--machine", "nowhere.json"],
    /nowhere\.json: no such file.*doctor --calibrate/,
  ],
  [
    "two machines",
    ["--params", "1e8", "--machine", "list.json", "--device", "A10G"],
    /--machine and --device A10G: list\.json is a machine of its own/,
  ],
  ["a part of cards, of this machine", ["--params", "1e8", "--drive", "5GB/s"], /--drive is a part of a node of cards/],
  ["nodes of this machine", ["--params", "1e8", "--ranks-per-node", "2"], /--ranks-per-node is of nodes of cards/],
  ["a value of no file", params("--set", "zero_optimization.stage=3"), /--set changes a value of a file.*--config/],
  ["two things in one file", params("--svg", "x.out", "--html", "x.out"), /name one file twice/],
  ["a picture of many plans", params("--fewest-ranks", "--svg", "x.svg"), /inverse question without them/],
  ["a price of no run", params("--price", "1.2"), /--tokens/],
  ["two questions at once", params("--fewest-ranks", "--largest-batch"), /one question each/],
];

test.each(cases)("%s", async (_what, args, message) => {
  const { exitCode, stdout, stderr }: Ended = await run(["plan", ...args], here);
  expect(stderr).toMatch(message);
  expect(stderr.match(/^error: /gm)).toHaveLength(1);
  expect(stderr).not.toMatch(/\n {4}at |internal/);
  expect(stdout).toBe("");
  expect(exitCode).toBe(2);
  expect(readdirSync(here, { recursive: true }).length).toBeLessThanOrEqual(filesHere + 1);
});
