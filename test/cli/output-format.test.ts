// How `train --output` writes the model: its type, its shards, and what becomes of a weight that a type does not hold.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { run, temporaryFolder, tinyTokens, tinyTraining } from "./command.ts";

const here = temporaryFolder();
const training = [...tinyTraining, "--data", tinyTokens, "--steps", "1", "--ranks", "2"];
const typeIn = (folder: string): string => JSON.parse(readFileSync(join(folder, "config.json"), "utf8")).torch_dtype;

describe("--output-dtype", () => {
  test("is fp32 where it is left out, and 16 bits round what fp32 has", async () => {
    const [exact, half] = [join(here, "exact"), join(here, "half")];
    expect(await run([...training, "--output", exact])).toMatchObject({ exitCode: exitCodes.ok });
    const flags = ["--output", half, "--output-dtype", "bf16", "--max-shard-size", "100KB"];
    expect(await run([...training, ...flags])).toMatchObject({ exitCode: exitCodes.ok });
    expect([typeIn(exact), typeIn(half)]).toEqual(["float32", "bfloat16"]);
    expect(readdirSync(exact).toSorted()).toEqual(["config.json", "model.safetensors"]);
    expect(readdirSync(half).filter((name) => /^model-0000\d-of-0000\d\.safetensors$/.test(name)).length).toBe(4);
    await using a = await openModelFolder(exact);
    await using b = await openModelFolder(half);
    const name = "transformer.h.1.mlp.c_fc.weight";
    const [full, rounded] = [await a.weights!.read(name, 0, 1000), await b.weights!.read(name, 0, 1000)];
    for (const [i, value] of full.entries())
      expect(Math.abs(rounded[i]! - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -8);
    expect(rounded).not.toEqual(full);
  });

  test("fp16 that does not hold a weight is fp32, and that is said", async () => {
    const folder = join(here, "beyond");
    // A step of SGD that is as long as the rate: weights of a million.
    const config = ["--set", "optimizer.type=SGD", "--lr", "1e9", "--set", "gradient_clipping=0"];
    const flags = [...config, "--output", folder, "--output-dtype", "fp16"];
    const { exitCode, stderr } = await run([...training, ...flags]);
    expect(exitCode).toBe(exitCodes.ok);
    expect(stderr).toMatch(/written in fp32, since it has weights beyond 65504/);
    expect(typeIn(folder)).toBe("float32");
  });

  test.each([
    [["--output-dtype", "bf16"], /say how --output DIR is written; give that too/],
    [["--max-shard-size", "1GB"], /say how --output DIR is written; give that too/],
    [["--output", "x", "--output-dtype", "int8"], /argument 'int8' is invalid\. Allowed choices are fp32, bf16, fp16/],
    [["--output", "x", "--max-shard-size", "many"], /wanted a size such as 24GB/],
  ])("%j is refused", async (flags, pattern) => {
    const { exitCode, stderr } = await run([...training, ...flags]);
    expect(exitCode).toBe(exitCodes.user);
    expect(stderr).toMatch(pattern);
  });
});
