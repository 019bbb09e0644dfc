import { expect, test } from "vitest";
import { type ErrorCode, ShunyaError, UsageError } from "../../src/errors/errors.ts";
import { defaultThreads, rankVariables, readRankEnvironment } from "../../src/launch/environment.ts";
import { errorCodeExitCode, errorExitCode } from "../../src/launch/exit-codes.ts";
import { asLauncherMessage, asRankMessage, errorMessage } from "../../src/launch/messages.ts";
import { carriedOptions } from "../../src/launch/spawn-rank.ts";

test("what a launcher writes, a rank reads", () => {
  expect(readRankEnvironment(rankVariables(2, 3, 4096))).toEqual({
    rank: 2,
    worldSize: 3,
    localRank: 2,
    descriptors: { control: 4, arenas: [5, 6, 7] },
    arenaBytes: 4096,
  });
});

test("a process that nobody launched is a world of one", () => {
  expect(readRankEnvironment({})).toBeUndefined();
  expect(readRankEnvironment({ RANK: "0", WORLD_SIZE: "1" })).toBeUndefined();
});

test("a world of several ranks that another launcher started is refused, and the missing variable named", () => {
  expect(() => readRankEnvironment({ RANK: "1", WORLD_SIZE: "4" })).toThrow(/SHUNYA_CONTROL_FD is not set/);
  expect(() => readRankEnvironment({ RANK: "1" })).toThrow(/WORLD_SIZE is not set/);
});

test.each([
  [{ RANK: "3" }, /RANK is 3 in a world of 3/],
  [{ RANK: "x" }, /RANK is "x"/],
  [{ WORLD_SIZE: "0" }, /WORLD_SIZE is "0"/],
  [{ LOCAL_RANK: undefined }, /LOCAL_RANK is not set/],
  [{ SHUNYA_ARENA_FDS: "5,6" }, /wanted 3 descriptor numbers/],
  [{ SHUNYA_ARENA_FDS: "5,six,7" }, /wanted 3 descriptor numbers/],
  [{ SHUNYA_ARENA_BYTES: "-1" }, /SHUNYA_ARENA_BYTES is "-1"/],
])("broken variables are named: %o", (broken, message) => {
  const env = { ...rankVariables(0, 3, 4096), ...broken };
  expect(() => readRankEnvironment(env)).toThrow(message);
  expect(() => readRankEnvironment(env)).toThrow(UsageError);
});

test("every rank computes with one thread at least", () => {
  expect(defaultThreads(1)).toBeGreaterThanOrEqual(1);
  expect(defaultThreads(100_000)).toBe(1);
});

test.each<[ErrorCode, number]>([
  ["INTERNAL", 1],
  ["CONFIG", 2],
  ["USAGE", 2],
  ["DATA", 2],
  ["MODEL", 2],
  ["SHAPE", 2],
  ["DTYPE", 2],
  ["MEMORY", 3],
  ["RANK_LOST", 4],
  ["COMM", 4],
  ["DESYNC", 4],
  ["NUMERICAL", 5],
  ["INTERRUPTED", 130],
])("an error %s ends a process with %d, also when another process told of it", (code, exitCode) => {
  expect(errorExitCode(new ShunyaError(code, "x"))).toBe(exitCode);
  expect(errorCodeExitCode(code)).toBe(exitCode);
});

test("what is not Shunya's error counts as internal", () => {
  expect([errorExitCode(new TypeError("x")), errorExitCode("text"), errorCodeExitCode("toString")]).toEqual([1, 1, 1]);
});

test("anything that was thrown can be told, and foreign messages are left alone", () => {
  expect(errorMessage("text")).toMatchObject({ type: "error", message: "text", code: undefined });
  expect(errorMessage(new UsageError("wrong"))).toMatchObject({ name: "UsageError", code: "USAGE", message: "wrong" });
  expect([null, 1, "stop", {}, { type: "ready" }].map(asRankMessage)).toEqual(new Array(5).fill(undefined));
  expect(asLauncherMessage({ type: "stop" })).toEqual({ type: "stop" });
  expect(asLauncherMessage({ type: "error" })).toBeUndefined();
});

test("ranks get this process's Node options, but neither its code nor its debugger", () => {
  expect(
    carriedOptions([
      "--max-old-space-size=512",
      "-e",
      "run()",
      "--inspect-brk=9229",
      "--import",
      "x",
      "--eval=y",
      "-p",
      "z",
    ]),
  ).toEqual(["--max-old-space-size=512", "--import", "x"]);
});
