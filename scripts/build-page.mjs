// Bundles the script of the picture's page (src/report/page) into one file, which the command puts into each page that it writes.
// It lies in dist/, so that the package has it too. Needs esbuild, and nothing else but node's own modules.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, "src");
const output = join(root, "dist", "footprint-page.js");
const record = join(root, "build", "footprint-page.sha256");

function filesOf(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

function wantedHash() {
  const inputs = [
    join(root, "node_modules", "esbuild", "package.json"),
    fileURLToPath(import.meta.url),
    ...filesOf(source),
  ];
  const texts = inputs.map((path) => [relative(root, path), readFileSync(path, "utf8")]);
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex");
}

/** @returns whether it was out of date. Throws what esbuild says of broken source. */
export async function buildPage() {
  const wanted = wantedHash();
  if (existsSync(output) && existsSync(record) && readFileSync(record, "utf8").trim() === wanted) return false;
  const { build } = await import("esbuild");
  await build({
    entryPoints: [join(source, "report", "page", "main.ts")],
    outfile: output,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    logLevel: "silent",
  });
  mkdirSync(dirname(record), { recursive: true });
  writeFileSync(record, `${wanted}\n`);
  return true;
}
