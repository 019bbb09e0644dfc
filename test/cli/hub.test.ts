// Models by their name on a hub, as a user has them: one on loopback plays Hugging Face.
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkNamedFiles } from "../../src/cli/before-fetch.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { commit, type FakeHub, fakeHub } from "../hub/fake-hub.ts";
import { root, run, temporaryFolder, tinyModel, tinyTokens, tooWide, writeFiles } from "./command.ts";

const here = temporaryFolder();
const names = ["HF_ENDPOINT", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_HOME", "XDG_CACHE_HOME"];
const before = Object.fromEntries(names.map((name) => [name, process.env[name]]));
let hub: FakeHub;
let cacheNumber = 0;
let cache: string;
beforeEach(async () => {
  const files = ["config.json", "model.safetensors"].map(
    (name) => [name, readFileSync(join(tinyModel, name))] as const,
  );
  hub = await fakeHub(Object.fromEntries(files));
  cache = join(here, `cache-${cacheNumber++}`);
  for (const name of names) delete process.env[name];
  Object.assign(process.env, { HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache });
});
afterEach(() => {
  for (const name of names) delete process.env[name];
  for (const [name, value] of Object.entries(before)) if (value !== undefined) process.env[name] = value;
});

const snapshot = (): string => join(cache, "models--some--model/snapshots", commit);
const training = ["--data", tinyTokens, "--seq-length", "16", "--threads", "1", "--steps", "1"];

describe("--model owner/name", () => {
  test("is fetched once, before the ranks start, and trained further", async () => {
    const output = join(here, "trained");
    const args = ["train", "--model", "some/model", ...training, "--ranks", "2", "--output", output];
    const { exitCode, stdout, stderr } = await run(args);
    expect(stderr).toMatch(/^fetching some\/model: 1 file, 703 KB, into .*models--some--model$/m);
    expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: expect.stringContaining(snapshot()) });
    expect(stdout).toMatch(/^ *model +some\/model@0123456: 174,656 parameters/m);
    expect(hub.requests.filter((request) => request.startsWith("GET storage"))).toHaveLength(1);
    expect(readdirSync(output)).toContain("model.safetensors");
  });

  test("is not fetched where something else of the command cannot be used", async () => {
    const missing = ["train", "--model", "some/model", "--data", "missing.txt"];
    expect(await run(missing)).toMatchObject({
      exitCode: 2,
      stderr: "error: missing.txt: no such file; check --data\n",
    });
    for (const [flags, message] of [
      [{ data: [tinyTokens], validationData: ["missing.txt"] }, /missing\.txt: no such file/],
      [{ data: [join(root, "*.none")] }, /no file fits this pattern/],
      [{ config: "none.json" }, /none\.json.*\n.*no such file/],
      [{ tokenizer: join(here, "none/tokenizer.json") }, /no such file or folder; wanted a tokenizer\.json/],
      [{ adapter: join(here, "none") }, /--adapter .*none: no such file or folder/],
      [{ resume: join(here, "none") }, /none does not exist; wanted a folder step-/],
      [{ output: join(tinyTokens, "out") }, /--output .*out cannot be written/],
      [{ jsonl: here }, /--jsonl .* is a folder/],
    ] as const)
      await expect(checkNamedFiles(flags)).rejects.toThrow(message);
    await checkNamedFiles({ data: [tinyTokens], output: join(here, "new"), jsonl: "-", tokenizer: "some/other" });
    expect(hub.requests).toEqual([]);
  });

  test("is planned with its configuration alone, and so is a dry run", async () => {
    const plan = await run(["plan", "--model", "some/model", "--seq-length", "16"]);
    expect(plan.stdout).toMatch(/some\/model@0123456/);
    const dry = await run(["train", "--model", "some/model", ...training, "--dry-run"]);
    expect({ ...dry, stdout: "" }).toMatchObject({ exitCode: exitCodes.ok });
    expect(readdirSync(snapshot())).toEqual(["config.json"]);
    expect(tooWide(plan.stdout + dry.stdout)).toEqual([]);
  });

  test("is a folder of that path where there is one", async () => {
    const parent = join(here, "with-folder");
    mkdirSync(parent);
    writeFiles(parent, { "some/model/config.json": readFileSync(join(tinyModel, "config.json")) });
    const { exitCode, stderr } = await run(["plan", "--model", "some/model", "--seq-length", "16"], parent);
    expect({ exitCode, stderr }).toEqual({
      exitCode: exitCodes.ok,
      stderr: "",
    });
    expect(hub.requests).toEqual([]);
  });

  test("offline says what to copy where, and makes nothing", async () => {
    process.env.HF_HUB_OFFLINE = "1";
    delete process.env.HF_HUB_CACHE;
    process.env.XDG_CACHE_HOME = cache;
    const { exitCode, stdout, stderr } = await run(["generate", "--model", "some/model", "--prompt", "a"]);
    expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
    expect(stderr).toMatch(/^error: some\/model cannot be had\. Tried:$/m);
    expect(stderr).toContain(join(cache, "huggingface/hub/models--some--model"));
    expect(stderr).toContain("hf download some/model");
    expect(existsSync(cache)).toBe(false);
  });

  test("that no hub has is a short answer", async () => {
    const { exitCode, stderr } = await run(["generate", "--model", "some/other", "--prompt", "a"]);
    expect(exitCode).toBe(exitCodes.user);
    expect(stderr).toMatch(/it has no such model/);
    expect(stderr).toMatch(/Check the name; --model also takes the path of a folder\.$/m);
  });
});

test("--tokenizer owner/name is fetched alone", async () => {
  hub.files["tokenizer.json"] = readFileSync(join(root, "test/oracles/tokenizers/shunya.json"));
  const named = await run(["tokenizer", "encode", "some text", "--tokenizer", "some/model"]);
  const given = await run(["tokenizer", "encode", "some text", "--tokenizer", join(snapshot(), "tokenizer.json")]);
  expect(named.exitCode).toBe(exitCodes.ok);
  expect(named.stdout).toBe(given.stdout);
  expect(readdirSync(snapshot())).toEqual(["tokenizer.json"]);
});

test("a program gets the folder too", async () => {
  const { downloadModel, openModelFolder } = await import("../../src/index.ts");
  await using folder = await openModelFolder(await downloadModel("some/model@main"));
  expect(folder.weights).toBeDefined();
  await expect(downloadModel("gpt2")).rejects.toThrow('found "gpt2"; wanted owner/name');
});
