// Builds build/shunya.node with the plain C++ compiler: no node-gyp, nothing downloaded, node built-ins only.
//
// Kernels are compiled once per instruction set, everything else once. Objects are kept in build/obj under a hash of what
// they are made of, so a second build compiles only what changed.
import { execFile, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const nativeFolder = join(root, "native");
const objectFolder = join(root, "build", "obj");
const output = join(root, "build", "shunya.node");
const nodeHeaders = join(root, "node_modules", "node-api-headers", "include");
const maxJobs = 2;

// Contraction is off so that a fused multiply-add happens exactly where the kernels write one, on every compiler.
const kernelFlags = ["-O3", "-ffp-contract=off", "-Wno-psabi"];
const commonFlags = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"];
const avx2Flags = ["-mavx2", "-mfma", "-mf16c"];
const avx512Flags = [
  ...["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma", "-mf16c"],
  "-mprefer-vector-width=512",
];

/** A compiler's first line of `--version`, or undefined where it does not run. */
function versionOf(compiler) {
  const run = spawnSync(compiler, ["--version"], { encoding: "utf8" });
  return run.status === 0 ? run.stdout.split("\n", 1)[0] : undefined;
}

function findCompiler() {
  const tried = process.env.CXX ? [process.env.CXX] : ["g++", "c++", "clang++"];
  for (const name of tried) {
    const version = versionOf(name);
    if (version) return { name, version };
  }
  const hint =
    process.platform === "darwin" ? "xcode-select --install" : "sudo apt-get install g++ (or your system's package)";
  throw new Error(`no C++ compiler found (tried ${tried.join(", ")}). Install one: ${hint}, or name it in CXX.`);
}

function accepts(compiler, flag) {
  return spawnSync(compiler, [flag, "-x", "c++", "-fsyntax-only", "-"], { input: "" }).status === 0;
}

/** Instruction sets to build kernels for, the plainest first: see `link`. */
function instructionSets(compiler) {
  if (process.arch !== "x64") return [{ name: "portable", flags: [] }];
  const sets = [
    { name: "portable", flags: [] },
    { name: "avx2", flags: avx2Flags },
    { name: "avx512", flags: avx512Flags },
  ];
  if (accepts(compiler, "-mavx512bf16")) sets.push({ name: "avx512bf16", flags: [...avx512Flags, "-mavx512bf16"] });
  return sets;
}

const sourcesIn = (folder) =>
  readdirSync(join(nativeFolder, folder))
    .filter((name) => name.endsWith(".cc"))
    .sort()
    .map((name) => join(nativeFolder, folder, name));

/** One entry per object file: { source, flags, label }. */
function plannedObjects(compiler) {
  const sets = instructionSets(compiler);
  const x86 = process.arch === "x64" ? ["-DSHUNYA_HAVE_X86"] : [];
  const withoutBf16 = process.arch === "x64" && sets.length < 4 ? ["-DSHUNYA_NO_AVX512BF16"] : [];
  const isOnce = (source) => source.endsWith("isa.cc");
  const kernels = sourcesIn("kernels");
  const once = kernels.filter(isOnce).map((source) => ({ source, flags: ["-O2", ...x86, ...withoutBf16], label: "" }));
  const runtime = sourcesIn("runtime").map((source) => ({ source, flags: ["-O2", `-I${nodeHeaders}`], label: "" }));
  const perSet = sets.flatMap((set) =>
    kernels
      .filter((source) => !isOnce(source))
      .map((source) => ({
        source,
        flags: [`-DSHUNYA_ISA=${set.name}`, ...kernelFlags, ...set.flags],
        label: set.name,
      })),
  );
  return [...runtime, ...once, ...perSet].map((o) => ({ ...o, flags: [...commonFlags, ...o.flags] }));
}

/** The text of a source and of every header of ours that it includes, directly or not. */
function textWithIncludes(path, seen = new Set()) {
  if (seen.has(path) || !existsSync(path)) return "";
  seen.add(path);
  const text = readFileSync(path, "utf8");
  const included = [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)];
  return text + included.map((match) => textWithIncludes(resolve(dirname(path), match[1]), seen)).join("");
}

function objectPath(compiler, { source, flags }) {
  const portableFlags = flags.map((flag) => flag.replace(root, "."));
  const hash = createHash("sha256").update(JSON.stringify([compiler.version, portableFlags, textWithIncludes(source)]));
  const name = relative(nativeFolder, source).replace(/[/\\]/g, "-").replace(/\.cc$/, "");
  return join(objectFolder, `${name}-${hash.digest("hex").slice(0, 20)}.o`);
}

async function compile(compiler, object) {
  const temporary = `${object.path}.${process.pid}.tmp`;
  try {
    const { stderr } = await promisify(execFile)(
      compiler.name,
      [...object.flags, "-c", object.source, "-o", temporary],
      {
        maxBuffer: 1 << 26,
      },
    );
    if (stderr) process.stderr.write(stderr);
  } catch (error) {
    rmSync(temporary, { force: true });
    const what = `${relative(root, object.source)}${object.label ? ` for ${object.label}` : ""}`;
    throw new Error(`${compiler.name} could not compile ${what}:\n${error.stderr || error.message}`);
  }
  renameSync(temporary, object.path);
}

async function compileAll(compiler, objects) {
  const waiting = objects.filter((object) => !existsSync(object.path));
  const total = waiting.length;
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await compile(compiler, next);
  };
  await Promise.all(Array.from({ length: maxJobs }, worker));
  return total;
}

/**
 * Objects are linked plainest instruction set first: of an inline function that several objects carry (a standard library's)
 * the linker keeps the first copy, which must run on every machine.
 */
function link(compiler, objects) {
  const temporary = `${output}.${process.pid}.tmp`;
  const platform = process.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : ["-Wl,-z,now"];
  const args = ["-shared", "-pthread", ...platform, ...objects.map((object) => object.path), "-o", temporary];
  const run = spawnSync(compiler.name, args, { encoding: "utf8" });
  if (run.status !== 0) {
    rmSync(temporary, { force: true });
    throw new Error(`${compiler.name} could not link the native core:\n${run.stderr}`);
  }
  renameSync(temporary, output);
}

/** Objects of earlier sources go after an hour: a build that runs beside this one may still want them. */
function removeStale(objects) {
  const kept = new Set(objects.map((object) => object.path));
  for (const name of readdirSync(objectFolder)) {
    const path = join(objectFolder, name);
    const isOld =
      (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY) < Date.now() - 3_600_000;
    if (isOld && !kept.has(path) && /\.(o|tmp)$/.test(name)) rmSync(path, { force: true });
  }
}

/** Builds what is out of date. Returns how many files were compiled, and whether the addon was linked anew. */
export async function buildNative() {
  if (!existsSync(join(nodeHeaders, "node_api.h")))
    throw new Error('node-api-headers is not installed; run "npm ci" first.');
  const compiler = findCompiler();
  mkdirSync(objectFolder, { recursive: true });
  const objects = plannedObjects(compiler.name).map((object) => ({ ...object, path: objectPath(compiler, object) }));
  const manifestPath = join(objectFolder, "linked.txt");
  const manifest = objects.map((object) => relative(objectFolder, object.path)).join("\n");
  const isLinked = existsSync(output) && existsSync(manifestPath) && readFileSync(manifestPath, "utf8") === manifest;
  if (isLinked) return { compiled: 0, linked: false, output };
  const compiled = await compileAll(compiler, objects);
  link(compiler, objects);
  writeFileSync(manifestPath, manifest);
  removeStale(objects);
  return { compiled, linked: true, output };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const startMs = Date.now();
  try {
    const { compiled, linked } = await buildNative();
    const seconds = ((Date.now() - startMs) / 1000).toFixed(1);
    console.log(linked ? `native core built: ${compiled} files compiled in ${seconds} s` : "native core is up to date");
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
