// Killed at any moment, a run leaves its last published checkpoint whole, and the next process goes on from it.
import { spawn } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { publishedSteps } from "../../src/checkpoint/checkpoint-folders.ts";
import { findTraining } from "../../src/checkpoint/find-training.ts";
import { philox4x32, words } from "../../src/data/philox.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));
const script = fileURLToPath(new URL("saving-process.ts", import.meta.url));

/** Starts the process, waits until it has resumed or saved, then so many milliseconds, and kills it. @returns what it said */
async function runAndKill(folder: string, afterMs: number, keep?: number): Promise<string> {
  const args = ["--import", "tsx", script, folder, ...(keep === undefined ? [] : [String(keep)])];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  let failed = "";
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const started = new Promise<void>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("saved ")) resolve();
    });
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    failed += text;
  });
  await Promise.race([started, ended]);
  await sleep(afterMs);
  child.kill("SIGKILL");
  await ended;
  expect(failed).toBe("");
  expect(said).not.toContain("warning");
  return said;
}

const lastNumber = (said: string, word: string): number =>
  Number([...said.matchAll(new RegExp(`^${word} (\\d+)$`, "gm"))].at(-1)?.[1] ?? 0);

/** Milliseconds after the first save, the same in every run: a cycle of step and save takes some tens of them. */
function delays(seed: number, count: number): number[] {
  const out = new Uint32Array(4);
  return Array.from({ length: count }, (_, i) => {
    philox4x32(Uint32Array.of(i, 0, 0, 0), ...words(seed), out);
    return out[0]! % 150;
  });
}

/** Kills one process after the other on the same folder. @returns how many were killed while they saved */
async function chain(seed: number, kills: number, keep?: number): Promise<number> {
  const folder = join(here, String(seed));
  let published = 0;
  let midway = 0;
  for (const delay of delays(seed, kills)) {
    const said = await runAndKill(folder, delay, keep);
    // What was on disk before is where it went on.
    expect(lastNumber(said, "resumed")).toBe(published);
    const told = lastNumber(said, "saved");
    midway += Number(readdirSync(folder).some((name) => name.includes(".partial-")));
    await using newest = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
    published = newest.manifest.step;
    expect(published).toBeGreaterThanOrEqual(told);
    // Published, and killed before it could say so.
    expect(published).toBeLessThanOrEqual(told + 1);
  }
  for (const { folder: step } of await publishedSteps(folder))
    await (await findTraining(step, { onDamaged: () => {} }))[Symbol.asyncDispose]();
  // Killed after a publication and before what is too many is gone, one more is there.
  if (keep !== undefined) expect((await publishedSteps(folder)).length).toBeLessThanOrEqual(keep + 1);
  return midway;
}

test("20 kills: the last published checkpoint loads, and none that was published is harmed", async () => {
  const midway = await Promise.all([chain(1, 10), chain(2, 10, 2)]);
  expect(Math.max(...midway)).toBeGreaterThan(0);
}, 100_000);
