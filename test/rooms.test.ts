// Holds the source tree to its shape: which room may import which, how long a file may be, what may be said where.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));

/** A room imports only rooms before it in this list. */
const rooms = [
  "errors",
  "log",
  "config",
  "device",
  "hardware",
  "tensor",
  "nn",
  "optim",
  "comm",
  "plan",
  "zero",
  "tokenizer",
  "data",
  "checkpoint",
  "hub",
  "planner",
  "report",
  "monitor",
  "launch",
  "generation",
  "cli",
] as const;
type Room = (typeof rooms)[number];

/** What a room must not know although it comes earlier. */
const unknownTo: Partial<Record<Room, readonly Room[]>> = {
  optim: ["nn"],
  comm: ["nn", "optim"],
  tokenizer: ["device", "hardware", "tensor", "nn", "optim", "comm", "plan", "zero"],
  data: ["zero"],
};

/** Rooms that touch no files. */
const fileless: readonly Room[] = [
  "errors",
  "log",
  "tensor",
  "nn",
  "optim",
  "comm",
  "plan",
  "zero",
  "hardware",
  "planner",
  "report",
];
const fileModules = /^(node:)?fs(\/promises)?$/;

const longestFile = 450;

function filesUnder(folder: string, extension: RegExp): string[] {
  const start = join(root, folder);
  if (!existsSync(start)) return [];
  return readdirSync(start, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && extension.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

function read(file: string): string {
  return readFileSync(join(root, file), "utf8");
}

function importsOf(file: string): string[] {
  const pattern = /(?:\bfrom\s*|\bimport\s*\(?\s*)"([^"]+)"/g;
  return [...read(file).matchAll(pattern)].map((match) => match[1]!);
}

/** The room of a file under src/; undefined for the files that lie in src/ itself, which are the package's door. */
function roomOf(file: string): string | undefined {
  const parts = file.split(sep);
  return parts[0] === "src" && parts.length > 2 ? parts[1] : undefined;
}

/** Why `file` may not import `specifier`; undefined if it may. */
function objection(file: string, specifier: string): string | undefined {
  const room = roomOf(file) as Room | undefined;
  if (room === undefined) return undefined;
  if (fileModules.test(specifier)) {
    return fileless.includes(room) ? `${file} imports ${specifier}: the room ${room} touches no files` : undefined;
  }
  if (!specifier.startsWith(".")) return undefined;
  const target = relative(root, resolve(root, dirname(file), specifier));
  const targetRoom = roomOf(target) as Room | undefined;
  if (targetRoom === undefined) return `${file} imports ${target}: rooms import rooms, not what lies around them`;
  if (targetRoom === room) return undefined;
  if (rooms.indexOf(targetRoom) > rooms.indexOf(room))
    return `${file} imports ${target}: ${room} comes before ${targetRoom}`;
  if (unknownTo[room]?.includes(targetRoom)) return `${file} imports ${target}: ${room} must not know ${targetRoom}`;
  return undefined;
}

describe("rooms", () => {
  const sources = filesUnder("src", /\.ts$/);

  test("every folder of src is a known room", () => {
    expect(sources.length).toBeGreaterThan(0);
    const found = new Set(sources.map(roomOf).filter((room) => room !== undefined));
    expect([...found].filter((room) => !(rooms as readonly string[]).includes(room))).toEqual([]);
  });

  test("imports go up the list only", () => {
    const objections = sources.flatMap((file) => importsOf(file).map((specifier) => objection(file, specifier)));
    expect(objections.filter((o) => o !== undefined)).toEqual([]);
  });

  test("plan knows shapes but no tensors", () => {
    const imports = /import\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"[^"]*\/tensor\/[^"]+"/g;
    const names = sources
      .filter((file) => roomOf(file) === "plan")
      .flatMap((file) => [...read(file).matchAll(imports)].flatMap((match) => match[1]!.split(",")))
      .map((name) => name.replace("type ", "").trim())
      .filter((name) => name !== "");
    expect(names.filter((name) => name !== "Shape" && name !== "elementsOf")).toEqual([]);
  });

  test("the rule can fail", () => {
    expect(objection(join("src", "optim", "adam.ts"), "../nn/module.ts")).toMatch(/must not know nn/);
    expect(objection(join("src", "device", "cpu.ts"), "../zero/engine.ts")).toMatch(/device comes before zero/);
    expect(objection(join("src", "zero", "engine.ts"), "node:fs")).toMatch(/touches no files/);
    expect(objection(join("src", "zero", "engine.ts"), "../index.ts")).toMatch(/not what lies around/);
    expect(objection(join("src", "nn", "models", "gpt2.ts"), "../module.ts")).toBeUndefined();
  });
});

test(`no file is longer than ${longestFile} lines`, () => {
  const files = ["src", "native", "test", "scripts", "bench", "examples", "bin"].flatMap((folder) =>
    filesUnder(folder, /\.(ts|mjs|js|cc|h|py|sh)$/),
  );
  const long = files
    .map((file) => ({ file, lines: read(file).split("\n").length - 1 }))
    .filter((f) => f.lines > longestFile);
  expect(long).toEqual([]);
});

test("nothing outside native/ speaks of paths that only Linux has", () => {
  const files = ["src", "bin", "scripts", "examples", "bench"].flatMap((folder) =>
    filesUnder(folder, /\.(ts|mjs|js)$/),
  );
  const pattern = /\/proc\/|\/sys\/(class|devices|fs|kernel)|\/dev\/shm/;
  expect(files.filter((file) => pattern.test(read(file)))).toEqual([]);
});
