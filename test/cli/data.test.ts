// `shunya train` on data that are not tokens yet: the cache, weights, what is said, and going on from a checkpoint.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { run, temporaryFolder, tinyModel, writeFiles } from "./command.ts";

const here = temporaryFolder();
const sentences = Array.from(
  { length: 400 },
  (_, i) => `sentence ${i} of ${i * i}: शून्य is nothing, and so is ${i % 7} - ${i % 7}.`,
);
const lines = sentences.map((text) => `${JSON.stringify({ body: text })}\n`).join("");
writeFiles(here, {
  "docs.jsonl": `${lines}oops\n{"body":7}\n`,
  "corpus/a.md": sentences.slice(0, 200).join("\n"),
  "corpus/deep/b.txt": sentences.slice(200).join("\r\n"),
  "corpus/picture.png": Uint8Array.of(0x89, 0x50),
});
const data = ["--data", "docs.jsonl:0.7", "--data", "corpus:0.3", "--text-field", "body", "--data-cache", "cache"];
const base = ["train", "--model", tinyModel, "--seq-length", "32", "--threads", "1", ...data];

async function train(log: string, ...flags: string[]) {
  const { exitCode, stdout, stderr } = await run([...base, "--log-json", log, ...flags], here);
  expect({ exitCode, stderr: exitCode === exitCodes.ok ? "" : stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const losses = readFileSync(join(here, log), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as LoggedStep).loss);
  return { stdout, stderr, losses };
}

test("odd input is told, tokens are kept, and a run goes on with the next samples at another world size", async () => {
  const straight = await train("straight.ndjson", "--ranks", "2", "--micro-batch", "2", "--steps", "8");
  const told =
    "warning: odd data in docs.jsonl:\n  left out: 1 line that is not JSON: docs.jsonl:401\n" +
    "  left out: 1 document whose text is none: docs.jsonl:402 (a number)\n" +
    "warning: odd data in corpus:\n  left out: 1 file of another kind: corpus/picture.png\n" +
    "  199 line ends \\r\\n (read as \\n): corpus/deep/b.txt:1\n";
  expect(straight.stderr).toBe(told);
  expect(straight.stdout).toMatch(
    /^ +70\.0 % from docs\.jsonl: \d\.\d+ epochs of it\n +30\.0 % from corpus: \d\.\d+ epochs/m,
  );
  expect(straight.losses.at(-1)).toBeLessThan(straight.losses[0]!);

  // Entries are used again and not made anew; their times are renewed.
  const made = readdirSync(join(here, "cache")).sort();
  expect(made.length).toBe(4);
  const files = made.map((name) => statSync(join(here, "cache", name)).ino);
  const saving = ["--output", "out", "--save-every", "4"];
  await train("first.ndjson", "--ranks", "2", "--micro-batch", "2", "--steps", "4", ...saving);
  const resumed = await train("second.ndjson", "--micro-batch", "4", "--steps", "8", "--resume", "out/checkpoints");
  expect(resumed.stderr).toContain(told);
  expect(resumed.losses.length).toBe(4);
  for (const [i, loss] of resumed.losses.entries()) expect(loss).toBeCloseTo(straight.losses[4 + i]!, 4);
  expect(readdirSync(join(here, "cache")).sort()).toEqual(made);
  expect(made.map((name) => statSync(join(here, "cache", name)).ino)).toEqual(files);
});

test("without a model too: the data are prepared once, and a plan is shown", async () => {
  const args = ["train", "--data", "docs.jsonl", "--text-field", "body", "--data-cache", "cache2", "--dry-run"];
  const { exitCode, stdout, stderr } = await run(args, here);
  expect({ exitCode, told: stderr.match(/odd data/g)?.length }).toEqual({ exitCode: exitCodes.ok, told: 1 });
  expect(stdout).toMatch(/Nothing was started/);
  expect(readdirSync(join(here, "cache2")).length).toBe(2);
});

test("the default cache is the user's", async () => {
  const home = process.env.XDG_CACHE_HOME;
  process.env.XDG_CACHE_HOME = join(here, "xdg");
  try {
    const args = [
      "train",
      "--model",
      tinyModel,
      "--seq-length",
      "32",
      "--threads",
      "1",
      "--steps",
      "1",
      "--data",
      "corpus",
    ];
    expect((await run(args, here)).exitCode).toBe(exitCodes.ok);
    expect(readdirSync(join(here, "xdg/shunya/tokens")).length).toBe(2);
  } finally {
    if (home === undefined) delete process.env.XDG_CACHE_HOME;
    else process.env.XDG_CACHE_HOME = home;
  }
});
