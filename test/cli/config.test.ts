// shunya config as a user runs it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answerConfig } from "../../src/cli/config.ts";
import { renderConfigAnswer, renderConfigJson } from "../../src/cli/config-report.ts";
import { parseConfigText, readConfigText } from "../../src/config/json.ts";
import { run, temporaryFolder, tinyModel, writeFiles } from "./command.ts";

const folder = writeFiles(temporaryFolder(), {
  "good.json": [
    "{",
    '  "train_batch_size": 32, // over all ranks',
    '  "zero_optimization": { "stage": 3, "reduce_bucket_size": "auto" },',
    '  "bf16": { "enabled": true },',
    '  "optimizer": { "type": "AdamW", "params": { "lr": 1e-4, "betas": [0.9, 0.95] } },',
    '  "wandb": { "enabled": true },',
    "}",
  ].join("\n"),
  "bad.json": [
    "{",
    '  "zero_optimization": { "stage": 2, "reduce_bucket_size": "many" },',
    '  "bf16": { "enabled": None },',
    '  "optimizer": { "type": "AdamW", "params": { "lr": -1 } },',
    '  "gradient_clipping": 0.5,',
    '  "optimzer": {},',
    "}",
  ].join("\n"),
  "broken.json": '{ "train_batch_size": ',
  "empty.json": " \n",
});
const config = (...args: string[]) => run(["config", ...args], folder);
/** Without the breaks of long lines. */
const unbroken = (text: string): string => text.replace(/\n {4}/g, " ");

interface Document {
  readonly [name: string]: unknown;
  readonly sources: Readonly<Record<string, string>>;
  readonly problems: readonly {
    path: string;
    line: number | null;
    column: number | null;
    level: string;
    message: string;
  }[];
}

async function json(...args: string[]): Promise<{ exitCode: number | null; document: Document }> {
  const { exitCode, stdout, stderr } = await config(...args, "--json");
  expect(stderr).toBe("");
  return { exitCode, document: JSON.parse(stdout) as Document };
}

const names = [
  ...[
    "stage",
    "offloadOptimizer",
    "offloadParam",
    "offloadRatio",
    "swapFolders",
    "delayedUpdateFrom",
    "microBatch",
    "gradientAccumulation",
    "trainBatch",
    "precision",
  ],
  ...["lossScale", "reduceBucketSize", "allgatherBucketSize", "prefetchBucketSize", "paramPersistenceThreshold"],
  ...["maxLiveParameters", "maxReuseDistance", "subGroupSize", "gradientClipping", "gradientAccumulationType"],
  ...["communicationDataType", "optimizer", "parameterGroups", "freeze", "lora", "scheduler", "overlapComm"],
  "activationCheckpointing",
  ...["offload", "derived", "sources", "problems"],
];

describe("as data", () => {
  test("values, where they are from, and problems", async () => {
    const { exitCode, document } = await json("good.json", "--ranks", "4");
    expect(exitCode).toBe(0);
    expect(Object.keys(document)).toEqual(names);
    expect(document).toMatchObject({
      stage: 3,
      offloadOptimizer: "none",
      microBatch: 8,
      gradientAccumulation: 1,
      trainBatch: 32,
      precision: "bf16",
      lossScale: null,
      reduceBucketSize: null,
      gradientClipping: 1,
      optimizer: { type: "AdamW", learningRate: 1e-4, beta1: 0.9, beta2: 0.95 },
      scheduler: null,
    });
    expect(document.sources).toMatchObject({
      train_batch_size: "file",
      train_micro_batch_size_per_gpu: "derived",
      gradient_clipping: "default",
    });
    expect(document.problems).toEqual([
      { path: "wandb", line: 6, column: 3, level: "warning", message: expect.stringMatching(/has no effect here/) },
    ]);
  });

  test("flags, and sizes that follow from the model", async () => {
    const flags = ["--micro-batch", "2", "--lr", "3e-4", "--set", "zero_optimization.sub_group_size=1000"];
    const { document } = await json("good.json", "--ranks", "4", "--model", tinyModel, ...flags);
    expect(document).toMatchObject({
      microBatch: 2,
      gradientAccumulation: 4,
      optimizer: { learningRate: 3e-4 },
      subGroupSize: 1000,
    });
    expect(document.sources).toMatchObject({
      "optimizer.params.lr": "flag",
      "zero_optimization.sub_group_size": "flag",
      "zero_optimization.reduce_bucket_size": "model",
    });
    for (const name of names.filter((n) => /Size$|Threshold$|^max/.test(n)))
      expect(document[name]).toBeTypeOf("number");
  });

  test("what the model has to say: a buffer for parameters that is too small for it", async () => {
    const set = (path: string): string[] => ["--set", `zero_optimization.offload_param.${path}`];
    const flags = [...set("device=nvme"), ...set("nvme_path=/disk"), ...set("buffer_size=1000")];
    const { exitCode, document } = await json("good.json", "--model", tinyModel, ...flags);
    expect(exitCode).toBe(1);
    expect(document).toMatchObject({
      offloadParam: "nvme",
      offloadRatio: 1,
      swapFolders: "/disk",
      delayedUpdateFrom: null,
    });
    expect(document.problems.filter(({ level }) => level === "error")).toEqual([
      expect.objectContaining({
        path: "zero_optimization.offload_param.buffer_size",
        message: expect.stringMatching(/^found 1000; .*write at least \d+, or leave it out$/),
      }),
    ]);
  });

  test("how values come about that are left out, in words", async () => {
    const { document } = await json("good.json", "--ranks", "4");
    expect(document.derived).toMatchObject({
      microBatch: "train batch / accumulation / ranks",
      reduceBucketSize: '"auto": hidden size squared, once the model is known',
      allgatherBucketSize: "the largest unit of the model; give --model to see it",
      overlapComm: "true at stage 3, else false",
    });
    expect(document.derived).not.toHaveProperty("trainBatch");
    // Every size that is null has words.
    for (const name of names.filter((n) => document[n] === null && /Size$|Threshold$|^max/.test(n)))
      expect(document.derived).toHaveProperty(name);
    const known = await json("good.json", "--model", tinyModel, "--set", "zero_optimization.sub_group_size=9");
    expect(JSON.stringify(known.document.derived)).not.toContain("--model");
    expect(known.document.derived).not.toHaveProperty("subGroupSize");
  });

  test("offload in full", async () => {
    const set = (path: string): string[] => ["--set", path];
    const { document } = await json(
      "good.json",
      ...set("zero_optimization.offload_optimizer.device=nvme"),
      ...set("zero_optimization.offload_optimizer.nvme_path=/disk"),
      ...set('shunya.nvme_paths=["/other"]'),
      ...set("shunya.delayed_update=true"),
      ...set("aio.queue_depth=32"),
    );
    expect(document.offload).toMatchObject({
      optimizer: "nvme",
      parameters: "none",
      ratio: 1,
      pinMemory: { optimizer: true, parameters: false },
      disk: { folders: ["/disk", "/other"], blockBytes: 2 ** 20, queueDepth: 32, parallelism: 1, verify: true },
      delayedUpdateFrom: 1,
    });
    const bad = await json("good.json", ...set("aio.queue_depth=0"));
    expect(bad.document.offload).toBeNull();
  });

  test("a length that only the run knows", async () => {
    const flags = ["--set", "scheduler.type=WarmupDecayLR", "--set", "scheduler.params.total_num_steps=auto"];
    const { document } = await json("good.json", ...flags);
    expect(document.derived).toMatchObject({ "scheduler.totalSteps": "the run's length, known in training" });
    const { stdout } = await config("good.json", ...flags);
    expect(stdout).toMatch(/^ {2}totalSteps +the run's length, known in training/m);
    expect(stdout).not.toContain("Infinity");
  });

  test("a parameter group that this model has no parameter for, as train says it", async () => {
    const group = (...match: string[]): string[] => [
      "--set",
      `shunya.parameter_groups=${JSON.stringify([{ match, lr: 1 }])}`,
    ];
    const { exitCode, document } = await json("good.json", "--model", tinyModel, ...group("*.bais"));
    expect(exitCode).toBe(1);
    expect(document.parameterGroups).toBeNull();
    expect(document.problems.filter(({ level }) => level === "error")).toEqual([
      expect.objectContaining({
        path: "shunya.parameter_groups",
        message: expect.stringMatching(
          /^group 1: no parameter's name matches the pattern "\*\.bais"; did you mean "\*\.bias"\?/,
        ),
      }),
    ]);
    const beside = await json("bad.json", "--model", tinyModel, ...group("*.bais"));
    expect(beside.document.problems.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["optimizer.params.lr", "shunya.parameter_groups"]),
    );
    expect((await json("good.json", ...group("*.bais"))).exitCode).toBe(0);
    expect((await json("good.json", "--model", tinyModel, ...group("*.bias"))).exitCode).toBe(0);
  });

  test("a file with errors: what can be told, every problem, exit code 1", async () => {
    const { exitCode, document } = await json("bad.json", "--ranks", "4");
    expect(exitCode).toBe(1);
    expect(Object.keys(document)).toEqual(names);
    expect(document).toMatchObject({
      stage: 2,
      gradientClipping: 0.5,
      trainBatch: null,
      precision: null,
      communicationDataType: null,
      reduceBucketSize: null,
      optimizer: null,
    });
    expect(document.problems.map(({ line, column, path, level }) => [line, column, path, level])).toEqual([
      [2, 38, "zero_optimization.reduce_bucket_size", "error"],
      [3, 24, "bf16.enabled", "error"],
      [4, 47, "optimizer.params.lr", "error"],
      [6, 3, "optimzer", "error"],
      [null, null, "train_batch_size", "error"],
    ]);
  });

  test.each([
    ["broken.json", "(syntax)", 1],
    ["empty.json", "(file)", null],
    ["none.json", "(file)", null],
  ])("%s: a problem too, and the same names", async (file, path, line) => {
    const { exitCode, document } = await json(file);
    expect(exitCode).toBe(1);
    expect(Object.keys(document)).toEqual(names);
    expect(document.stage).toBeNull();
    expect(document.problems).toMatchObject([{ path, line, level: "error" }]);
  });
});

describe("for people", () => {
  test("a table with the place of each value, then the problems with their lines", async () => {
    const { exitCode, stdout, stderr } = await config("good.json", "--ranks", "4", "--lr", "3e-4");
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(/^good\.json on 4 ranks:$/m);
    expect(stdout).toMatch(/^stage +3 +line 3$/m);
    expect(stdout).toMatch(/^microBatch +8 +other keys$/m);
    expect(stdout).toMatch(/^ {2}learningRate +0\.0003 +flag$/m);
    expect(stdout).toMatch(/^ {2}beta2 +0\.95 +line 5$/m);
    expect(stdout).toMatch(/^gradientClipping +1 +default$/m);
    expect(unbroken(stdout)).toContain("good.json:6:3: warning: wandb: has no effect here: use csv_monitor");
    expect(stdout).toContain('  |   "wandb": { "enabled": true },\n  |   ^\n');
    expect(stdout).toMatch(/\n0 errors, 1 warning\.\n$/);
  });

  test("problems are as wide as the terminal, and say nothing to it", async () => {
    const text =
      '{ "train_batch_size": 4, "a\\u001b[31m\\u202eb": 1, "": 2, "zero_optimization": { "": 3, "stage": "x" } }';
    const question = { file: "ds\u001b.json", overrides: [], ranks: 1, model: undefined };
    const answer = await answerConfig(question, readConfigText(text, "ds.json"));
    expect(answer.problems.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["a\\u001b[31m\\u202eb", '""', 'zero_optimization.""']),
    );
    for (const columns of [80, 120]) {
      const shown = renderConfigAnswer(answer, columns);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
      expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
      const lines = shown.split("\n");
      expect(lines.filter((line) => line.length > columns)).toEqual([]);
      expect(lines.some((line) => line.length > columns - 20)).toBe(true);
      expect(unbroken(shown)).toContain("error: a\\u001b[31m\\u202eb: unknown key; remove it");
    }
    const slip = text.replace('"a\\u001b', '"a\\u001b[31m\\u202eb": 1, "a\\u001b');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(() => parseConfigText(slip, "ds\u001b.json")).toThrow(/^[^\u0000-\u0009\u000b-\u001f\u202e]*$/);
  });

  test("errors: exit code 1", async () => {
    const { exitCode, stdout } = await config("bad.json", "--ranks", "4");
    expect(exitCode).toBe(1);
    expect(unbroken(stdout)).toContain(
      "bad.json:3:24: error: bf16.enabled: found None; write null, or leave the key out",
    );
    expect(stdout).toMatch(/\n5 errors, 0 warnings\.\n$/);
  });

  test.each([
    [["config"], /missing required argument 'file'/],
    [["config", join(folder, "good.json"), "--ranks", "0"], /wanted a whole number of at least 1/],
    [["config", join(folder, "good.json"), "--set", "x"], /wanted path=value/],
    [["config", join(folder, "good.json"), "--model", "nowhere"], /nowhere/],
  ])("wrong use, %j: exit code 2", async (args, wanted) => {
    const { exitCode, stderr } = await run(args);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(wanted);
  });
});

test("any damage to a file is answered", async () => {
  const text = readFileSync(join(folder, "good.json"), "utf8");
  const piece = fc.constantFrom(
    "",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\n",
    "#",
    "null",
    "-1",
    '"auto"',
    "1e999",
    "__proto__: 1,",
    "x",
  );
  const cut = fc.tuple(fc.nat(text.length), fc.nat(12), piece);
  await fc.assert(
    fc.asyncProperty(fc.array(cut, { minLength: 1, maxLength: 4 }), async (cuts) => {
      const damaged = cuts.reduce((t, [at, length, put]) => t.slice(0, at) + put + t.slice(at + length), text);
      const question = { file: "ds.json", overrides: [], ranks: 4, model: undefined };
      const answer = await answerConfig(question, readConfigText(damaged, "ds.json"));
      expect(Object.keys(JSON.parse(renderConfigJson(answer)) as object)).toEqual(names);
      expect(renderConfigAnswer(answer)).toMatch(/\n$/);
      for (const { line, column } of answer.problems) {
        if (line !== undefined) expect(damaged.split("\n")[line - 1]!.length + 1).toBeGreaterThanOrEqual(column!);
      }
    }),
    { numRuns: 500 },
  );
});
