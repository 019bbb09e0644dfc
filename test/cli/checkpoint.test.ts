// `shunya checkpoint` as a user runs it, on checkpoints that training wrote.
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { openTraining } from "../../src/checkpoint/open-training.ts";
import { savedModel } from "../../src/checkpoint/saved-model.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { elementsOf } from "../../src/tensor/tensor.ts";
import { run, temporaryFolder, tinyModel, tinyTokens, tooWide } from "./command.ts";

const here = temporaryFolder();
const output = join(here, "run");
const checkpoints = join(output, "checkpoints");
const newest = join(checkpoints, "step-00000003");
const rankFile = "rank-0001-of-0002.safetensors";
const checkpoint = (...args: string[]) => run(["checkpoint", ...args]);

beforeAll(async () => {
  const flags = ["--seq-length", "16", "--threads", "1", "--ranks", "2", "--steps", "3", "--save-every", "2"];
  const settings = ["--stage", "2", "--set", "bf16.enabled=true", "--micro-batch", "2"];
  const args = ["train", "--model", tinyModel, "--data", tinyTokens, ...flags, ...settings, "--output", output];
  expect((await run(args)).exitCode).toBe(exitCodes.ok);
}, 30_000);

let copies = 0;
function copy(): string {
  const folder = join(here, `copy-${copies++}`);
  cpSync(checkpoints, folder, { recursive: true });
  return folder;
}

describe("inspect", () => {
  test("says what the newest is of and what it holds, on the width of a terminal", async () => {
    const { exitCode, stdout, stderr } = await checkpoint("inspect", checkpoints);
    expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
    expect(stdout).toMatch(/^folder +.*step-00000003$/m);
    expect(stdout).toMatch(/^step +3, the newest of 2 there; the next sample is number 12, seed 42$/m);
    expect(stdout).toMatch(/^model +gpt2: 3 layers, width 64, 4 heads, 256 tokens, 128 positions$/m);
    expect(stdout).toMatch(/^settings +stage 2, bf16; AdamW, learning rate /m);
    expect(stdout).toMatch(/^written by Shunya 0\.1\.0 on 2 ranks$/m);
    // 256*64 + 128*64 + 3 * (12*64*64 + 13*64) + 2*64
    for (const kind of ["master", "firstMoment", "secondMoment"])
      expect(stdout).toMatch(new RegExp(`^${kind} +40 +174,656 +699 KB$`, "m"));
    expect(stdout).toMatch(/^transformer\.h\.\*\.mlp\.c_fc\.weight +\[64, 256\] +bf16 +3$/m);
    expect(tooWide(stdout)).toEqual([]);
  });

  test("--json has every tensor and file", async () => {
    const { stdout } = await checkpoint("inspect", join(checkpoints, "step-00000002"), "--json");
    const found = JSON.parse(stdout);
    expect(found).toMatchObject({ step: 2, worldSize: 2, config: { stage: 2, precision: "bf16" } });
    expect(found.tensors["transformer.h.2.ln_1.bias"]).toEqual({ shape: [64], dtype: "bf16", trainable: true });
    expect(found.kinds[1]).toEqual({ kind: "firstMoment", tensors: 40, elements: 174_656, bytes: 698_624 });
    expect(found.files.map((file: { name: string }) => file.name)).toEqual(["rank-0000-of-0002.safetensors", rankFile]);
  });

  test("where there is none, that is said", async () => {
    const { exitCode, stderr } = await checkpoint("inspect", here);
    expect(exitCode).toBe(exitCodes.user);
    expect(stderr).toMatch(
      /^error: .* is no checkpoint \(it has no checkpoint\.json\) and holds none; wanted a folder step-/,
    );
  });
});

describe("verify", () => {
  test("looks at all of a folder's", async () => {
    const { exitCode, stdout } = await checkpoint("verify", checkpoints);
    expect(exitCode).toBe(exitCodes.ok);
    expect(stdout.match(/step-0000000[23]: undamaged \(2 files, 2\.1\d MB\)$/gm)).toHaveLength(2);
  });

  test("a changed bit is an exit code, and the file, bytes, tensors and elements that it is among", async () => {
    const folder = copy();
    const path = join(folder, "step-00000003", rankFile);
    const bytes = readFileSync(path);
    bytes[bytes.length - 3]! ^= 4;
    writeFileSync(path, bytes);
    const { exitCode, stdout } = await checkpoint("verify", folder);
    expect(exitCode).toBe(exitCodes.user);
    expect(stdout).toMatch(/step-00000003: DAMAGED\n {2}.*rank-0001-of-0002\.safetensors has checksum \w+; wanted \w+/);
    // The file has one whole MiB and a rest, in which the bit is.
    const [, end, content] = /^ +bytes 1048576 to (\d+): (.*)$/m.exec(stdout)!;
    expect(Number(end)).toBe(bytes.length);
    expect(content).toMatch(/^secondMoment of transformer\.h\.2\.mlp\.c_proj\.weight, elements \d+ to \d+$/);
    expect(stdout).toMatch(/step-00000002: undamaged/);
  });

  test("a changed header, a file that is missing, one that is shorter, a broken description: each by name", async () => {
    const folder = copy();
    const step = join(folder, "step-00000002");
    const bytes = readFileSync(join(step, rankFile));
    bytes[9]! ^= 1;
    writeFileSync(join(step, rankFile), bytes);
    writeFileSync(join(step, "rank-0000-of-0002.safetensors"), "short");
    rmSync(join(folder, "step-00000003", rankFile));
    const first = await checkpoint("verify", folder);
    expect(first.stdout).toMatch(/rank-0000-of-0002\.safetensors has 5 bytes; wanted \d+/);
    expect(first.stdout).toMatch(/bytes 0 to 1048576: the header, which cannot be read any more/);
    expect(first.stdout).toMatch(/rank-0001-of-0002\.safetensors is missing, though checkpoint\.json names it/);
    writeFileSync(join(step, "checkpoint.json"), "{");
    expect((await checkpoint("verify", folder)).stdout).toMatch(/DAMAGED\n {2}.*checkpoint\.json is not JSON/);
  });
});

describe("export", () => {
  async function weightsOf(folder: string): Promise<Map<string, Float32Array>> {
    await using opened = await openModelFolder(folder);
    await using saved = await openTraining(newest);
    const weights = new Map<string, Float32Array>();
    for (const [name, { shape }] of Object.entries(saved.manifest.tensors))
      weights.set(name, await opened.weights!.read(name, 0, elementsOf(shape)));
    return weights;
  }

  test("fp32 is the model that the run wrote, to the bit", async () => {
    const folder = join(here, "fp32");
    const { exitCode, stdout, stderr } = await checkpoint("export", checkpoints, "--output", folder);
    expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
    expect(stdout).toMatch(/^The model of step 3 is in .*fp32: 699 KB of weights in fp32, 1 file\.$/m);
    expect(readdirSync(folder).sort()).toEqual(["config.json", "model.safetensors"]);
    expect(await weightsOf(folder)).toEqual(await weightsOf(output));
    expect(readFileSync(join(folder, "config.json"))).toEqual(readFileSync(join(output, "config.json")));
  });

  test("bf16 in shards is half as much, in files of at most that size, and what rounding makes of it", async () => {
    const folder = join(here, "bf16");
    const { exitCode } = await checkpoint(
      "export",
      newest,
      "--output",
      folder,
      "--dtype",
      "bf16",
      "--max-shard-size",
      "100KB",
    );
    expect(exitCode).toBe(exitCodes.ok);
    const shards = readdirSync(folder).filter((name) => /^model-0000\d-of-00004\.safetensors$/.test(name));
    expect(shards).toHaveLength(4);
    for (const shard of shards) expect(statSync(join(folder, shard)).size).toBeLessThan(100_000 + 5000);
    expect(JSON.parse(readFileSync(join(folder, "model.safetensors.index.json"), "utf8")).metadata.total_size).toBe(
      349_312,
    );
    expect(JSON.parse(readFileSync(join(folder, "config.json"), "utf8")).torch_dtype).toBe("bfloat16");
    const [exact, rounded] = [await weightsOf(output), await weightsOf(folder)];
    for (const [name, values] of rounded)
      for (const [i, value] of values.entries())
        if (!(Math.abs(value - exact.get(name)![i]!) <= Math.abs(exact.get(name)![i]!) / 256))
          expect.fail(`${name} ${i}`);
  });

  test("a folder with a model, and a damaged checkpoint", async () => {
    expect(await checkpoint("export", newest, "--output", output)).toMatchObject({
      exitCode: exitCodes.user,
      stderr: expect.stringMatching(/run has a model already \(.*\); give another --output/),
    });
    const folder = copy();
    rmSync(join(folder, "step-00000003", rankFile));
    const older = await checkpoint("export", folder, "--output", join(here, "older"));
    expect(older.stdout).toMatch(/^The model of step 2 /);
    expect(older.stderr).toMatch(/^warning: an older checkpoint is taken, since .*is missing/);
  });

  test("another model than the checkpoint's", async () => {
    const { exitCode, stderr } = await checkpoint("export", newest, "--output", join(here, "no"), "--model", "gpt2");
    expect(exitCode).toBe(exitCodes.user);
    expect(stderr).toMatch(
      /no checkpoint of this model:\n {2}tensor transformer\.wte\.weight: found \[256, 64\]; wanted \[50257, 768\]/,
    );
  });
});

test("what else a program of one's own keeps under `model` is not taken for one", () => {
  for (const model of [undefined, null, "gpt2", 3, [], {}, { layers: "two", hidden: 4 }])
    expect(savedModel({ run: { model } as never })).toBeUndefined();
  expect(savedModel({ run: { model: { layers: 2, hidden: 4 } } })).toEqual({ layers: 2, hidden: 4 });
});
