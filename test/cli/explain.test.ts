// shunya explain as a user runs it, and over fifty configurations.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { explainConfig } from "../../src/cli/explain.ts";
import type { ExplainQuestion } from "../../src/cli/explain-subject.ts";
import { plannedMachine } from "../../src/cli/planned-machine.ts";
import { readConfigText } from "../../src/config/json.ts";
import { renderExplanation } from "../../src/report/explain.ts";
import { cases } from "../config/cases.ts";
import { run, temporaryFolder, tooWide, writeFiles } from "./command.ts";

/** Stage 2, the optimizer on the CPU, buckets of 5e8, fp16, AdamW, a batch of 32. */
const chapter = {
  train_batch_size: 32,
  fp16: { enabled: true },
  optimizer: { type: "AdamW", params: { lr: 1e-4 } },
  zero_optimization: {
    stage: 2,
    offload_optimizer: { device: "cpu" },
    allgather_bucket_size: 5e8,
    reduce_bucket_size: 5e8,
  },
};
const folder = writeFiles(temporaryFolder(), {
  "chapter.json": JSON.stringify(chapter, undefined, 2),
  "bad.json": { train_batch_size: 30 },
});
const flat = (text: string): string => text.replace(/\s+/g, " ");

async function page(settings: object, asked: Partial<ExplainQuestion> = {}): Promise<string> {
  const question = { ...nothingKnown, ...asked };
  const text = JSON.stringify(settings, undefined, 2);
  const { answer, explanation } = await explainConfig(question, readConfigText(text, question.file));
  expect(answer.problems.filter(({ level }) => level === "error")).toEqual([]);
  return renderExplanation(explanation!, 80);
}

const nothingKnown: ExplainQuestion = {
  ...{ file: "ds.json", overrides: [], ranks: 4, model: undefined },
  ...{ parameters: undefined, seqLength: undefined, machine: undefined },
};
interface Document {
  readonly parameters: number;
  readonly states: readonly Readonly<Record<string, unknown>>[];
  readonly buckets: readonly Readonly<Record<string, unknown>>[];
  readonly traffic: readonly Readonly<Record<string, unknown>>[];
  readonly values: readonly Readonly<Record<string, unknown>>[];
}

const withZero = (zero: object, more: object = {}) => ({
  ...{ train_micro_batch_size_per_gpu: 1, bf16: { enabled: true }, optimizer: chapter.optimizer },
  ...more,
  zero_optimization: zero,
});

test.each([
  ["LoRA", { lora: { rank: 8 } }, "with LoRA that depends on the script that adds the adapters"],
  ["frozen parameters", { freeze: "*.h.*" }, "with frozen parameters that depends on the script that freezes them"],
])("beside %s there is no estimate of DeepSpeed that does not know them", async (_, shunya, words) => {
  const asked = { model: "gpt2", seqLength: 1024, machine: plannedMachine({ device: "A10G" }) };
  expect(flat(await page(withZero({ stage: 2 }), asked))).toMatch(/DeepSpeed on PyTorch takes about/);
  const text = flat(await page(withZero({ stage: 2 }, { shunya }), asked));
  expect(text).toContain(`What DeepSpeed takes is not estimated here: ${words}.`);
  expect(text).not.toContain("DeepSpeed on PyTorch takes");
});

test("a job that a device has no room for is said first, with the smallest change that fits", async () => {
  const machine = plannedMachine({ device: "A10G" });
  const text = flat(await page(chapter, { model: "gpt2-xl", machine }));
  expect(text).toMatch(
    /What to change ─+ - zero_optimization: this job does not fit: .* takes 29\.9 GB of a device, where 18\.8 GB/,
  );
  expect(text).toMatch(
    /stage 2 with optimizer states on the host, micro-batch 4, accumulation 2 takes 17\.1 GB and fits/,
  );
  const small = flat(await page(chapter, { model: "gpt2", machine }));
  expect(small).not.toMatch(/this job does not fit/);
});

describe("the chapter's file", () => {
  test("with 1.5e9 parameters on 4 ranks", async () => {
    const { exitCode, stdout, stderr } = await run(
      ["explain", "chapter.json", "--ranks", "4", "--params", "1.5e9"],
      folder,
    );
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(tooWide(stdout)).toEqual([]);
    const text = flat(stdout);
    expect(text).toMatch(/overlap_comm is left out: it is off by default at stage 2/);
    expect(text).toMatch(/allgather_bucket_size \(line 17\): .*It acts after the step/s);
    expect(text).toMatch(/500,000,000 elements of 2 bytes are 1\.00 GB/);
    expect(text).toMatch(/The 1,500,000,000 gradients make three buckets\./);
    expect(stdout).toMatch(/^parameters +device +whole +fp16 +2 psi +3\.00 GB$/m);
    expect(stdout).toMatch(/^gradients +host +1\/N +fp16 +2 psi \/ N +750 MB$/m);
    expect(stdout).toMatch(/^optimizer states +host +1\/N +fp32 +12 psi \/ N +4\.50 GB$/m);
    expect(text).toMatch(/3\.00 GB down and 3\.00 GB up in a step, 6\.00 GB in all/);
    expect(text).toMatch(/4 psi together/);
    expect(text).toMatch(/32 samples a step \(line 2\) = 8 in a micro-batch \(derived\) x 1 accumulated/);
  });

  test("GPT-2 XL has more than 1.5e9 parameters, so four", async () => {
    const text = flat(await page(chapter, { model: "gpt2-xl" }));
    expect(text).toMatch(/1,557,611,200 gradients make three full buckets and a last one with 57,611,200/);
    expect(text).toMatch(/By division: .* 6 reductions a pass, by a forecast/);
    expect(text).toMatch(/Nothing that Shunya knows of/);
  });

  test("without a model, in terms of psi, and how to have numbers", async () => {
    const text = await page(chapter);
    expect(text).toMatch(/Give --model NAME\s+or --params 1\.5e9 to have numbers/);
    expect(text).toMatch(/^optimizer states +host +1\/N +fp32 +12 psi \/ N$/m);
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
  });

  test("as JSON", async () => {
    const { exitCode, stdout } = await run(
      ["explain", "chapter.json", "--ranks", "4", "--params", "1.5B", "--json"],
      folder,
    );
    expect(exitCode).toBe(0);
    const { parameters, states, buckets, traffic, values } = JSON.parse(stdout) as Document;
    expect(parameters).toBe(1.5e9);
    expect(states.map((line) => [line.kind, line.tier, line.formulaBytes])).toEqual([
      ["parameters", "device", 3e9],
      ["gradients", "host", 0.75e9],
      ["optimizer states", "host", 4.5e9],
    ]);
    expect(buckets[0]).toMatchObject({ key: "reduce_bucket_size", elements: 5e8, bytes: 1e9, deepSpeedBytes: 1e9 });
    expect(traffic.map((line) => [line.link, line.times])).toEqual([
      ["between ranks", 1],
      ["between ranks", 1],
      ["device to host", 1],
      ["host to device", 1],
    ]);
    expect(values).toContainEqual({
      path: "zero_optimization.reduce_bucket_size",
      value: "500,000,000",
      from: "line 18",
    });
  });
});

test("a file with an error is shown as shunya config shows it", async () => {
  const explained = await run(["explain", "bad.json", "--ranks", "4"], folder);
  const configured = await run(["config", "bad.json", "--ranks", "4"], folder);
  expect(explained.exitCode).toBe(2);
  expect(explained.stdout).toBe(configured.stdout);
});

describe("differences from DeepSpeed", () => {
  test("a bucket larger than the model is capped here and obeyed there", async () => {
    const text = flat(await page(withZero({ stage: 2, reduce_bucket_size: 2e8 }), { model: "gpt2" }));
    expect(text).toMatch(/Shunya caps it there \(249 MB\), DeepSpeed does not/);
    expect(text).toMatch(/DeepSpeed allocates 400 MB for it/);
    expect(text).toMatch(
      /reduce_bucket_size: 200,000,000 elements, and the whole model has 124,439,808: .*nothing overlaps/,
    );
  });

  test("overlap_comm doubles the bucket", async () => {
    const text = flat(
      await page(withZero({ stage: 2, reduce_bucket_size: 5e8, overlap_comm: true }), { parameters: 3e9 }),
    );
    expect(text).toMatch(/overlap_comm is true \(line \d+\)/);
    expect(text).toMatch(/DeepSpeed allocates 1\.00 GB .*, and twice that with overlap_comm/);
  });

  test("sizes that are left out", async () => {
    const text = flat(await page(withZero({ stage: 3 }), { model: "gpt2" }));
    expect(text).toMatch(
      /stage3_prefetch_bucket_size: .*Shunya takes one unit: .*DeepSpeed takes its default: 50,000,000/,
    );
    expect(text).toMatch(
      /DeepSpeed's default is 1,000,000,000\. So up to 124,439,808 elements \(249 MB, the whole model\)/,
    );
    expect(text).toMatch(/overlap_comm is left out: DeepSpeed's default at stage 3 is true/);
  });

  test("a reuse distance saves gathers, as the engine itself counts", async () => {
    const text = flat(
      await page(withZero({ stage: 3, stage3_max_reuse_distance: 1e9, stage3_max_live_parameters: 1e9 }), {
        model: "gpt2",
      }),
    );
    expect(text).toMatch(
      /The reuse distance saves gathers: a forecast .* counts 93,\d+,\d+ elements in the 186,\d+,\d+/,
    );
  });

  test("contiguous_gradients false has no bucket in DeepSpeed", async () => {
    const text = flat(await page(withZero({ stage: 2, reduce_bucket_size: 5e7, contiguous_gradients: false })));
    expect(text).toMatch(/With contiguous_gradients false DeepSpeed has no such buffer/);
    expect(text).not.toMatch(/DeepSpeed allocates/);
  });
});

describe("what to change", () => {
  test("a ratio with one sub-group, by DeepSpeed's default", async () => {
    const zero = { stage: 3, offload_optimizer: { device: "cpu", ratio: 0.4 } };
    const text = flat(await page(withZero(zero), { parameters: 1.5e9 }));
    expect(text).toMatch(
      /ratio: 0\.4 of the sub-groups, and DeepSpeed's default sub_group_size of 1,000,000,000 .*cannot be divided/,
    );
    const divided = flat(await page(withZero({ ...zero, sub_group_size: 3e7 }), { parameters: 1.5e9 }));
    expect(divided).not.toMatch(/cannot be divided/);
  });

  test("gradients added in bf16", async () => {
    const settings = withZero({ stage: 1 }, { gradient_accumulation_steps: 2 });
    expect(flat(await page(settings))).toMatch(/gradients of 2 micro-batches are added in bf16/);
    const wide = { ...settings, data_types: { grad_accum_dtype: "fp32" } };
    expect(flat(await page(wide))).not.toMatch(/are added in bf16/);
  });

  test("offload without need, and only where a device is given", async () => {
    const settings = withZero({ stage: 2, offload_optimizer: { device: "cpu" } });
    const asked = { model: "gpt2", seqLength: 128 };
    expect(flat(await page(settings, asked))).not.toMatch(/not needed/);
    expect(flat(await page(settings, { ...asked, machine: plannedMachine({ deviceMemory: 24e9 }) }))).toMatch(
      /this offload is not needed: stage 0 without offload takes \d\.\d+ GB .* 20\.4 GB of the 24\.0 GB/,
    );
    expect(flat(await page(settings, { ...asked, machine: plannedMachine({ deviceMemory: 2.6e9 }) }))).not.toMatch(
      /not needed/,
    );
  });

  test("stage 3 where less fits", async () => {
    const asked = { model: "gpt2", seqLength: 128, machine: plannedMachine({ deviceMemory: 24e9 }) };
    expect(flat(await page(withZero({ stage: 3 }), asked))).toMatch(/stage 3 is not needed: stage 0 without offload/);
    expect(flat(await page(withZero({ stage: 2 }), asked))).not.toMatch(/not needed/);
  });
});

describe("fifty configurations", () => {
  test.each(cases.map(({ id, text, micro }) => [id, text, micro] as const))("%s", async (_id, text, micro) => {
    for (const model of ["gpt2", undefined]) {
      const overrides = micro === undefined ? [] : ([["train_micro_batch_size_per_gpu", micro]] as const);
      const question = { ...nothingKnown, model, overrides, seqLength: 64 };
      const { answer, explanation } = await explainConfig(question, readConfigText(text, question.file));
      const hasError = answer.problems.some(({ level }) => level === "error");
      expect(explanation === undefined).toBe(hasError);
      if (explanation === undefined) continue;
      const shown = renderExplanation(explanation, 80);
      expect(tooWide(shown)).toEqual([]);
      expect(shown).not.toMatch(/NaN|undefined|Infinity|\bnull\b/);
      expect(shown).not.toMatch(/─\n\n/);
      for (const problem of answer.problems) expect(flat(shown)).toContain(problem.message.slice(0, 40));
      expect(() => JSON.stringify(explanation)).not.toThrow();
    }
  });
});

test.each([
  [["explain"], /needs a configuration file, or --oom FILE/],
  [["explain", "x.json", "--model", "gpt2", "--params", "1e9"], /give one of them/],
  [["explain", "x.json", "--params", "many"], /found "many"; wanted a number/],
  [["explain", "x.json", "--params", "0"], /above 0/],
  [["explain", "chapter.json", "--ranks", "4", "--model", "gpt2", "--seq-length", "9999"], /1024 positions/],
  [["explain", "--oom", "nowhere.log"], /nowhere\.log cannot be read: no such file/],
])("wrong use, %j", async (args, message) => {
  const { exitCode, stderr } = await run(args, folder);
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(message);
});

test("the page shows what is printed", async () => {
  const path = new URL("../../docs/explain.md", import.meta.url);
  const text = readFileSync(path, "utf8");
  const file = /```json\n([\s\S]*?)```/.exec(text)![1]!;
  const question = { ...nothingKnown, parameters: 1.5e9 };
  const { explanation } = await explainConfig(question, readConfigText(file, "ds.json"));
  const shown = text.replace(/(?<=```text\n)[\s\S]*?(?=```)/, () => renderExplanation(explanation!, 80));
  await expect(shown).toMatchFileSnapshot("../../docs/explain.md");
});
