// `shunya checkpoint convert`, and a run that DeepSpeed began and Shunya goes on with.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { root, run, temporaryFolder, tooWide, writeFiles } from "./command.ts";

const oracle = join(root, "test/oracles/deepspeed");
const here = temporaryFolder();
const model = join(here, "model");
const checkpoints = join(here, "converted");
const sizes = { vocab_size: 11, n_positions: 5, n_embd: 5, n_layer: 2, n_head: 1 };
writeFiles(here, {
  "model/config.json": { model_type: "gpt2", ...sizes, embd_pdrop: 0, attn_pdrop: 0, resid_pdrop: 0 },
  "config.json": {
    train_micro_batch_size_per_gpu: 2,
    optimizer: { type: "AdamW", params: { lr: 1e-3, weight_decay: 0.01 } },
    scheduler: { type: "WarmupLR", params: { warmup_max_lr: 1e-3, warmup_num_steps: 10 } },
    zero_optimization: { stage: 3 },
    gradient_clipping: 1,
  },
});
const convert = (...args: string[]) => run(["checkpoint", "convert", ...args]);

beforeAll(async () => {
  const { exitCode, stdout, stderr } = await convert(
    ...["--from", join(oracle, "continued"), "--output", checkpoints, "--model", model],
  );
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  expect(stdout.replace(/\s+/g, " ")).toMatch(
    /^Step 3 of a run of DeepSpeed 0\.19\.8 at stage 2 on 2 ranks: 28 tensors of 820 elements, master, firstMoment, secondMoment\. It is in .*step-00000003 \(18\.\d KB\)\. $/,
  );
  expect(tooWide(stdout)).toEqual([]);
});

test.each([1, 2])("on %i ranks it goes on with DeepSpeed's losses", async (ranks) => {
  const log = join(here, `log-${ranks}.ndjson`);
  const data = ["--data", join(oracle, "continued", "tokens.bin"), "--no-shuffle", "--seq-length", "5"];
  const job = ["--config", join(here, "config.json"), "--micro-batch", String(4 / ranks), "--ranks", String(ranks)];
  const args = ["--steps", "7", "--threads", "1", "--resume", checkpoints, "--log-json", log];
  const { exitCode, stdout, stderr } = await run(["train", ...data, ...job, ...args]);
  expect({ exitCode, stderr }).toMatchObject({ exitCode: exitCodes.ok });
  expect(stdout).toMatch(/^Going on after step 3 of 7, from /m);
  const steps = readFileSync(log, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as LoggedStep);
  const wanted = JSON.parse(readFileSync(join(oracle, "continued", "losses.json"), "utf8")) as number[];
  expect(steps.map(({ step }) => step)).toEqual([4, 5, 6, 7]);
  for (const [i, { loss }] of steps.entries()) expect(Math.abs(loss - wanted[i]!)).toBeLessThan(2e-5);
  // WarmupLR over ten steps, which moves after an update: ln(k - 1) / ln 10 of 1e-3 at update k.
  for (const [i, { learningRate }] of steps.entries())
    expect(learningRate).toBeCloseTo((1e-3 * Math.log(3 + i)) / Math.log(10), 9);
});

test("what is inside, and exported, is the model", async () => {
  const { stdout } = await run(["checkpoint", "inspect", checkpoints]);
  expect(stdout).toMatch(/^settings +stage 2, fp32; AdamW, learning rate 0\.001000 with WarmupLR; batch 4/m);
  expect(stdout).toMatch(/^model +gpt2: 2 layers, width 5, 1 heads, 11 tokens, 5 positions$/m);
  const exported = await run(["checkpoint", "export", checkpoints, "--output", join(here, "exported")]);
  expect(exported).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
});

test("a Llama that DeepSpeed began goes on with DeepSpeed's losses, and is exported as transformers has it", async () => {
  const sizes = { hidden_size: 8, intermediate_size: 6, num_hidden_layers: 2, num_attention_heads: 4 };
  const more = { num_key_value_heads: 2, vocab_size: 11, max_position_embeddings: 5 };
  writeFiles(here, { "llama/config.json": { model_type: "llama", ...sizes, ...more } });
  const [from, converted] = [join(oracle, "llama"), join(here, "converted-llama")];
  const made = await convert("--from", from, "--output", converted, "--model", join(here, "llama"));
  expect(made).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  const log = join(here, "llama.ndjson");
  const data = ["--data", join(from, "tokens.bin"), "--no-shuffle", "--seq-length", "5", "--micro-batch", "2"];
  const job = ["--config", join(here, "config.json"), "--ranks", "2", "--threads", "1", "--resume", converted];
  const ended = await run(["train", ...data, ...job, "--steps", "6", "--log-json", log]);
  expect(ended).toMatchObject({ exitCode: exitCodes.ok });
  const losses = readFileSync(log, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as LoggedStep).loss);
  const wanted = JSON.parse(readFileSync(join(from, "losses.json"), "utf8")) as number[];
  expect(losses).toHaveLength(3);
  for (const [i, loss] of losses.entries()) expect(Math.abs(loss - wanted[i]!)).toBeLessThan(2e-5);
  const output = join(here, "exported-llama");
  const exported = await run(["checkpoint", "export", converted, "--output", output, "--dtype", "bf16"]);
  expect(exported).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  await using expected = await openSafetensors(join(from, "expected.safetensors"));
  await using written = await openSafetensors(join(output, "model.safetensors"));
  const masters = [...expected.tensors.keys()].filter((key) => key.endsWith("|master"));
  expect([...written.tensors.keys()].toSorted()).toEqual(masters.map((key) => key.replace("|master", "")).toSorted());
  expect(written.tensors.get("lm_head.weight")).toMatchObject({ dtype: "BF16", shape: [11, 8] });
});

test("another model, and a folder that is none of DeepSpeed's", async () => {
  const other = await convert("--from", join(oracle, "stage1"), "--output", join(here, "no"), "--model", "gpt2");
  expect(other.exitCode).toBe(exitCodes.user);
  expect(other.stderr).toMatch(
    /global_step3 is no checkpoint of this model:\n {2}tensor transformer\.wte\.weight: found \[11, 5\]/,
  );
  const none = await convert("--from", here, "--output", join(here, "no"));
  expect(none.stderr).toMatch(/has no \*_model_states\.pt; wanted a folder that DeepSpeed's save_checkpoint wrote/);
});
