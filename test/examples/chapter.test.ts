// The chapter prints what it says. `npx vitest run test/examples/chapter.test.ts -u` writes what its programs print into it.
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { parseConfigFile } from "../../src/config/json.ts";
import { type Override, resolveConfig } from "../../src/config/resolve.ts";
import { root, run } from "../cli/command.ts";

const folder = join(root, "examples/chapter");
const chapter = readFileSync(join(folder, "README.md"), "utf8");
/** A plan is several forecasts, and the machine may be busy. */
const slow = 120_000;

/** A command of the chapter, and what the chapter says that it prints. */
const shown = /(?<=```sh\n)((?:(?!```)[\s\S])*)(```\n\n```text\n)([\s\S]*?)(?=```)/g;
const blocks = [...chapter.matchAll(shown)].map((match) => ({ command: plain(match[1]!), text: match[3]! }));

/** On one line. */
function plain(command: string): string {
  return command.replaceAll("\\\n", " ").replaceAll(/\s+/g, " ").trim();
}

const printed = new Map<string, Promise<string>>();

/** What a command prints; each is run once. Programs run from the sources, not from what was compiled last. */
function outputOf(command: string): Promise<string> {
  const known = printed.get(command);
  if (known) return known;
  const [npx, program, ...args] = command.split(" ");
  expect(npx).toBe("npx");
  const output =
    program === "shunya"
      ? run(args).then(({ exitCode, stdout, stderr }) => {
          expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
          return stdout;
        })
      : promisify(execFile)(process.execPath, ["--conditions=shunya-source", "--import", "tsx", ...args], {
          cwd: root,
        }).then(({ stdout, stderr }) => {
          expect(stderr).toBe("");
          return stdout;
        });
  printed.set(command, output);
  return output;
}

const zeroMemory = (args: string): Promise<string> => outputOf(`npx tsx examples/chapter/zero-memory.ts${args}`);
const exercise = (number: number): Promise<string> => outputOf(`npx tsx examples/chapter/exercises.ts ${number}`);

/** The cells of a table's row that begins with `first`. */
function row(output: string, first: string): string[] {
  const line = output.split("\n").find((candidate) => candidate.trimStart().startsWith(`${first} `));
  return line?.trim().split(/ {2,}/).slice(1) ?? [];
}

describe("zero-memory.ts", () => {
  test.each([
    ["", "24.0, 10.5, 8.25, 6.0"],
    [" 1.5e9 8", "24.0, 8.25, 5.625, 3.0"],
    [" 3e9 8", "48.0, 16.5, 11.25, 6.0"],
  ])("with%s", async (args, figures) => {
    expect((await zeroMemory(args)).split("\n").slice(1)).toEqual([
      `  this file    ${figures}`,
      `  the package  ${figures}`,
      "",
    ]);
  });
});

describe("exercises", () => {
  test("what stages add", async () => {
    const rows = [0, 1, 2, 3].map(async (stage) => row(await exercise(1), String(stage)).slice(1));
    expect(await Promise.all(rows)).toEqual([
      ["24.0", "-", "2Ψ"],
      ["10.5", "13.5", "2Ψ"],
      ["8.25", "2.25", "2Ψ"],
      ["6.0", "2.25", "3Ψ"],
    ]);
  });

  test("3e9 on 8", async () => {
    expect(await exercise(2)).toMatch(/ = 11\.25 GB$/m);
  });

  test("8 ranks", async () => {
    const rows = [0, 1, 2, 3].map(async (stage) => row(await exercise(3), String(stage)));
    expect(await Promise.all(rows)).toEqual([
      ["24.0", "24.0", "0.0", "0.0 %"],
      ["10.5", "8.25", "2.25", "21.4 %"],
      ["8.25", "5.625", "2.625", "31.8 %"],
      ["6.0", "3.0", "3.0", "50.0 %"],
    ]);
  });

  // 1,557,611,200 parameters with padding: 1,557,645,824, of which 1,035,776 are vectors that stay gathered.
  test("3Ψ", { timeout: slow }, async () => {
    const output = await exercise(4);
    const half = 1_168_234_368;
    for (const [stage, gathered, one, eight] of [
      [0, half, "2.000", "2.000"],
      [1, half, "2.000", "2.000"],
      [2, half, "2.000", "9.000"],
      [3, 2 * half - 776_832, "2.999", "23.990"],
    ] as const) {
      const elements = [half, gathered, half + gathered].map((count) => count.toLocaleString("en"));
      expect(row(output, String(stage))).toEqual([...elements, one, eight]);
    }
  });

  test("the slower link", { timeout: slow }, async () => {
    const output = await exercise(5);
    expect(row(output, "25 GB/s")).toEqual(["0.123", "0.12", "0.33 to 0.39", "0.12", "0.98", "1"]);
    expect(row(output, "12 GB/s")).toEqual(["0.123", "0.25", "0.33 to 0.39", "0.25", "2.03", "3"]);
    expect(row(output, "7.88 GB/s")).toEqual(["0.123", "0.381", "0.33 to 0.39", "0.381", "3.10", "4"]);
    expect(row(output, "a transfer alone")).toEqual(["0.12", "2,000"]);
    expect(row(output, "serial")).toEqual(["0.693", "-"]);
    expect(row(output, "delayed")).toEqual(["0.33", "5,500"]);
    expect(output.replaceAll(/\s+/g, " ")).toMatch(
      /"PCIe 3 x8 @ 12GB\/s" is refused: .* peaks at 7\.88 GB\/s .* cannot carry 12 GB\/s: that is a figure of PCIe 3 x16/,
    );
    const [once, often] = [row(output, "1"), row(output, "2")].map(([cell]) => Number(cell?.replaceAll(",", "")));
    expect(often).toBe(3 * once!);
  });

  test("stage 3 costs little over a fast link and much over a slow one", { timeout: slow }, async () => {
    const output = await exercise(6);
    const [a, b, c] = ["a", "b", "c"].map((name) =>
      row(output, `step of ${name}`).map((cell) => Number.parseInt(cell, 10)),
    ) as [number[], number[], number[]];
    expect([a, b, c].map((steps) => steps.length)).toEqual([4, 4, 4]);
    expect(a[3]! / a[2]!).toBeLessThan(1.1);
    expect(b[3]! / b[2]!).toBeGreaterThan(1.2);
    expect(c[3]! / c[1]!).toBeGreaterThan(2.5);
    expect(row(output, "on a card").map((cell) => cell.endsWith("(!)"))).toEqual([true, false, false, false]);
  });

  test("activations", async () => {
    expect(row(await exercise(7), "8")).toEqual(["21.4 GB"]);
  });
});

describe("stage2-offload.json", () => {
  const path = "examples/chapter/stage2-offload.json";
  const resolved = (...overrides: Override[]): object =>
    resolveConfig({ file: parseConfigFile(join(root, path)), overrides, worldSize: 4 });

  test("says what the chapter says", () => {
    expect(resolved()).toMatchObject({
      stage: 2,
      offloadOptimizer: "cpu",
      precision: "fp16",
      trainBatch: 32,
      microBatch: 8,
      sizes: { reduceBucketSize: 5e8, allgatherBucketSize: 5e8 },
      optimizer: { type: "AdamW" },
      overlapComm: false,
      warnings: [],
    });
    expect(resolved(["train_micro_batch_size_per_gpu", 1])).toMatchObject({ trainBatch: 32, gradientAccumulation: 8 });
  });

  const question = `npx shunya plan --model gpt2-xl --ranks 4 --device A10G --seq-length 1024 --config ${path}`;

  test("micro-batches of 8 do not fit, 8 of 1 do", { timeout: slow }, async () => {
    const output = await outputOf(question);
    const [, splits] = output.split("Ways to divide the batch at stage 2, optimizer on the host:");
    const [whole, single] = [row(splits!, "8"), row(splits!, "1")];
    expect([whole[0], whole[3]]).toEqual(["1", "no: device"]);
    expect([single[0], single[3]]).toEqual(["8", "yes"]);
    const activations = Number(/^(\d+\.\d) GB$/.exec(whole[1]!)?.[1]);
    expect(Math.abs(activations - 21)).toBeLessThan(1); // "about 21 GB"
    expect(output).toMatch(/^Recommended: stage 1, with micro-batch 2 and accumulation 4\.$/m);
  });

  test("nor do they with DeepSpeed", { timeout: slow }, async () => {
    const { splits, recommendation } = JSON.parse(await outputOf(`${question} --engine deepspeed --json`)) as {
      splits: { stage: number; microBatch: number; gradientAccumulation: number; fits: boolean }[];
      recommendation: object;
    };
    expect(splits.map((split) => [split.stage, split.microBatch, split.gradientAccumulation, split.fits])).toEqual([
      [2, 8, 1, false],
      [2, 4, 2, true],
      [2, 2, 4, true],
      [2, 1, 8, true],
    ]);
    expect(recommendation).toMatchObject({ stage: 1, offloadOptimizer: "none" });
  });

  test.skipIf(!existsSync(join(root, "src/cli/explain.ts")))("explain says what the chapter says", async () => {
    const { stdout } = await run(["explain", path, "--params", "1.5e9", "--ranks", "4"]);
    const text = stdout.replaceAll(/\s+/g, " ");
    expect(text).toMatch(/overlap_comm is left out: it is off by default at stage 2/);
    expect(text).toMatch(/reduce_bucket_size [^:]*: [^:]* It acts during the backward pass/);
    expect(text).toMatch(/allgather_bucket_size [^:]*: [^:]* It acts after the step, not during it/);
    expect(text).toMatch(/500,000,000 elements of 2 bytes are 1\.00 GB/);
    expect(text).toMatch(/1,500,000,000 gradients make three buckets/);
    expect(text).toMatch(/in 3 pieces/);
  });
});

describe("README.md", () => {
  test("shows the command of every exercise", () => {
    expect(blocks.map(({ command }) => command)).toEqual([
      "npx tsx examples/chapter/zero-memory.ts",
      expect.stringContaining("npx shunya plan"),
      ...[1, 2, 3, 4, 5, 6, 7].map((number) => `npx tsx examples/chapter/exercises.ts ${number}`),
    ]);
  });

  test("shows what its programs print", { timeout: slow }, async () => {
    const outputs = new Map<string, string>();
    for (const { command, text } of blocks)
      outputs.set(command, command.startsWith("npx tsx") ? `${(await outputOf(command)).trimEnd()}\n` : text);
    const written = chapter.replaceAll(shown, (_, command: string, between: string) => {
      return command + between + outputs.get(plain(command))!;
    });
    await expect(written).toMatchFileSnapshot(join(folder, "README.md"));
  });

  test("shows lines that the plan prints, in its order", { timeout: slow }, async () => {
    const [plan] = blocks.filter(({ command }) => command.startsWith("npx shunya"));
    const lines = (await outputOf(plan!.command)).split("\n");
    let from = 0;
    for (const line of plan!.text.trimEnd().split("\n")) {
      if (line === "...") continue;
      const at = lines.indexOf(line, from);
      expect(at, `"${line}" after line ${from}`).toBeGreaterThanOrEqual(from);
      from = at + 1;
    }
  });
});
