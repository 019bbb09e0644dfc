// Checkpoints that DeepSpeed wrote (test/oracles/make_deepspeed.py), against what DeepSpeed says that its states are.
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { convertTraining } from "../../src/checkpoint/convert-training.ts";
import { readDeepSpeed } from "../../src/checkpoint/deepspeed-read.ts";
import { findTraining } from "../../src/checkpoint/find-training.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { CheckpointError, ModelError } from "../../src/errors/errors.ts";
import type { StateKind } from "../../src/zero/state.ts";
import { temporaryFolder } from "./files.ts";

const oracle = fileURLToPath(new URL("../oracles/deepspeed/", import.meta.url));
const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));

let folders = 0;
const newFolder = (): string => join(here, `d${folders++}`);

async function convert(from: string): Promise<string> {
  const folder = newFolder();
  await using source = await readDeepSpeed(from);
  await convertTraining(source, { folder, rename: (name) => name, config: undefined, run: {}, seed: 42 });
  return folder;
}

describe("every state of every tensor is DeepSpeed's, to the bit", () => {
  test.each([
    // Partitions of 228 and 48 elements on three ranks, padded from 680 and 140.
    ["stage1", "stage1", "bf16", 28],
    ["stage2", "stage2", "f32", 27],
    // Two parameter groups; tensors of 5, 15, 25, 55 and 75 elements on two ranks.
    ["stage3", "stage3", "bf16", 28],
    ["stage3-sub-groups", "stage3-sub-groups", "f32", 27],
    ["universal", "stage1", "bf16", 28],
    // Two blocks of nine tensors, the embedding, the last norm and the head.
    ["llama", "llama", "f32", 21],
  ] as const)("%s", async (name, expectedIn, dtype, trainable) => {
    const folder = await convert(join(oracle, name));
    await using found = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
    const { manifest, states } = found;
    expect(manifest).toMatchObject({
      step: 3,
      progress: { attempted: 3, updates: 3, consecutiveSkips: 0, lossScale: { scale: 1 } },
      kinds: ["master", "firstMoment", "secondMoment"],
    });
    await using expected = await openSafetensors(join(oracle, expectedIn, "expected.safetensors"));
    const all = name === "llama" ? 21 : 28;
    expect(Object.keys(manifest.tensors)).toHaveLength(all);
    expect(Object.values(manifest.tensors).filter((tensor) => tensor.trainable)).toHaveLength(trainable);
    for (const [key, { shape, elements }] of expected.tensors) {
      const [tensor, kind] = key.split("|") as [string, StateKind];
      expect(manifest.tensors[tensor]).toMatchObject({ shape, dtype });
      const wanted = await expected.readFloat32(key, 0, elements);
      const values = new Float32Array(elements);
      await states.read(tensor, kind, 0, values);
      expect([key, values]).toEqual([key, wanted]);
    }
    // Trainable tensors with three states, a frozen one with its weights.
    expect(expected.tensors.size).toBe(3 * trainable + (all - trainable));
  });

  test("a folder of one step is as good as the one with `latest`", async () => {
    const folder = await convert(join(oracle, "stage2", "global_step3"));
    expect(readdirSync(folder)).toEqual(["step-00000003"]);
  });
});

describe("what does not belong together, or is of another kind", () => {
  /** A copy of a checkpoint's step that a test may break. */
  function copy(name: string): string {
    const folder = newFolder();
    cpSync(join(oracle, name, "global_step3"), folder, { recursive: true });
    return folder;
  }
  async function refusal(folder: string): Promise<string> {
    const error = await convert(folder).catch((e) => e);
    expect(error instanceof CheckpointError || error instanceof ModelError, String(error.stack)).toBe(true);
    return error.message;
  }
  const optimizer = (rank: number): string => `zero_pp_rank_${rank}_mp_rank_00_optim_states.pt`;

  test("a rank's file is missing: in between, at the end", async () => {
    const middle = copy("stage3-sub-groups");
    rmSync(join(middle, optimizer(1)));
    expect(await refusal(middle)).toMatch(/zero_pp_rank_2.* is there, but the file of rank 1 is missing/);
    const last = copy("stage2");
    rmSync(join(last, optimizer(1)));
    expect(await refusal(last)).toMatch(/has 1 \*_optim_states\.pt of 2 ranks: files of the others are missing/);
    const model = copy("stage3");
    rmSync(join(model, "zero_pp_rank_1_mp_rank_00_model_states.pt"));
    expect(await refusal(model)).toMatch(
      /has 1 \*_model_states\.pt and 2 \*_optim_states\.pt; at stage 3 every rank writes both/,
    );
  });

  test("a file of another run", async () => {
    const folder = copy("stage2");
    cpSync(join(oracle, "stage3-sub-groups", "global_step3", optimizer(1)), join(folder, optimizer(1)));
    expect(await refusal(folder)).toMatch(/single_partition_of_fp32_groups: found nothing; wanted a list/);
    const model = copy("stage2");
    cpSync(
      join(oracle, "stage1", "global_step3", "mp_rank_00_model_states.pt"),
      join(model, "mp_rank_00_model_states.pt"),
    );
    expect(await refusal(model)).toMatch(/param_shapes: found 2 groups; wanted 1/);
  });

  test("a truncated file, by name", async () => {
    const folder = copy("stage1");
    const path = join(folder, `bf16_${optimizer(2)}`);
    writeFileSync(path, readFileSync(path).subarray(0, 5000));
    expect(await refusal(folder)).toMatch(
      /bf16_zero_pp_rank_2_mp_rank_00_optim_states\.pt cannot be read as a zip archive/,
    );
  });

  test("tensor and pipeline parallelism, stage 0, no checkpoint, nothing", async () => {
    const tensors = copy("stage2");
    renameSync(join(tensors, optimizer(1)), join(tensors, "zero_pp_rank_0_mp_rank_01_optim_states.pt"));
    expect(await refusal(tensors)).toMatch(/mp_rank_01_optim_states\.pt: tensors are divided between ranks/);
    const layers = copy("stage2");
    writeFileSync(join(layers, "layer_00-model_states.pt"), "");
    expect(await refusal(layers)).toMatch(/has layer_00-model_states\.pt: it is of pipeline stages/);
    const plain = copy("stage2");
    for (const rank of [0, 1]) rmSync(join(plain, optimizer(rank)));
    expect(await refusal(plain)).toMatch(/has no \*_optim_states\.pt: at stage 0, or saved without/);
    expect(await refusal(here)).toMatch(
      /has no \*_model_states\.pt; wanted a folder that DeepSpeed's save_checkpoint wrote/,
    );
    expect(await refusal(join(here, "nowhere"))).toMatch(/nowhere: no such file or folder/);
  });

  test("`latest` names a folder beside it alone", async () => {
    const folder = newFolder();
    cpSync(join(oracle, "stage2"), folder, { recursive: true });
    writeFileSync(join(folder, "latest"), "../../elsewhere");
    expect(await refusal(folder)).toMatch(
      /latest: found "\.\.\/\.\.\/elsewhere"; wanted the name of a folder beside it/,
    );
  });

  test("a class that is not known is named, and nothing is left behind", async () => {
    const folder = copy("stage2");
    const path = join(folder, optimizer(0));
    cpSync(fileURLToPath(new URL("../oracles/torch/evil.bin", import.meta.url)), path);
    expect(await refusal(folder)).toMatch(/found posix\.system; a pickle may run anything under such a name/);
    expect(existsSync("shunya-was-here")).toBe(false);
  });

  test("a universal checkpoint without a state of one tensor", async () => {
    const folder = newFolder();
    cpSync(join(oracle, "universal"), folder, { recursive: true });
    rmSync(join(folder, "global_step3_universal", "zero", "transformer.wpe.weight", "exp_avg.pt"));
    expect(await refusal(folder)).toMatch(
      /transformer\.wpe\.weight has master, secondMoment; wanted master, firstMoment, secondMoment/,
    );
  });

  test("where a checkpoint is already", async () => {
    const folder = await convert(join(oracle, "stage1"));
    await using source = await readDeepSpeed(join(oracle, "stage2"));
    const options = { folder, rename: (name: string) => name, config: undefined, run: {}, seed: 42 };
    await expect(convertTraining(source, options)).rejects.toThrow(
      /holds a checkpoint of step 3 already; give another --output/,
    );
  });
});
