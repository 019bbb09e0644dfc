/** A rank's swap: its folder comes and goes with it, what killed processes leave is found, and what cannot work is said at once. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { deviceFailure } from "../../src/device/failure.ts";
import type { NativeFailure } from "../../src/device/native.ts";
import { Swap } from "../../src/device/swap.ts";
import {
  checkRoom,
  findLeftovers,
  removeSwapFolder,
  removeSwapFoldersOf,
  SwapFolder,
  swapGround,
} from "../../src/device/swap-folder.ts";
import { measureShares, sharesOf } from "../../src/device/swap-speed.ts";
import { DiskError, InternalError, UsageError } from "../../src/errors/errors.ts";

const aio = { blockBytes: 1 << 16, queueDepth: 2, parallelism: 2 };
const memoryFolder = "/dev/shm";
const all = mkdtempSync(join(tmpdir(), "shunya-swap-folders-"));
let parent: string;
let count = 0;
beforeEach(() => {
  parent = join(all, String(count++));
  mkdirSync(parent);
});
afterAll(() => rmSync(all, { recursive: true, force: true }));

const open = (options: Partial<ConstructorParameters<typeof Swap>[0]> = {}): Swap =>
  new Swap({ folders: [parent], capacityBytes: 1 << 20, rank: 5, verify: true, ...aio, ...options });

describe("a swap's folder", () => {
  it("belongs to this user alone, says whose it is, and goes when it is disposed of", () => {
    const swap = open();
    const [folder] = swap.paths;
    expect(readdirSync(parent)).toEqual([
      expect.stringMatching(new RegExp(`^shunya-swap-${process.pid}-[0-9a-f]{8}$`)),
    ]);
    expect(statSync(folder!).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder!, "rank-0005.swap")).mode & 0o777).toBe(0o600);
    const owner = JSON.parse(readFileSync(join(folder!, "owner.json"), "utf8"));
    expect(owner).toEqual({ pid: process.pid, host: hostname(), startedAt: expect.any(String) });
    expect(Math.abs(Date.parse(owner.startedAt) - Date.now())).toBeLessThan(5000);
    swap.dispose();
    swap.dispose();
    expect(readdirSync(parent)).toEqual([]);
  });

  it("is one on each drive", () => {
    const folders = [join(parent, "a"), join(parent, "b")];
    for (const folder of folders) mkdirSync(folder);
    using swap = open({ folders, shares: [3, 1] });
    const sizes = swap.paths.map((folder) => statSync(join(folder, "rank-0005.swap")).size);
    expect(sizes).toEqual([12 << 16, 4 << 16]);
  });

  it("is not left behind where the swap cannot be made", () => {
    const good = join(parent, "good");
    mkdirSync(good);
    expect(() => open({ folders: [good, join(parent, "missing")] })).toThrow(UsageError);
    expect(() => open({ folders: [good], capacityBytes: 2 ** 50 })).toThrow(UsageError);
    expect(() => open({ folders: [good], shares: [1, 2] })).toThrow(InternalError);
    expect(() => open({ folders: [good], shares: [5000] })).toThrow(RangeError);
    expect(readdirSync(good)).toEqual([]);
  });

  it.skipIf(!existsSync(memoryFolder))("in memory is told, and counted as such", () => {
    using swap = open({ folders: [parent, memoryFolder] });
    expect(swap.memoryBytes).toBe(1 << 19);
    expect(swap.isDirect).toBe(false);
    expect(swap.notices).toEqual([expect.stringMatching(/^\/dev\/shm lies in memory.*host's memory$/)]);
    using onDrive = open();
    expect([onDrive.memoryBytes, onDrive.notices]).toEqual([0, []]);
  });
});

describe("a process with a swap", () => {
  async function start(end: "throw" | "exit" | "wait" | "listen"): Promise<{ child: ChildProcess; folder: string }> {
    const script = fileURLToPath(new URL("./swap-owner.mjs", import.meta.url));
    const child = spawn(process.execPath, ["--import", "tsx", script, parent, end], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [line] = await once(child.stdout!.setEncoding("utf8"), "data");
    return { child, folder: String(line).trim() };
  }

  it.each(["throw", "exit"] as const)("leaves nothing when it ends with %s", async (end) => {
    const { child } = await start(end);
    if (child.exitCode === null) await once(child, "exit");
    expect(readdirSync(parent)).toEqual([]);
  });

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "leaves nothing when %s ends it, which it still does",
    async (signal) => {
      const { child } = await start("wait");
      child.kill(signal);
      expect(await once(child, "exit")).toEqual([null, signal]);
      expect(readdirSync(parent)).toEqual([]);
    },
  );

  it("is left alone by a signal that it answers itself", async () => {
    const { child, folder } = await start("listen");
    child.kill("SIGINT");
    const [line] = await once(child.stdout!, "data");
    expect([String(line).trim(), child.exitCode]).toEqual(["heard", null]);
    expect(existsSync(folder)).toBe(true);
    child.kill("SIGTERM");
    await once(child, "exit");
    expect(readdirSync(parent)).toEqual([]);
  });

  it("that is killed leaves a folder, which is found with its size once it is gone, and can be removed", async () => {
    const { child, folder } = await start("wait");
    expect(findLeftovers(parent)).toEqual([]);
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    const [leftover, ...others] = findLeftovers(parent);
    expect(others).toEqual([]);
    expect(leftover).toMatchObject({ path: folder, pid: child.pid, host: hostname() });
    expect(leftover!.bytes).toBeGreaterThanOrEqual(1 << 20);
    expect(() => checkRoom(parent, 2 ** 50)).toThrow(/swap files that ended runs left/);
    removeSwapFolder(folder);
    expect(findLeftovers(parent)).toEqual([]);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("can have its folder removed by whoever killed it, and nobody else's", async () => {
    const [killed, other] = [await start("wait"), await start("wait")];
    killed.child.kill("SIGKILL");
    await once(killed.child, "exit");
    removeSwapFoldersOf([process.pid], [parent]);
    expect(readdirSync(parent)).toHaveLength(2);
    removeSwapFoldersOf([killed.child.pid!], [parent]);
    expect(readdirSync(parent).map((name) => join(parent, name))).toEqual([other.folder]);
    other.child.kill("SIGKILL");
    await once(other.child, "exit");
    removeSwapFoldersOf([other.child.pid!], [parent]);
    expect(readdirSync(parent)).toEqual([]);
  });
});

describe("leftovers", () => {
  const plant = (name: string, owner: unknown): string => {
    const path = join(parent, name);
    mkdirSync(path);
    writeFileSync(join(path, "owner.json"), typeof owner === "string" ? owner : JSON.stringify(owner));
    return path;
  };

  it("are not folders of running processes, of other machines, without an owner, or of other names", () => {
    using own = new SwapFolder(parent);
    const startedAt = new Date().toISOString();
    plant("shunya-swap-1-aa", { pid: 1, host: hostname(), startedAt });
    plant("shunya-swap-2-aa", { pid: 2 ** 22 + 1, host: "another-machine", startedAt });
    plant("shunya-swap-3-aa", "{");
    plant("my-shunya-swap-4-aa", { pid: 2 ** 22 + 1, host: hostname(), startedAt });
    expect(findLeftovers(parent)).toEqual([]);
    expect(existsSync(own.path)).toBe(true);
  });

  it("are those of dead processes, and of any number from before the machine started", () => {
    const dead = plant("shunya-swap-9-aa", { pid: 2 ** 22 + 1, host: hostname(), startedAt: new Date().toISOString() });
    const old = plant("shunya-swap-8-aa", {
      pid: process.pid,
      host: hostname(),
      startedAt: "2001-01-01T00:00:00.000Z",
    });
    expect(
      findLeftovers(parent)
        .map((l) => l.path)
        .sort(),
    ).toEqual([old, dead].sort());
  });

  it("of a folder that is not there are none", () => {
    expect(findLeftovers(join(parent, "nowhere"))).toEqual([]);
  });
});

describe("a folder that cannot be used", () => {
  it("is refused with its path and the reason", () => {
    const file = join(parent, "file");
    writeFileSync(file, "");
    expect(() => swapGround(join(parent, "nowhere"))).toThrow(/nowhere does not exist; name a folder/);
    expect(() => swapGround(file)).toThrow(/file is not a folder/);
    expect(() => swapGround(join(file, "below"))).toThrow(UsageError);
    expect(() => checkRoom(parent, 2 ** 50)).toThrow(
      / bytes free, and swap files need 1125899906842624; make room, or name/,
    );
    expect(checkRoom(parent, 0).freeBytes).toBeGreaterThan(0);
  });

  it.skipIf(process.getuid?.() === 0)("is refused where it cannot be written", () => {
    chmodSync(parent, 0o500);
    expect(() => swapGround(parent)).toThrow(/cannot be written: EACCES/);
    chmodSync(parent, 0o700);
  });
});

describe("a failure", () => {
  const failure = (code: string, details: object): NativeFailure =>
    Object.assign(new Error("native"), { code, details: JSON.stringify(details) }) as NativeFailure;
  const place = { rank: 3, file: "/drive/rank-0003.swap", operation: "write", offset: 65536, bytes: 4096 } as const;

  it.each([
    ["ENOSPC", /make room on that drive/],
    ["EDQUOT", /quota/],
    ["EFBIG", /ulimit -f/],
    ["EIO", /the drive failed.*last checkpoint/],
    ["EROFS", /read-only/],
    ["short", /full or failing/],
    ["checksum", /torn or flipped byte.*last checkpoint/],
    ["deleted", /must be left alone/],
    ["resized", /must be left alone/],
    ["ESOMETHING", /check the drive/],
  ])("of %s names file, offset and rank, and says what to do", (reason, advice) => {
    const error = deviceFailure(failure("DISK", { ...place, reason, what: "the system's words" }), String);
    expect(error).toBeInstanceOf(DiskError);
    expect((error as DiskError).place).toEqual({ ...place, reason });
    expect(error.message).toMatch(
      /^\/drive\/rank-0003\.swap \(rank 3\): write of 4096 bytes at offset 65536 failed: the system's/,
    );
    expect(error.message).toMatch(advice);
  });

  it("to follow the rule of records is our own", () => {
    expect(deviceFailure(failure("INTERNAL", { message: "a read of" }), String)).toBeInstanceOf(InternalError);
  });
});

describe("shares of drives", () => {
  it("are small whole numbers in the proportion of their bandwidth", () => {
    expect(sharesOf([4e9, 4e9])).toEqual([1, 1]);
    expect(sharesOf([6e9, 3e9, 1.5e9])).toEqual([4, 2, 1]);
    expect(sharesOf([7e9, 5e9])).toEqual([4, 3]);
    expect(sharesOf([7e9, 1e6])).toEqual([8, 1]);
  });

  it("are measured, and the measuring leaves nothing", async () => {
    const folders = [join(parent, "a"), join(parent, "b")];
    for (const folder of folders) mkdirSync(folder);
    const shares = await measureShares(folders, aio);
    expect(shares).toHaveLength(2);
    // The same drive twice.
    expect(Math.max(...shares) / Math.min(...shares)).toBeLessThan(4);
    expect(folders.flatMap((folder) => readdirSync(folder))).toEqual([]);
    expect(await measureShares([parent], aio)).toEqual([1]);
  });
});
