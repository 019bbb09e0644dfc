// Makes a checkout ready: packages, native core, compiled TypeScript. Does only what is out of date, one line per step done.
// It runs before anything is installed, so it may use nothing but node's own modules.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { buildNative } from "./build-native.mjs";
import { buildPage } from "./build-page.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const oldestNode = [20, 19];

const isBuildOnly = process.argv.includes("--build-only");

function stop(message) {
  console.error(message);
  process.exit(1);
}

function checkMachine() {
  if (process.platform === "win32") stop("Shunya does not run on Windows yet; use WSL 2 (Ubuntu), Linux or macOS.");
  const [major, minor] = process.versions.node.split(".").map(Number);
  const isOld = major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1]);
  if (isOld) stop(`Shunya needs Node ${oldestNode.join(".")} or newer; found ${process.versions.node}.`);
}

const secondsSince = (startMs) => `${((Date.now() - startMs) / 1000).toFixed(1)} s`;
const hashOf = (texts) => createHash("sha256").update(JSON.stringify(texts)).digest("hex");
const recorded = (path) => (existsSync(path) ? readFileSync(path, "utf8").trim() : undefined);

/** Runs a command with its output kept back: shown only when it fails. */
function runQuietly(command, args, what) {
  const run = spawnSync(command, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
  if (run.status === 0) return;
  const said = [run.stdout, run.stderr, run.error?.message].filter(Boolean).join("\n").trim();
  stop(`${what} failed:\n${said}`);
}

function installPackages() {
  const wanted = hashOf([readFileSync(join(root, "package-lock.json"), "utf8")]);
  const record = join(root, "node_modules", ".shunya-lock");
  if (recorded(record) === wanted) return;
  const startMs = Date.now();
  runQuietly("npm", ["ci", "--no-audit", "--no-fund"], "npm ci");
  writeFileSync(record, `${wanted}\n`);
  console.log(`setup: packages installed in ${secondsSince(startMs)}`);
}

async function buildCore() {
  const startMs = Date.now();
  try {
    const { compiled, linked } = await buildNative();
    if (linked) console.log(`setup: native core built, ${compiled} files compiled in ${secondsSince(startMs)}`);
  } catch (error) {
    stop(`setup: ${error.message}`);
  }
}

function filesUnder(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesUnder(path) : [path];
    });
}

function compileTypeScript() {
  const compiler = join(root, "node_modules", "typescript", "package.json");
  if (!existsSync(compiler)) stop('setup: typescript is not installed; run "npm run setup" first.');
  const inputs = [join(root, "tsconfig.json"), compiler, ...filesUnder(join(root, "src"))];
  const wanted = hashOf(inputs.map((path) => [relative(root, path), readFileSync(path, "utf8")]));
  const record = join(root, "build", "typescript.sha256");
  if (recorded(record) === wanted && existsSync(join(root, "dist", "index.js"))) return;
  const startMs = Date.now();
  // Files of sources that no longer exist must not linger: they would still be importable.
  rmSync(join(root, "dist"), { recursive: true, force: true });
  rmSync(record, { force: true });
  runQuietly(join(root, "node_modules", ".bin", "tsc"), ["-p", "tsconfig.json"], "setup: tsc");
  mkdirSync(dirname(record), { recursive: true });
  writeFileSync(record, `${wanted}\n`);
  console.log(`setup: TypeScript compiled in ${secondsSince(startMs)}`);
}

/** After the TypeScript, which clears the folder that the page's script lies in. */
async function bundlePage() {
  const startMs = Date.now();
  try {
    if (await buildPage()) console.log(`setup: the picture's page bundled in ${secondsSince(startMs)}`);
  } catch (error) {
    stop(`setup: esbuild: ${error.message}`);
  }
}

checkMachine();
if (!isBuildOnly) installPackages();
await buildCore();
compileTypeScript();
await bundlePage();
