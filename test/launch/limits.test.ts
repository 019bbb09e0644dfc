// A shell or container that limits sizes is not a fault of ours: one line, the code of memory, and what to do.
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, tinyTokens, tinyTraining } from "../cli/command.ts";

test("a limit on file sizes is one on shared memory", () => {
  const train = [...tinyTraining, "--data", tinyTokens, "--ranks", "2", "--steps", "1"].join(" ");
  const command = `ulimit -f 100000 && exec ${process.execPath} bin/shunya.js ${train}`;
  const { status, stderr } = spawnSync("bash", ["-c", command], { cwd: root, encoding: "utf8" });
  expect(stderr).toMatch(/^error: shared memory of \d+ bytes cannot be made: .*ulimit -f unlimited.*\n$/);
  expect(status).toBe(exitCodes.memory);
});
