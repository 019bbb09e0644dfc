// What `doctor --calibrate` refuses it refuses at once, and not after the minute of measuring.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { run, temporaryFolder } from "./command.ts";

const folder = temporaryFolder();
const other = join(folder, "other.json");
writeFileSync(other, "[]");

test.each([
  [["--path", folder], /--path is of doctor --calibrate/],
  [["--output", other], /--output is of doctor --calibrate/],
  [["--calibrate", "--leftovers", folder], /--leftovers and --remove-leftovers are of doctor alone/],
  [["--calibrate", "--output", other], /other\.json is not a calibration of this version/],
  [["--calibrate", "--output", join(other, "machine.json")], /machine\.json cannot be written: .*; name another/],
  [["--calibrate", "--output", join(folder, "m.json"), "--path", join(folder, "none")], /none does not exist; name a/],
])("%j", async (flags, message) => {
  const { exitCode, stdout, stderr } = await run(["doctor", ...flags]);
  expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
  expect(stderr).toMatch(message);
});
