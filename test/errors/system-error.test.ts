// What the system says of files, as users are told it: in words, with the code, and with the path wherever one is known.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { InternalError } from "../../src/errors/errors.ts";
import { isSystemError, messageOf, reasonOf } from "../../src/errors/system-error.ts";

const folder = mkdtempSync(join(tmpdir(), "shunya-system-"));
afterAll(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, "dir"));
writeFileSync(join(folder, "file"), "");
symlinkSync(join(folder, "loop"), join(folder, "loop"));

function thrownBy(body: () => unknown): Error {
  try {
    body();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}

const at = (name: string): string => join(folder, name);

describe("the system's own errors", () => {
  test.each([
    ["none", () => readFileSync(at("none")), "no such file or folder (ENOENT)"],
    ["a folder", () => readFileSync(at("dir")), "it is a folder, where a file is wanted (EISDIR)"],
    [
      "a file on the way",
      () => readFileSync(at("file/x")),
      "it, or a part of its path, is a file, where a folder is wanted (ENOTDIR)",
    ],
    [
      "a long name",
      () => readFileSync(at("x".repeat(300))),
      "its name is longer than the file system takes (ENAMETOOLONG)",
    ],
    ["links in a circle", () => readFileSync(at("loop")), "its symbolic links lead in a circle (ELOOP)"],
    ["a file there", () => mkdirSync(at("file")), "something of that name is there already (EEXIST)"],
  ])("%s", (_, body, words) => {
    const error = thrownBy(body);
    expect(isSystemError(error)).toBe(true);
    expect(reasonOf(error)).toBe(words);
    expect(messageOf(error)).toContain(words);
    expect(messageOf(error)).not.toMatch(/^E[A-Z]+:/);
  });

  test("a path that the message does not name already is named", () => {
    const error = thrownBy(() => mkdirSync(at("file/a/b"), { recursive: true }));
    expect(reasonOf(error, at("file/a/b"))).toMatch(/\(ENOTDIR( at .*file.*)?\)$/);
    expect(
      reasonOf(
        thrownBy(() => readFileSync(at("none"))),
        at("none"),
      ),
    ).toBe("no such file or folder (ENOENT)");
    expect(
      reasonOf(
        thrownBy(() => readFileSync(at("none"))),
        at("other"),
      ),
    ).toBe(`no such file or folder (ENOENT at ${at("none")})`);
    expect(messageOf(thrownBy(() => readFileSync(at("none"))))).toMatch(/^\/.*none: no such .* asked to open$/);
  });

  test("an error without words here keeps the system's", () => {
    const rare = Object.assign(new Error("EDOM: odd"), { code: "EDOM", syscall: "read" });
    expect(reasonOf(rare)).toBe("EDOM: odd");
  });
});

test("other errors are told as they are", () => {
  expect(isSystemError(new InternalError("x"))).toBe(false);
  expect(isSystemError(Object.assign(new Error("no"), { code: "ERR_INVALID_ARG_TYPE" }))).toBe(false);
  expect(reasonOf(new Error("a\u001b[2Jb"))).toBe("a\\u001b[2Jb");
  expect(messageOf(new Error("a\nb"))).toBe("a\nb");
  expect(reasonOf("text")).toBe("text");
});

test("no message of a file is put together from Node's own words", () => {
  const root = fileURLToPath(new URL("../../src/", import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const raw = files.flatMap((name) =>
    readFileSync(join(root, name), "utf8")
      .split("\n")
      .filter((line) => /cannot be (read|written|made|opened)[^`]*\$\{\(?error( as Error\))?\.message/.test(line))
      .map((line) => `${name}: ${line.trim()}`),
  );
  // Of a template's text, not of a file's: what Jinja says.
  expect(raw.filter((line) => !line.includes("printable("))).toEqual([]);
});
