// Offload as a user meets it: what train says of tiers, budgets, folders that cannot be used, and endings that leave nothing.
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import type { LoggedStep } from "../../src/report/step-record.ts";
import { until } from "../launch/processes.ts";
import { root, run, start, temporaryFolder, tinyTokens, tinyTraining, writeFiles } from "./command.ts";

const here = temporaryFolder();
const tiny = [...tinyTraining, "--data", tinyTokens, "--ranks", "2"];
const zero = (path: string): string[] => ["--set", `zero_optimization.${path}`];
const onDisk = (folder: string): string[] => [
  ...["--stage", "3", ...zero("offload_optimizer.device=nvme"), ...zero("offload_param.device=nvme")],
  ...zero(`offload_optimizer.nvme_path=${folder}`),
];
let count = 0;
function swapFolder(): string {
  const folder = join(here, `swap${count++}`);
  mkdirSync(folder);
  return folder;
}

test("states on disk: what is where is said before, what went there and back after, and nothing is left", async () => {
  const [swap, log] = [swapFolder(), join(here, "disk.ndjson")];
  const { exitCode, stdout, stderr } = await run([...tiny, ...onDisk(swap), "--steps", "3", "--log-json", log]);
  expect(exitCode).toBe(exitCodes.ok);
  expect(stderr.replace(/^warning: (pin_memory|the file system of).*\n/gm, "")).toBe("");
  expect(stdout).toMatch(/^ +[\d.]+ MB of host memory on a rank at the peak\n.*\n +[\d.]+ MB on disk for each rank$/m);
  expect(stdout).toMatch(new RegExp(`^disk +${swap}: `, "m"));
  expect(stdout).toMatch(
    /^at rest on each rank +device +host +disk\n.*\nparameters +- +- +[\d.]+ [KM]B\ngradients +- +[\d.]+ KB +-\n/m,
  );
  expect(stdout).toMatch(/^Host memory of ranks 0-1, each, in bytes:$/m);
  expect(stdout).toMatch(/^Disk of ranks 0-1, each, in bytes:$/m);
  expect(stdout).toMatch(/^Copies of ranks 0-1, each, in elements a step \(disk: bytes\):$/m);
  for (const copy of ["device to host", "host to device", "disk read", "disk write"]) {
    const [, expected, measured] = new RegExp(`^${copy} +\\d+ +([\\d,]+) +([\\d,]+) `, "m").exec(stdout)!;
    expect(measured, copy).toBe(expected);
  }
  expect(stdout).toMatch(/^Written to disk in all: [\d.]+ MB, [\d.]+ MB of it before the first step/m);
  expect(stdout).toMatch(/^Page-locked host memory of rank 0: /m);
  expect(readdirSync(swap)).toEqual([]);
  for (const line of readFileSync(log, "utf8").trim().split("\n"))
    for (const { memory, traffic } of (JSON.parse(line) as LoggedStep).ranks) {
      expect(memory.device.optimizer.current + memory.host.optimizer.current).toBe(0);
      expect(memory.disk.optimizer.current).toBeGreaterThan(0);
      expect(memory.disk.optimizer.master.current).toBe(memory.disk.optimizer.current / 3);
      expect(memory.host.gradients.current).toBeGreaterThan(0);
      expect(traffic.down.elementsSent * 4).toBe(traffic.down.bytesSent);
      expect(traffic.diskRead.bytesReceived).toBeGreaterThan(memory.disk.optimizer.current);
      expect(traffic.diskWrite.bytesSent).toBe(memory.disk.optimizer.current + memory.disk.parameters.current);
    }
});

test("two folders: both are named, both are used, both are empty at the end", async () => {
  const [one, two] = [swapFolder(), swapFolder()];
  const flags = [...onDisk(one), "--set", `shunya.nvme_paths=["${two}"]`];
  const { child, output, ended } = start([...tiny, "--steps", "100000", ...flags]);
  await until(() => /^step 10\//m.test(output.stdout) || child.exitCode !== null, 20_000);
  for (const folder of [one, two]) expect(readdirSync(folder)).toHaveLength(2);
  child.kill("SIGINT");
  const { exitCode, stdout } = await ended;
  expect(exitCode).toBe(exitCodes.interrupted);
  expect(stdout).toMatch(new RegExp(`^disk +${one}: .*\\n +${two}: `, "m"));
  for (const folder of [one, two]) expect(readdirSync(folder)).toEqual([]);
  const missing = await run([...tiny, "--steps", "1", ...onDisk(one), "--set", "shunya.nvme_paths=/missing"]);
  expect(missing).toMatchObject({ exitCode: exitCodes.user, stdout: "" });
  expect(missing.stderr).toMatch(/^error: \/missing does not exist/);
});

test("no word of tiers where all states are on the device", async () => {
  const { stdout } = await run([...tiny, "--steps", "1", "--stage", "3"]);
  expect(stdout).not.toMatch(/host|disk|locked/i);
});

test("a budget of the host refuses, by kind, with what fits; a larger one does not", async () => {
  const flags = [...tiny, "--stage", "1", "--steps", "1", ...zero("offload_optimizer.device=cpu")];
  const { exitCode, stderr, stdout } = await run([...flags, "--host-memory", "500KB", "--device-memory", "3.19MB"]);
  expect(exitCode).toBe(exitCodes.memory);
  expect(stdout).toBe("");
  expect(stderr).toMatch(
    /^error: ZeRO stage 1 needs [\d.]+ MB of host memory a rank, and the budget is 500 KB\.\nNothing/,
  );
  expect(stderr).toMatch(/^host: kind .*\n.*\noptimizer +/m);
  expect(stderr).toMatch(/^1 \* +host +device .* no: host/m);
  expect(stderr).toMatch(
    /^Stage 2 without offload fits:\n {2}--stage 2 \\\n {2}--set zero_optimization\.offload_optimizer\.device=none$/m,
  );
  const advised = ["--stage", "2", ...zero("offload_optimizer.device=none")];
  expect(await run([...flags, ...advised, "--host-memory", "500KB", "--device-memory", "3.19MB"])).toMatchObject({
    exitCode: exitCodes.ok,
  });
  expect(await run([...flags, "--host-memory", "2MB"])).toMatchObject({ exitCode: exitCodes.ok });
});

test("a folder in memory is the host's: said, and counted to its budget", {
  skip: !existsSync("/dev/shm"),
}, async () => {
  const folder = mkdtempSync("/dev/shm/shunya-cli-");
  try {
    const flags = [...tiny, "--steps", "1", ...onDisk(folder)];
    const { exitCode, stderr } = await run(flags);
    expect(exitCode).toBe(exitCodes.ok);
    expect(stderr).toMatch(new RegExp(`^warning: ${folder} lies in memory, not on a drive: `, "m"));
    // What rests on the host alone would fit.
    const refused = await run([...flags, "--host-memory", "2.5MB"]);
    expect(refused.exitCode).toBe(exitCodes.memory);
    expect(refused.stderr).toMatch(/of host memory a rank, and the budget is 2\.50 MB\.\n/);
    expect(refused.stderr).toMatch(/^swap files +[\d.]+ MB /m);
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("folders that cannot be used are refused before anything begins", async () => {
  const cases: [folder: string, wanted: RegExp][] = [
    [join(here, "missing"), /^error: .*missing does not exist; name a folder/],
    [tinyTokens, /^error: .*tokens\.bin is not a folder; name a folder/],
  ];
  for (const [folder, wanted] of cases) {
    const { exitCode, stderr, stdout } = await run([...tiny, "--steps", "1", ...onDisk(folder)]);
    expect({ exitCode, stdout }).toEqual({ exitCode: exitCodes.user, stdout: "" });
    expect(stderr).toMatch(wanted);
  }
  const nowhere = await run([...tiny, "--steps", "1", "--stage", "2", ...zero("offload_optimizer.device=nvme")]);
  expect(nowhere).toMatchObject({ exitCode: exitCodes.user, stdout: "" });
  expect(nowhere.stderr).toMatch(/^error: zero_optimization\.offload_optimizer\.nvme_path is left out, .*--set /);
});

/** The superuser. */
const mayWriteAnywhere = process.getuid?.() === 0;

test("a read-only folder", {
  skip: mayWriteAnywhere,
}, async () => {
  const folder = swapFolder();
  chmodSync(folder, 0o500);
  const { exitCode, stderr } = await run([...tiny, "--steps", "1", ...onDisk(folder)]);
  expect(exitCode).toBe(exitCodes.user);
  expect(stderr).toMatch(/cannot be written/);
});

test("a buffer smaller than the largest part is refused with the number to write", async () => {
  const flags = [...tiny, "--steps", "1", ...onDisk(swapFolder()), ...zero("stage3_param_persistence_threshold=0")];
  const { exitCode, stderr } = await run([...flags, ...zero("offload_param.buffer_size=1000")]);
  expect(exitCode).toBe(exitCodes.user);
  const [, number] = /^error: zero_optimization\.offload_param\.buffer_size: found 1000; .* at least (\d+)/.exec(
    stderr,
  )!;
  expect(await run([...flags, ...zero(`offload_param.buffer_size=${number}`)])).toMatchObject({ exitCode: 0 });
});

const forever = ["--steps", "100000"];
const isTraining = /^step 10\//m;

test("Ctrl-C, a second one, and a reader that goes away: nothing is left", async () => {
  for (const end of ["once", "twice", "reader"] as const) {
    const swap = swapFolder();
    const { child, output, ended } = start([...tiny, ...forever, ...onDisk(swap)]);
    await until(() => isTraining.test(output.stdout) || child.exitCode !== null, 20_000);
    expect(readdirSync(swap), end).toHaveLength(2);
    if (end === "reader") child.stdout!.destroy();
    else process.kill(-child.pid!, "SIGINT");
    if (end === "twice") {
      await new Promise((resolve) => setTimeout(resolve, 350));
      if (child.exitCode === null) process.kill(-child.pid!, "SIGINT");
    }
    expect((await ended).exitCode, end).toBe(exitCodes.interrupted);
    await until(() => readdirSync(swap).length === 0, 5000);
    expect(readdirSync(swap), end).toEqual([]);
  }
});

/** Process numbers of the ranks, by their swap folders. */
const ranksIn = (swap: string): number[] =>
  readdirSync(swap).map((name) => Number(/^shunya-swap-(\d+)-/.exec(name)![1]));

test("a rank that is killed: the launcher removes what it left", async () => {
  const swap = swapFolder();
  const { child, output, ended } = start([...tiny, ...forever, ...onDisk(swap)]);
  await until(() => isTraining.test(output.stdout) || child.exitCode !== null, 20_000);
  process.kill(ranksIn(swap)[0]!, "SIGKILL");
  const { exitCode, stderr } = await ended;
  expect(exitCode).toBe(exitCodes.lostRank);
  expect(stderr).toMatch(/^error: rank [01]: was ended by SIGKILL/m);
  expect(readdirSync(swap)).toEqual([]);
});

test("a launcher that is killed: the ranks remove their own", async () => {
  const swap = swapFolder();
  const { child, output, ended } = start([...tiny, ...forever, ...onDisk(swap)]);
  await until(() => isTraining.test(output.stdout) || child.exitCode !== null, 20_000);
  child.kill("SIGKILL");
  await ended;
  await until(() => readdirSync(swap).length === 0, 10_000);
  expect(readdirSync(swap)).toEqual([]);
});

test("a swap file that is cut in mid-training: the file, the offset and the rank are named, and all ranks stop", async () => {
  const swap = swapFolder();
  const { child, output, ended } = start([...tiny, ...forever, ...onDisk(swap)]);
  await until(() => isTraining.test(output.stdout) || child.exitCode !== null, 20_000);
  const folder = join(swap, readdirSync(swap)[0]!);
  const file = readdirSync(folder).find((name) => name.endsWith(".swap"))!;
  writeFileSync(join(folder, file), "");
  const { exitCode, stderr } = await ended;
  expect(exitCode).toBe(exitCodes.disk);
  const [, rank] = /^rank-0*(\d+)\.swap$/.exec(file)!;
  expect(stderr).toMatch(
    new RegExp(
      `^error: rank ${rank}: ${join(folder, file)} \\(rank ${rank}\\): \\w+ of \\d+ bytes at offset \\d+ failed`,
      "m",
    ),
  );
  expect(stderr.match(/^error: /gm)).toHaveLength(1);
  expect(readdirSync(swap)).toEqual([]);
});

/** A limit of this process and no other, as `ulimit -f` sets one for a shell. */
const limitsFiles = `
  import { execFileSync } from "node:child_process";
  if (process.env.RANK === "1") execFileSync("prlimit", ["--pid", String(process.pid), "--fsize=100000"]);`;
const canLimit = ((): boolean => {
  try {
    execFileSync("prlimit", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

test("a disk on which no more fits, below a script of one's own", { skip: !canLimit }, async () => {
  const swap = swapFolder();
  const config = {
    train_micro_batch_size_per_gpu: 2,
    optimizer: { type: "AdamW" },
    zero_optimization: { stage: 2, offload_optimizer: { device: "nvme", nvme_path: swap } },
  };
  writeFiles(here, {
    "full.mts": `${limitsFiles}
      import { initialize, Gpt2 } from ${JSON.stringify(join(root, "src/index.ts"))};
      const model = new Gpt2({ vocabularySize: 64, positions: 16, hidden: 64, layers: 2, heads: 2, layerNormEpsilon: 1e-5,
        initializerRange: 0.02, embeddingDropout: 0, attentionDropout: 0, residualDropout: 0, tied: true });
      await using engine = await initialize({ model, config: ${JSON.stringify(config)}, hostMemoryBytes: 1e9 });`,
  });
  const { exitCode, stderr } = await run(["launch", "--ranks", "2", join(here, "full.mts")]);
  expect(stderr).toMatch(/^error: rank 1: .*rank-0001\.swap \(rank 1\): .* at offset \d+ failed: .*ulimit -f/m);
  expect(exitCode).toBe(exitCodes.disk);
  expect(readdirSync(swap)).toEqual([]);
});

test("memory that the system does not let be locked is said once, with the limit, and training goes on", {
  skip: !canLimit,
}, () => {
  // The superuser may lock all it likes, unless that right is taken from it.
  const unprivileged = process.getuid?.() === 0 ? ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"] : [];
  const flags = [...tiny, "--steps", "2", "--stage", "2", ...zero("offload_optimizer.device=cpu")];
  const command = ["--memlock=102400", ...unprivileged, process.execPath, join(root, "bin/shunya.js"), ...flags];
  const { status, stdout, stderr } = spawnSync("prlimit", command, { cwd: root, encoding: "utf8" });
  expect(status).toBe(exitCodes.ok);
  expect(
    stderr.match(/^warning: pin_memory: \d+ bytes of host memory are not page-locked .* may lock 102400 bytes/gm),
  ).toHaveLength(1);
  expect(stdout).toMatch(/^Page-locked host memory of rank 0: [\d.]+ (K?B) \([\d.]+ MB refused\)\.$/m);
});

test("leftovers are mentioned where a run uses their folder, and shown and removed by the doctor", async () => {
  const swap = swapFolder();
  const left = join(swap, "shunya-swap-4194305-abcd");
  const startedAt = new Date().toISOString();
  writeFiles(left, {
    "owner.json": { pid: 4_194_305, host: hostname(), startedAt },
    "rank-0000.swap": new Uint8Array(50_000),
  });
  const { stderr } = await run([...tiny, "--steps", "1", ...onDisk(swap)]);
  expect(
    stderr.match(new RegExp(`^warning: ${swap} holds [\\d.]+ KB .*"shunya doctor --remove-leftovers ${swap}"`, "gm")),
  ).toHaveLength(1);
  const shown = await run(["doctor", "--leftovers", swap]);
  expect(shown.stdout).toMatch(
    new RegExp(`^leftovers +1 swap folder of ended runs in ${swap}\\n +${left}: [\\d.]+ KB, of process 4194305`, "m"),
  );
  expect(existsSync(left)).toBe(true);
  const removed = await run(["doctor", "--remove-leftovers", swap]);
  expect(removed.stdout).toMatch(/shunya-swap-4194305-abcd.*\n +removed$/m);
  expect(readdirSync(swap)).toEqual([]);
  expect(await run(["doctor", "--leftovers", join(here, "missing")])).toMatchObject({ exitCode: exitCodes.user });
});
