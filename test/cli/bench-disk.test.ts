/** `shunya bench disk` as a user runs it. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { bestOf, type Measured } from "../../src/cli/bench-disk.ts";
import { run, start, temporaryFolder } from "./command.ts";

const folder = temporaryFolder();
const bench = (...args: string[]): string[] => ["bench", "disk", ...args];

describe("shunya bench disk", () => {
  it("prints a row per setting and the best as an aio section, and leaves nothing", async () => {
    const folders = [join(folder, "a"), join(folder, "b")];
    for (const path of folders) mkdirSync(path);
    const paths = folders.flatMap((path) => ["--path", path]);
    const { exitCode, stdout, stderr } = await run(bench(...paths, "--size", "256MiB", "--seconds", "1"));
    expect([exitCode, stderr]).toEqual([0, ""]);
    const rows = stdout.split("\n").filter((line) => /^ *[0-9.]+ [KM]iB +\d+( +\d+\.\d\d){3}$/.test(line));
    expect(rows).toHaveLength(12);
    expect(stdout).toMatch(/Blocks are shared \d : \d/);
    const { aio } = JSON.parse(/^\{[\s\S]*?^\}/m.exec(stdout)![0]);
    expect(Object.keys(aio)).toEqual([
      "block_size",
      "queue_depth",
      "intra_op_parallelism",
      "single_submit",
      "overlap_events",
    ]);
    expect(aio.block_size % 4096).toBe(0);
    expect(stdout).toMatch(/ [MG]B were written to measure this/);
    expect(folders.flatMap((path) => readdirSync(path))).toEqual([]);
  });

  it("refuses what it cannot measure, with exit code 2", async () => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    const refusals: [string[], RegExp][] = [
      [["--path", join(folder, "nowhere")], /nowhere does not exist/],
      [["--path", file], /is not a folder/],
      [["--path", folder, "--size", "900TB"], /bytes free, and swap files need 900000000000000/],
      [["--path", folder, "--size", "1MiB"], /--size: wanted at least 256 MiB/],
      [["--path", folder, "--size", "much"], /found "much"/],
      [[], /--path/],
    ];
    for (const [args, message] of refusals) {
      const { exitCode, stderr } = await run(bench(...args));
      expect([exitCode, stderr]).toEqual([2, expect.stringMatching(message)]);
    }
  });

  it("stops on Ctrl-C and leaves nothing", async () => {
    const own = join(folder, "interrupted");
    mkdirSync(own);
    const { child, ended, output } = start(bench("--path", own, "--size", "256MiB"));
    while (!output.stdout.includes("Measuring")) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(readdirSync(own).length).toBeGreaterThan(0);
    child.kill("SIGINT");
    const { exitCode, stderr } = await ended;
    expect([exitCode, stderr]).toEqual([130, expect.stringMatching(/stopped; nothing is left on the drive/)]);
    expect(readdirSync(own)).toEqual([]);
  });
});

describe("the best setting", () => {
  const measured = (blockBytes: number, queueDepth: number, mixed: number): Measured => ({
    settings: { blockBytes, queueDepth, parallelism: 1 },
    ...{ write: 1, read: 1, mixed },
  });

  it("is the fastest at reading and writing at once, and among equals the one with fewer bytes in flight", () => {
    const slow = measured(2 ** 18, 1, 1e9);
    const small = measured(2 ** 20, 4, 3.95e9);
    const large = measured(2 ** 24, 8, 4e9);
    expect(bestOf([slow, small, large])).toBe(small);
    expect(bestOf([slow, { ...small, mixed: 3.8e9 }, large])).toBe(large);
  });
});
