// Fine-tuning as a user does it: what is frozen, what is refused, and what config and plan say of it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { run, temporaryFolder, tinyModel, tinyTokens, tinyTraining, tooWide, writeFiles } from "./command.ts";

const here = temporaryFolder();
const train = [...tinyTraining, "--data", tinyTokens, "--ranks", "2", "--steps", "2"];
const words = (text: string): string => text.replaceAll(/\s+/g, " ");

describe("frozen parameters", () => {
  test("stay as they were in what is written, and the plan, the tables and config tell of them", async () => {
    const output = join(here, "frozen");
    const freeze = ["--freeze", "transformer.*", "--freeze", "!*.mlp.c_fc.*", "--freeze", "*.h.0.*"];
    const trained = await run([...train, ...freeze, "--stage", "3", "--output", output]);
    expect(trained).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    // Of two blocks 64 x 256 and 256.
    expect(trained.stdout).toContain("33,280 parameters (19.1 %) are trained: the others are frozen");
    expect(trained.stdout).toContain("all-gather: parameters for forward alone, once");
    expect(tooWide(trained.stdout)).toEqual([]);
    const [before, after] = [tinyModel, output].map((folder) => tensorsOf(join(folder, "model.safetensors")));
    expect([...after!.keys()].sort()).toEqual([...before!.keys()].sort());
    for (const [name, values] of after!)
      expect(values.equals(before!.get(name)!), name).toBe(!/[12].mlp.c_fc/.test(name));

    const file = join(
      writeFiles(here, { "ds.json": { train_batch_size: 4, shunya: { freeze: "*.bias" } } }),
      "ds.json",
    );
    const config = await run(["config", file, "--model", tinyModel]);
    expect(config.stdout).toMatch(/freeze +line 1/);
    const json = JSON.parse((await run(["config", file, "--freeze", "*.ln_1.*", "--json"])).stdout);
    expect(json).toMatchObject({ freeze: ["*.ln_1.*"], lora: null, sources: { "shunya.freeze": "flag" } });
  });

  test.each([
    [["--freeze", "wte.weight"], /shunya\.freeze: no parameter's name matches.*did you mean "\*wte\.weight"\?/],
    [["--freeze", "*"], /shunya\.freeze: nothing would be left to train/],
    [["--freeze", ""], /shunya\.freeze: found \[""\]; wanted a name as text/],
    [["--freeze", "*.bias", "--set", "shunya.lora.rank=4"], /shunya\.freeze: found beside shunya\.lora/],
  ])("%j is refused before anything starts", async (flags, message) => {
    const { exitCode, stdout, stderr } = await run([...train, ...flags]);
    expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
    expect(words(stderr)).toMatch(message);
  });

  test("config tells of a pattern that fits nothing in the model, with its line", async () => {
    const file = join(
      writeFiles(here, { "no.json": '{\n"train_batch_size": 4,\n"shunya": { "freeze": "*.ln_3.*" } }' }),
      "no.json",
    );
    const { exitCode, stdout } = await run(["config", file, "--model", tinyModel]);
    expect(exitCode).toBe(1);
    expect(words(stdout)).toMatch(
      /no\.json:3:\d+: error: shunya\.freeze: no parameter's name matches the pattern "\*\.ln_3\.\*"/,
    );
  });

  test("a plan knows of them, and DeepSpeed's estimate says that it does not", async () => {
    const args = ["plan", "--model", "gpt2", "--ranks", "4", "--device", "A10G", "--freeze", "transformer.h.*"];
    const states = async (...more: string[]) => JSON.parse((await run([...args, "--json", ...more])).stdout).stages[0];
    // Of all but the twelve blocks.
    expect((await states()).optimizerBytes / (12 * (124_439_808 - 12 * 7_087_872))).toBeCloseTo(1, 3);
    const estimate = await run([...args, "--engine", "deepspeed"]);
    expect(words(estimate.stderr)).toContain("the estimate does not know frozen parameters (shunya.freeze)");
  });
});

/** Bytes of each tensor of a safetensors file. */
function tensorsOf(path: string): Map<string, Buffer> {
  const file = readFileSync(path);
  const start = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, start).toString()) as Record<string, { data_offsets: [number, number] }>;
  const entries = Object.entries(header).filter(([name]) => name !== "__metadata__");
  return new Map(
    entries.map(
      ([
        name,
        {
          data_offsets: [a, b],
        },
      ]) => [name, file.subarray(start + a, start + b)],
    ),
  );
}
