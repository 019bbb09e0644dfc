// `npm run storm [KILLS [WORDS]]`: kills saving runs at random moments, and fills the disk under them, in every tier and on one and two ranks. After
// each the newest checkpoint must load, be no older than what was published, and be where the next run goes on. Minutes, so
// no part of the tests; test/checkpoint/kills.test.ts is a short one. WORDS choose runs by name, SHUNYA_STORM_SEED other moments.
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { publishedSteps } from "../src/checkpoint/checkpoint-folders.ts";
import { findTraining } from "../src/checkpoint/find-training.ts";
import { gpt2TensorShapes } from "../src/checkpoint/gpt2-tensors.ts";
import { defaultFormat } from "../src/checkpoint/weight-names.ts";
import { type ModelTensor, writeModel } from "../src/checkpoint/write-model.ts";
import { philox4x32, words } from "../src/data/philox.ts";
import type { Gpt2Config } from "../src/nn/models/gpt2-config.ts";
import { renderTable } from "../src/report/table.ts";
import { elementsOf } from "../src/tensor/tensor.ts";
import { gpt2 } from "../test/laws/models.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const script = join(root, "test/checkpoint/saving-process.ts");
const seed = Number(process.env.SHUNYA_STORM_SEED ?? 1);
const kills = Number(process.argv[2] ?? 102);

interface Weather {
  readonly name: string;
  readonly ranks: number;
  readonly keep: string;
  readonly zero: object;
  /** Whether half of the model is frozen, and stays in the folder it came from. */
  readonly hasBase?: true;
}

const build = join(root, "build");
mkdirSync(build, { recursive: true });
const here = mkdtempSync(join(build, "storm-"));
const offload = (optimizer: string, parameters: string) => ({
  offload_optimizer: { device: optimizer, nvme_path: here },
  offload_param: { device: parameters, nvme_path: here },
});
const allWeathers: readonly Weather[] = [
  { name: "1 rank, stage 0", ranks: 1, keep: "all", zero: { stage: 0 } },
  { name: "1 rank, stage 0, --keep 2", ranks: 1, keep: "2", zero: { stage: 0 } },
  { name: "1 rank, stage 1, states on the host", ranks: 1, keep: "2", zero: { stage: 1, ...offload("cpu", "none") } },
  { name: "1 rank, stage 3, all on disk", ranks: 1, keep: "2", zero: { stage: 3, ...offload("nvme", "nvme") } },
  { name: "2 ranks, stage 0", ranks: 2, keep: "2", zero: { stage: 0 } },
  { name: "1 rank, stage 3, half in a base", ranks: 1, keep: "2", zero: { stage: 3 }, hasBase: true },
  { name: "2 ranks, stage 3, states on disk", ranks: 2, keep: "2", zero: { stage: 3, ...offload("nvme", "none") } },
];

/** A model folder of the shape that `script` trains. */
const base = join(here, "base");
const { config } = gpt2({ hidden: 128 }) as { config: Gpt2Config };
const tensors = [...gpt2TensorShapes(config)].map(([name, shape]) => ({ name, shape }));
const values = async function* ({ shape }: ModelTensor) {
  yield Float32Array.from({ length: elementsOf(shape) }, (_, i) => 0.05 * Math.sin(i));
};
await writeModel(base, { config, tensors, values }, defaultFormat);

const weathers = allWeathers.filter(({ name }) => name.includes(process.argv[3] ?? ""));

interface Outcome {
  kills: number;
  /** Kills that found a save under way. */
  midway: number;
  full: number;
  steps: number;
}

function check(isTrue: boolean, what: string): asserts isTrue {
  if (!isTrue) throw new Error(what);
}

class Run {
  said = "";
  failed = "";
  readonly child: ChildProcess;
  readonly ended: Promise<void>;

  constructor(weather: Weather, folder: string) {
    const config = JSON.stringify({ zero_optimization: weather.zero });
    const own = [script, folder, weather.keep, config, ...(weather.hasBase ? [base] : [])];
    const launched = weather.ranks === 1 ? own : [join(root, "bin/shunya.js"), "launch", "--ranks", "2", ...own];
    this.child = spawn(process.execPath, ["--import", "tsx", ...launched], {
      ...{ cwd: root, detached: true, stdio: ["ignore", "pipe", "pipe"] },
    });
    this.child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      this.said += text;
    });
    this.child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.failed += text;
    });
    this.ended = new Promise((resolve) => this.child.once("close", () => resolve()));
  }

  last(word: string): number {
    return Number([...this.said.matchAll(new RegExp(`^${word} (\\d+)$`, "gm"))].at(-1)?.[1] ?? 0);
  }

  async says(word: string): Promise<void> {
    while (!this.said.includes(word)) {
      check(this.child.exitCode === null, `a run ended by itself: ${this.said}${this.failed}`);
      await sleep(2);
    }
  }

  async kill(): Promise<void> {
    process.kill(-this.child.pid!, "SIGKILL");
    await this.ended;
  }

  /** Itself and its ranks. */
  pids(): number[] {
    const { pid } = this.child;
    const children = spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" }).stdout;
    return [pid!, ...children.trim().split(/\s+/).filter(Boolean).map(Number)];
  }
}

function random(i: number): number {
  const out = new Uint32Array(4);
  philox4x32(Uint32Array.of(i, 0, 0, 0), ...words(seed), out);
  return out[0]! / 2 ** 32;
}

let drawn = 0;

async function publishedIn(folder: string): Promise<number> {
  if (!existsSync(folder)) return 0;
  await using newest = await findTraining(folder, { onDamaged: (text) => check(false, text) });
  return newest.manifest.step;
}

/** One kill after another on the same folder, and at times a disk that takes no more. */
async function chain(weather: Weather, count: number, fillsDisk: boolean): Promise<Outcome> {
  const folder = join(here, String(weathers.indexOf(weather)));
  const outcome: Outcome = { kills: 0, midway: 0, full: 0, steps: 0 };
  for (let i = 0; i < count; i++) {
    const run = new Run(weather, folder);
    const isFull = fillsDisk && i % 4 === 3;
    // At times before the first save: while it starts, reads or makes its files.
    if (i % 5 === 4) await sleep(3000 * random(drawn++));
    else {
      await run.says("saved ");
      await sleep(200 * random(drawn++));
    }
    if (isFull) {
      await run.says("saved ");
      // A limit on the size of files, somewhere within a rank's: what lies beyond is refused, as on a full disk.
      for (const pid of run.pids())
        execFileSync("prlimit", [`--pid=${pid}`, `--fsize=${Math.floor(2e6 * random(drawn++))}:`]);
      await run.ended;
      check(
        /^refused .*could not be saved, and those before it are as they were/m.test(run.said),
        `${run.said}${run.failed}`,
      );
      check(
        readdirSync(folder).every((name) => name.startsWith("step-")),
        "a refused save left something behind",
      );
      outcome.full++;
    } else {
      await run.kill();
      check(run.failed === "" && !run.said.includes("warning"), `${run.said}${run.failed}`);
      outcome.kills++;
      if (existsSync(folder)) outcome.midway += Number(readdirSync(folder).some((name) => name.includes(".partial-")));
    }
    // What had been published is where it went on, and one more may have been published before it could say so.
    check(
      !run.said.includes("resumed ") || run.last("resumed") === outcome.steps,
      `went on from another step: ${run.said}`,
    );
    const published = await publishedIn(folder);
    const told = Math.max(run.last("saved"), outcome.steps);
    check(published === told || published === told + 1, `published ${published}, told ${told}`);
    outcome.steps = published;
  }
  for (const { folder: step } of existsSync(folder) ? await publishedSteps(folder) : []) await publishedIn(step);
  return outcome;
}

function hasLimits(): boolean {
  try {
    execFileSync("prlimit", ["--version"], { stdio: "ignore" });
    execFileSync("ps", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    process.stdout.write("no prlimit or ps here: full disks are left out\n");
    return false;
  }
}

try {
  const fillsDisk = hasLimits();
  // Every fourth run meets a full disk instead.
  const runs = Math.ceil((kills / weathers.length) * (fillsDisk ? 4 / 3 : 1));
  const rows: string[][] = [];
  for (const weather of weathers) {
    // A limit on files stops swap files as well, and a run of which these are lost ends with that.
    const hasSwap = JSON.stringify(weather.zero).includes("nvme");
    const { kills, midway, full, steps } = await chain(weather, runs, fillsDisk && !hasSwap);
    rows.push([weather.name, ...[kills, midway, full, steps].map(String)]);
    process.stdout.write(`${weather.name}: ${kills} kills, ${full} full disks\n`);
  }
  const headers = ["run", "kills", "of them during a save", "full disks", "steps survived"];
  const columns = headers.map((header, i) => ({ header, align: i === 0 ? ("left" as const) : ("right" as const) }));
  process.stdout.write(`\n${renderTable({ columns, rows })}\nnothing was lost\n`);
} finally {
  rmSync(here, { recursive: true, force: true });
}
