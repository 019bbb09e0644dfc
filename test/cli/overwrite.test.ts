// Nothing that a user has is written over by a run that does not go on from it, unless the user says so.
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { setScene } from "../../src/cli/quickstart-scene.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { run, temporaryFolder, tinyTokens, tinyTraining, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tiny = [...tinyTraining, "--data", tinyTokens, "--steps", "2"];
const folderOf = (name: string): string => join(here, name);
const weightsOf = (name: string): Buffer => readFileSync(join(folderOf(name), "model.safetensors"));

/** Refused before the first step, with the earlier model as it was. */
async function expectRefused(name: string, message: RegExp, ...args: string[]): Promise<void> {
  const before = existsSync(join(folderOf(name), "model.safetensors")) ? weightsOf(name) : undefined;
  const { exitCode, stdout, stderr } = await run([...args, "--output", folderOf(name)]);
  expect(stderr).toMatch(message);
  expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
  if (before) expect(weightsOf(name).equals(before)).toBe(true);
  expect(existsSync(`${folderOf(name)}.lock`)).toBe(false);
}

describe("--output over another run's", () => {
  beforeAll(async () => {
    await run([...tiny, "--output", folderOf("model")]);
    await run([...tiny, "--output", folderOf("saved"), "--save-every", "1"]);
  });

  test("a model", () =>
    expectRefused(
      "model",
      /may need \(config\.json, model\.safetensors\).*--overwrite.*--model .*model trains it further/,
      ...tiny,
    ));

  test("a model and checkpoints", () =>
    expectRefused("saved", /checkpoints up to step 2\).*--resume .*checkpoints goes on/s, ...tiny));

  test("a model of a later step than the checkpoint that is gone on from", () => {
    const first = join(folderOf("saved"), "checkpoints", "step-00000001");
    return expectRefused("saved", /came to step 2, and this one goes on after step 1/, ...tiny, "--resume", first);
  });

  test("a model, by a run that goes on from elsewhere", () => {
    const newest = join(folderOf("saved"), "checkpoints");
    return expectRefused("model", /what another run may need/, ...tiny, "--resume", newest, "--steps", "3");
  });

  test("checkpoints without a model", async () => {
    mkdirSync(join(folderOf("killed"), "checkpoints", "step-00000007"), { recursive: true });
    await expectRefused("killed", /\(checkpoints up to step 7\)/, ...tiny);
  });

  test("a file of the user's with a name that a run writes", async () => {
    writeFiles(here, { "mine/config.json": "{}", "kept/ds_config.json": "{}" });
    await expectRefused("mine", /\(config\.json\)/, ...tiny);
    const text = join(writeFiles(here, { "text.txt": "to be or not to be. ".repeat(400) }), "text.txt");
    const chosen = ["train", "--data", text, "--steps", "1", "--output", folderOf("kept")];
    const { exitCode, stderr } = await run(chosen);
    expect(stderr).toMatch(/\(ds_config\.json\)/);
    expect(exitCode).toBe(exitCodes.user);
    expect(readFileSync(join(folderOf("kept"), "ds_config.json"), "utf8")).toBe("{}");
  });
});

test("--overwrite replaces a model; training in place and resuming need no leave", async () => {
  const output = ["--output", folderOf("own")];
  await run([...tiny, ...output]);
  const first = weightsOf("own");
  const again = await run([...tiny, ...output, "--overwrite", "--seed", "7", "--lr", "1e-2"]);
  expect(again).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(weightsOf("own").equals(first)).toBe(false);
  const further = await run([...tiny, ...output, "--model", folderOf("own")]);
  expect(further).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  const saving = [...tiny, "--output", folderOf("going"), "--save-every", "1"];
  await run(saving);
  const resumed = await run([...saving, "--steps", "3", "--resume", join(folderOf("going"), "checkpoints")]);
  expect(resumed).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
});

test("logs, traces, profiles and metrics do not replace files of another kind", async () => {
  writeFiles(here, { "important.md": "# Do not lose this\n", "empty.ndjson": "" });
  const file = folderOf("important.md");
  const metrics = folderOf("metrics");
  writeFiles(metrics, { "job/Train_Samples_train_loss.csv": "date,weight\n" });
  const profile = { "flops_profiler.enabled": true, "flops_profiler.output_file": file };
  const csv = { "csv_monitor.enabled": true, "csv_monitor.output_path": metrics, "csv_monitor.job_name": "job" };
  const sets = (values: object) => Object.entries(values).flatMap(([path, value]) => ["--set", `${path}=${value}`]);
  for (const args of [["--log-json", file], ["--trace", file], sets(profile), sets(csv)]) {
    const { exitCode, stderr } = await run([...tiny, ...args]);
    expect(stderr).toMatch(/^error: .* (holds something|it holds something else)/);
    expect(exitCode).toBe(exitCodes.user);
  }
  expect(readFileSync(file, "utf8")).toBe("# Do not lose this\n");
  const own = sets({ ...profile, "flops_profiler.profile_step": 1, "flops_profiler.output_file": folderOf("own.txt") });
  const ours = ["--log-json", folderOf("empty.ndjson"), "--trace", folderOf("own.json"), ...own];
  for (let again = 0; again < 2; again++)
    expect(await run([...tiny, ...ours])).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(readFileSync(folderOf("own.txt"), "utf8")).toMatch(/^Floating-point operations of step 1:/);
  expect(statSync(folderOf("empty.ndjson")).size).toBeGreaterThan(1000);
});

test("outside the working directory one folder is made for a profile, and no tree", async () => {
  const at = (path: string) => [
    ...tiny,
    "--set",
    "flops_profiler.enabled=true",
    "--set",
    `flops_profiler.output_file=${path}`,
  ];
  const far = await run(at(join(here, "nope", "deep", "profile.txt")));
  expect(far.stderr).toMatch(/flops_profiler\.output_file: .* no such folder: .*nope/);
  expect(far.exitCode).toBe(exitCodes.user);
  expect(existsSync(join(here, "nope"))).toBe(false);
  expect((await run(at(join(here, "one", "profile.txt")))).exitCode).toBe(exitCodes.ok);
  expect(existsSync(join(here, "one", "profile.txt"))).toBe(true);
});

test("a run that has ended by the checkpoint's step says how to go on", async () => {
  const saving = [...tiny, "--output", folderOf("ended"), "--save-every", "2"];
  await run(saving);
  const resume = ["--resume", join(folderOf("ended"), "checkpoints")];
  const before = await run([...tiny, ...resume, "--steps", "1"]);
  expect(before.stderr).toMatch(/goes on after step 2, and a run of 1 step has ended by then.*give more than 2/s);
  expect(before).toMatchObject({ exitCode: exitCodes.user, stdout: "" });
  const same = await run([...tiny, ...resume]);
  expect(same.stdout).toMatch(/^Nothing is left to train; --steps above 2 goes on\.$/m);
  expect(same.exitCode).toBe(exitCodes.ok);
});

test("the quickstart's own folder is written again, another's files are not", () => {
  const folder = folderOf("quickstart");
  expect(setScene(folder, 4).isRepeated).toBe(false);
  expect(setScene(folder, 4).isRepeated).toBe(true);
  writeFileSync(join(folder, "ds_config.json"), "{ mine: 1 }");
  expect(() => setScene(folder, 4)).toThrow(/ds_config\.json is not what the quickstart writes there/);
  expect(readFileSync(join(folder, "ds_config.json"), "utf8")).toBe("{ mine: 1 }");
});
