// Fine-tuning as a user does it: what is frozen, what is refused, and what config and plan say of it.
import { cpSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, run, temporaryFolder, tinyModel, tinyTokens, tinyTraining, tooWide, writeFiles } from "./command.ts";

const here = temporaryFolder();
const train = [...tinyTraining, "--data", tinyTokens, "--ranks", "2", "--steps", "2"];
/** A copy that a fault might overwrite. */
const aside = join(here, "aside");
cpSync(tinyModel, aside, { recursive: true });
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

  test("all of them is refused before anything starts", async () => {
    const { exitCode, stdout, stderr } = await run([...train, "--freeze", "*"]);
    expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
    expect(words(stderr)).toMatch(/shunya\.freeze: nothing would be left to train/);
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

describe("LoRA", () => {
  const lora = ["--lora-rank", "4", "--lora-alpha", "16", "--lora-targets", "c_attn,mlp.c_proj"];
  const adapter = join(here, "adapter");
  const bytesOf = (folder: string, name = "adapter_model.safetensors"): Buffer =>
    readFileSync(join(here, folder, name));

  test("trained, resumed, read again, generated with, merged and exported", async () => {
    const straight = await run([...train, "--steps", "4", ...lora, "--stage", "3", "--output", join(here, "straight")]);
    expect(straight).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    // Of three blocks 4 x (64 + 192) and 4 x (256 + 64).
    expect(straight.stdout).toContain("6,912 parameters (3.8 %) are trained: LoRA of rank 4, alpha 16");
    expect(tooWide(straight.stdout)).toEqual([]);
    const saving = [...train, ...lora, "--save-every", "2", "--output", adapter];
    expect((await run(saving)).exitCode).toBe(exitCodes.ok);
    // Without naming the model: its name is kept for the adapter's settings.
    const unnamed = saving.filter((arg) => arg !== "--model" && arg !== tinyModel);
    const more = await run([...unnamed, "--steps", "4", "--resume", join(adapter, "checkpoints")]);
    expect(more).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(bytesOf("adapter").equals(bytesOf("straight"))).toBe(true);
    const settings = JSON.parse(bytesOf("adapter", "adapter_config.json").toString());
    expect(settings).toMatchObject({ r: 4, lora_alpha: 16, target_modules: ["c_attn", "mlp.c_proj"] });
    expect(settings.base_model_name_or_path).toBe(tinyModel);

    const exported = await run([
      "checkpoint",
      "export",
      join(adapter, "checkpoints"),
      "--output",
      join(here, "exported"),
    ]);
    expect(exported).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(bytesOf("exported").equals(bytesOf("adapter"))).toBe(true);
    const form = ["--dtype", "bf16", "--output"];
    const both = ["--model", tinyModel, "--adapter", adapter];
    expect(await run(["checkpoint", "merge", ...both, ...form, join(here, "merged")])).toMatchObject({
      exitCode: 0,
      stderr: "",
    });
    const checkpoint = ["checkpoint", "export", join(adapter, "checkpoints"), "--merge"];
    expect(await run([...checkpoint, ...form, join(here, "whole")])).toMatchObject({ exitCode: 0, stderr: "" });
    for (const name of ["model.safetensors", "config.json"])
      expect(bytesOf("whole", name).equals(bytesOf("merged", name)), name).toBe(true);
    const text = ["--prompt", "we ", "--tokens", "12", "--temperature", "0"];
    const merged = await run(["generate", "--model", join(here, "merged"), ...text]);
    expect(await run(["generate", ...both, ...text])).toEqual(merged);
    const twice = ["checkpoint", "merge", "--model", join(here, "merged"), "--adapter", adapter];
    expect(words((await run([...twice, "--output", join(here, "twice")])).stderr)).toContain(
      `it is merged into ${join(here, "merged")}: that should be the same model, and not one that has these adapters in it already`,
    );
    expect(merged.exitCode).toBe(exitCodes.ok);
  }, 60_000);

  test("a checkpoint is small, names its base and wants it back", async () => {
    const [model, moved, output] = [join(here, "base"), join(here, "base-moved"), join(here, "small")];
    cpSync(tinyModel, model, { recursive: true });
    const flags = [...train, "--model", model, ...lora, "--save-every", "2", "--output", output];
    const saved = await run(flags);
    expect(saved).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(saved.stdout).toMatch(/saved in \d+\.\d s\); its frozen parameters stay in .*\/base\.$/m);
    const checkpoints = join(output, "checkpoints");
    const newest = join(checkpoints, "step-00000002");
    const checkpoint = (...args: string[]) => run(["checkpoint", ...args]);
    const shown = await checkpoint("inspect", checkpoints);
    expect(words(shown.stdout)).toContain(
      `base ${model}: 40 frozen tensors (174,656 elements) stay in it and are not in the files`,
    );
    for (const kind of ["master", "firstMoment", "secondMoment"])
      expect(shown.stdout).toMatch(new RegExp(`^${kind} +12 +6,912 +27\\.6 KB$`, "m"));
    expect(shown.stdout).toMatch(/^transformer\.h\.\*\.mlp\.c_fc\.weight +\[64, 256\] +f32, in the base +3$/m);
    expect(tooWide(shown.stdout)).toEqual([]);
    const json = JSON.parse((await checkpoint("inspect", checkpoints, "--json")).stdout);
    expect(json.base).toEqual({ folder: model });
    expect(json.tensors["transformer.ln_f.bias"].baseDigest).toMatch(/^[0-9a-f]{16}$/);
    expect(await checkpoint("verify", checkpoints)).toEqual({
      exitCode: exitCodes.ok,
      stdout: expect.stringMatching(
        /step-00000002: undamaged \(2 files, .* KB\)\n {2}its base, .*\/base, has 40 frozen tensors of it\n$/,
      ),
      stderr: "",
    });

    renameSync(model, moved);
    const gone = `${newest} leaves 40 frozen tensors in its base ${model}, which is not there: give the base as it was, its folder or owner/name, to --model`;
    expect((await checkpoint("verify", checkpoints)).stdout).toMatch(
      /undamaged.*\n {2}its base, .*\/base, is NOT THERE/,
    );
    const unnamed = [...tinyTraining.filter((arg) => arg !== "--model" && arg !== tinyModel), "--data", tinyTokens];
    const rest = [...unnamed, "--ranks", "2", "--steps", "4", ...lora, "--output", output, "--resume", checkpoints];
    const refused = await run(rest);
    expect(refused.exitCode).toBe(exitCodes.user);
    expect(words(refused.stderr)).toContain(gone);
    const whole = ["export", checkpoints, "--merge", "--output", join(here, "merged-later")];
    expect(words((await checkpoint(...whole)).stderr)).toContain(gone);
    expect(await checkpoint("export", checkpoints, "--output", join(here, "alone"))).toMatchObject({
      exitCode: 0,
      stderr: "",
    });
    expect(bytesOf("alone").equals(bytesOf("small"))).toBe(true);
    expect(await checkpoint(...whole, "--model", moved)).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    // The values are the same, so nothing is said of the other name.
    expect(await run([...rest, "--model", moved])).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });

    const file = join(moved, "model.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 4]! ^= 1;
    writeFileSync(file, bytes);
    const other = `base-moved is not the base that ${newest} was saved with: other values in 1 of its 40 frozen tensors`;
    const late = await checkpoint("export", newest, "--merge", "--output", join(here, "late"), "--model", moved);
    expect(words(late.stderr)).toContain(other);
  }, 60_000);

  test("goes on from PEFT's own adapter, whose settings say what LoRA is", async () => {
    const peft = join(root, "test/oracles/peft/gpt2/final");
    const trained = await run([...train, "--adapter", peft, "--output", join(here, "further")]);
    expect(trained).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
    expect(trained.stdout).toContain("LoRA of rank 4, alpha 16");
    const resume = ["--resume", join(adapter, "checkpoints"), "--steps", "4", "--adapter"];
    const moved = await run([...train, ...resume, join(here, "exported"), "--lora-alpha", "16", "--lora-rank", "4"]);
    expect(words(moved.stderr)).toContain("exported is not where the run goes on from: it began without one");
    const other = await run([...train, "--adapter", peft, "--lora-rank", "8"]);
    expect(words(other.stderr)).toContain(
      "final has rank 4, and the configuration says 8; leave shunya.lora and --lora-... out",
    );
    const frozen = await run([...train, "--adapter", peft, "--freeze", "*.bias"]);
    expect(words(frozen.stderr)).toContain("leave --freeze and shunya.freeze out");
  });

  test.each([
    [["--lora-rank", "65"], /shunya\.lora\.rank: found 65; wanted at most 64, the smaller width of layer/],
    [["--lora-rank", "4", "--model", "gpt2"], /drawn at random and stay so: give a folder with weights/],
    [
      ["--lora-rank", "4", "--lora-dropout", "lots"],
      /shunya\.lora\.dropout: found "lots"; wanted a number from 0 to below 1/,
    ],
    [["--adapter", tinyModel], /has no adapter_config\.json; wanted a folder with an adapter/],
    [
      ["--freeze", "*.bias", "--save-every", "1", "--model", aside, "--output", aside],
      /--save-every leave frozen parameters in it: the model written there at the end would take their base away/,
    ],
    [["--lora-rank", "4", "--output", tinyModel], /holds a model \(config\.json\), and this run writes adapters/],
  ])("%j is refused before anything starts", async (flags, message) => {
    const { exitCode, stdout, stderr } = await run([...train, ...flags]);
    expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
    expect(words(stderr)).toMatch(message);
  });

  test("a plan answers what fits with it", async () => {
    const args = ["plan", "--model", "llama-2-7b", "--device", "A10G", "--ranks", "4", "--seq-length", "512", "--json"];
    const { stages } = JSON.parse((await run([...args, "--lora-rank", "8"])).stdout);
    // 14 bytes for each of 4,194,304, and 2 for each of all of them: 6.74e9.
    expect(stages[0].modelStatesBytes / (2 * 6_738_415_616 + 16 * 4_194_304)).toBeCloseTo(1, 4);
    expect(stages.map(({ fits }: { fits: boolean }) => fits)).toEqual([true, true, true, true]);
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
