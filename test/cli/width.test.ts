// What is read in a terminal fits one: tables, rows and sentences are at most 80 columns wide.
import { join } from "node:path";
import { expect, test } from "vitest";
import { describeRates } from "../../src/cli/rates.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { wrap } from "../../src/report/wrap.ts";
import { run, temporaryFolder, tinyModel, tinyTokens, tooWide, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tiny = ["train", "--data", tinyTokens, "--seq-length", "32", "--threads", "1"];

const everything = {
  train_micro_batch_size_per_gpu: 1,
  optimizer: { type: "AdamW", params: { lr: 1e-3, weight_decay: 0.1 } },
  scheduler: { type: "WarmupDecayLR", params: { warmup_max_lr: 1e-3, warmup_num_steps: 2, total_num_steps: 8 } },
  gradient_clipping: 1,
  zero_optimization: {
    stage: 3,
    offload_optimizer: { device: "nvme", nvme_path: here, pin_memory: true },
    offload_param: { device: "cpu" },
  },
  steps_per_print: 2,
  wall_clock_breakdown: true,
  memory_breakdown: true,
  comms_logger: { enabled: true, verbose: true },
  flops_profiler: { enabled: true, profile_step: 2 },
  shunya: { parameter_groups: [{ match: ["*.bias", "*ln_*"], weight_decay: 0 }] },
};

test("everything that a run reports fits, and counts of one are singular", async () => {
  const config = join(writeFiles(here, { "ds.json": everything }), "ds.json");
  const flags = ["--config", config, "--ranks", "2", "--steps", "3"];
  const { exitCode, stdout } = await run([...tiny, "--model", tinyModel, ...flags]);
  expect(exitCode).toBe(exitCodes.ok);
  expect(tooWide(stdout)).toEqual([]);
  expect(stdout).not.toMatch(/(?<![.,])\b1 (windows|ranks|calls|elements|steps|tokens|threads|parameters|samples)\b/);
  const flat = stdout.replace(/\n {11}/g, " ");
  expect(flat).toMatch(/AdamW, learning rate 0 to 0\.001 \(WarmupDecayLR, 0\.001 at the end\)/);
  expect(flat).toMatch(/^groups +\*\.bias, \*ln_\*: [\d,]+ parameters in \d+ tensors, .* weight decay 0 others: /m);
  expect(parametersOfGroups(flat)).toBe(Number(/: ([\d,]+) parameters in fp32/.exec(flat)![1]!.replaceAll(",", "")));
});

/** The groups have every parameter once. */
function parametersOfGroups(text: string): number {
  const counts = [...text.matchAll(/([\d,]+) parameters in \d+ tensors/g)].map(([, count]) => count!);
  return counts.reduce((sum, count) => sum + Number(count.replaceAll(",", "")), 0);
}

test("the rates of a run are those of its own steps", () => {
  const optimizer = { learningRate: 1e-3 } as Parameters<typeof describeRates>[0]["optimizer"];
  expect(describeRates({ optimizer, schedule: undefined }, 10)).toBe("0.001 (constant)");
  const schedule = {
    ...{ type: "WarmupDecayLR", minLearningRate: 0, maxLearningRate: 0.01, totalSteps: 100 },
    ...{ warmupSteps: 10, warmupType: "linear" },
  } as NonNullable<Parameters<typeof describeRates>[0]["schedule"]>;
  expect(describeRates({ optimizer, schedule }, 5)).toBe("0 to 0.003 (WarmupDecayLR, 0.003 at the end)");
  expect(describeRates({ optimizer, schedule }, 101)).toMatch(/^0 to 0\.01 \(WarmupDecayLR, /);
});

test("wrapping keeps every word, hangs what follows, and leaves short texts alone", () => {
  const text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
  const wrapped = wrap(text, { indent: 11 });
  expect(
    wrapped
      .split("\n")
      .map((line, i) => line.length + (i === 0 ? 11 : 0))
      .every((n) => n <= 80),
  ).toBe(true);
  expect(wrapped).toMatch(/\n {11}\S/);
  expect(wrapped.replace(/\s+/g, " ")).toBe(text);
  expect(wrap("  short  text")).toBe("  short  text");
});
