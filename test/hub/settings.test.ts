// The environment variables of Hugging Face's tools, as those read them.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { UsageError } from "../../src/errors/errors.ts";
import { hubSettings } from "../../src/hub/settings.ts";

const home = mkdtempSync(join(tmpdir(), "shunya-hub-home-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
writeFileSync(join(home, "token"), "hf_kept\n");

test.each([
  [{}, join(homedir(), ".cache/huggingface/hub")],
  [{ XDG_CACHE_HOME: "/x" }, "/x/huggingface/hub"],
  [{ XDG_CACHE_HOME: "/x", HF_HOME: "/h" }, "/h/hub"],
  [{ XDG_CACHE_HOME: "/x", HF_HOME: "/h", HF_HUB_CACHE: "/c" }, "/c"],
  [{ HF_HUB_CACHE: "" }, join(homedir(), ".cache/huggingface/hub")],
])("with %j the cache is %s", async (env, cache) => {
  expect((await hubSettings({ HF_TOKEN: "t", ...env })).cache).toBe(cache);
});

test.each([
  [{ HF_HOME: home }, "hf_kept"],
  [{ HF_HOME: home, HF_TOKEN: " hf_given\n" }, "hf_given"],
  [{ HF_HOME: "/none", HF_TOKEN_PATH: join(home, "token") }, "hf_kept"],
  [{ HF_HOME: "/none" }, undefined],
])("with %j the token is %s", async (env, token) => {
  expect((await hubSettings(env)).token).toBe(token);
});

test.each([
  [{ HF_ENDPOINT: "nonsense" }, /HF_ENDPOINT: found nonsense; wanted an address/],
  [{ HF_ENDPOINT: "ftp://x" }, /HF_ENDPOINT/],
  [{ HF_ENDPOINT: "http://" }, /HF_ENDPOINT/],
  [
    { HF_TOKEN: "sec\nret" },
    /^HF_TOKEN: found spaces or other characters that no token has; wanted one like hf_\.\.\.$/,
  ],
])("%j is refused", async (env, pattern) => {
  const error = await hubSettings({ HF_HOME: home, ...env }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UsageError);
  expect((error as UsageError).message).toMatch(pattern);
});

test("offline is what says so, and another endpoint has no slash at its end", async () => {
  for (const [value, isOffline] of [
    ["1", true],
    ["ON", true],
    ["true", true],
    ["0", false],
    ["", false],
  ] as const)
    expect((await hubSettings({ HF_TOKEN: "t", HF_HUB_OFFLINE: value })).isOffline).toBe(isOffline);
  expect((await hubSettings({ HF_TOKEN: "t", HF_ENDPOINT: "http://mirror/hf//" })).endpoint).toBe("http://mirror/hf");
});
