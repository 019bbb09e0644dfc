// The loss on data that are not trained on: as often as asked, over every window that fits, and without a trace in the training.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { run, temporaryFolder, tinyModel, tinyTokens, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tokens = readFileSync(tinyTokens);
const seqLength = 16;
/** So many windows, and a part of one that does not fit. */
const windows = (first: number, count: number): Uint8Array =>
  tokens.subarray(2 * seqLength * first, 2 * (seqLength * (first + count) + 4));
writeFiles(here, { "train.bin": windows(0, 400), "eight.bin": windows(500, 8), "eleven.bin": windows(600, 11) });

async function train(name: string, ...flags: string[]): Promise<{ log: LoggedStep[]; stdout: string }> {
  const log = join(here, `${name}.ndjson`);
  const base = ["train", "--model", tinyModel, "--seq-length", String(seqLength), "--threads", "1", "--log-json", log];
  const { exitCode, stdout, stderr } = await run([...base, ...flags], here);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  return { log: lines.map((line) => JSON.parse(line) as LoggedStep), stdout };
}
const losses = (log: readonly LoggedStep[]) => log.map(({ loss, validationLoss }) => [loss, validationLoss]);

test("the loss after a step is the training loss that the next step finds on the same windows", async () => {
  const same = ["--data", "eight.bin", "--validation-data", "eight.bin", "--no-shuffle", "--ranks", "2"];
  const { log } = await train("same", ...same, "--micro-batch", "4", "--steps", "4", "--eval-every", "1");
  for (const [i, { validationLoss }] of log.slice(0, -1).entries())
    expect(validationLoss).toBeCloseTo(log[i + 1]!.loss, 6);
  expect(log[3]!.validationLoss).toBeLessThan(log[2]!.validationLoss!);
});

describe("training is the same with and without, at every stage", () => {
  const flags = ["--data", "train.bin", "--ranks", "2", "--micro-batch", "2", "--steps", "5"];
  const evaluate = ["--validation-data", "eleven.bin", "--eval-every", "2"];
  let expected: unknown;

  test.each(["0", "1", "2", "3"])("stage %s", async (stage) => {
    const plain = await train(`plain${stage}`, ...flags, "--stage", stage);
    const { log, stdout } = await train(`stage${stage}`, ...flags, ...evaluate, "--stage", stage);
    expect(log.map(({ loss, gradNorm }) => [loss, gradNorm])).toEqual(
      plain.log.map(({ loss, gradNorm }) => [loss, gradNorm]),
    );
    // After steps 2 and 4, and the last.
    expect(log.map(({ validationLoss }) => validationLoss !== undefined)).toEqual([false, true, false, true, true]);
    expected ??= losses(log);
    expect(losses(log)).toEqual(expected);
    expect(log.map(({ ranks }) => ranks.map(({ memory }) => memory.peakByPhase))).toEqual(
      plain.log.map(({ ranks }) => ranks.map(({ memory }) => memory.peakByPhase)),
    );
    expect(stdout).toMatch(/^ +11 windows held out for validation$/m);
    expect(stdout).toMatch(/^step 4 validation loss \d\.\d+ over 11 windows in \d+\.\d s$/m);
    expect(stdout).toMatch(/^Validation loss \d\.\d+ after step 5/m);
  });
});

test("every window counts once, whatever the number of ranks and the batch", async () => {
  const one = await train(
    "one",
    "--data",
    "train.bin",
    "--validation-data",
    "eleven.bin",
    "--steps",
    "1",
    "--lr",
    "1e-12",
  );
  for (const [ranks, microBatch] of [
    ["2", "4"],
    ["3", "1"],
    ["3", "5"],
  ] as const) {
    const flags = ["--data", "train.bin", "--validation-data", "eleven.bin", "--steps", "1", "--lr", "1e-12"];
    const { log } = await train(`r${ranks}m${microBatch}`, ...flags, "--ranks", ranks, "--micro-batch", microBatch);
    expect(log[0]!.validationLoss).toBeCloseTo(one.log[0]!.validationLoss!, 6);
  }
});

test("a share is held out: it is not trained on", async () => {
  const { stdout } = await train("share", "--data", "train.bin", "--validation", "0.1", "--steps", "1");
  expect(stdout).toMatch(/^data +5,764 tokens, 360 windows of 16\n +39 windows held out for validation$/m);
});

test.each([
  ["two ways at once", ["--validation", "0.1", "--validation-data", "eight.bin"], /give one of them/],
  ["no data to evaluate", ["--eval-every", "5"], /--eval-every needs something to look at/],
  ["a share of all", ["--validation", "1"], /--validation.*"1".*below 1/],
  ["less than a window", ["--validation", "0.0001"], /the validation data has 0 tokens; wanted at least 17/],
  ["a file that is not there", ["--validation-data", "nowhere.txt"], /nowhere\.txt: no such file/],
])("refused: %s", async (_, flags, message) => {
  const args = ["train", "--model", tinyModel, "--data", "train.bin", "--seq-length", "16", "--steps", "1", ...flags];
  const { exitCode, stderr } = await run(args, here);
  expect(exitCode).toBe(exitCodes.user);
  expect(stderr).toMatch(message);
});
