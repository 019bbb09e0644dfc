/** The native swap: what is written is read, over any number of files; everything else is a failure that says where. */
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { encode } from "../../src/device/encode.ts";
import { loadNative } from "../../src/device/native.ts";
import { failureOf, RecordModel, SwapBench, sector, type TestSwap } from "./swap-support.ts";

const native = loadNative();
const memoryFolder = "/dev/shm";
const hasMemoryFolder = existsSync(memoryFolder);
let bench: SwapBench;
beforeAll(() => {
  bench = new SwapBench();
});
afterAll(() => bench.close());

const equal = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

describe("records", () => {
  const record = fc.record({ at: fc.nat(63), sectors: fc.integer({ min: 1, max: 40 }), isWrite: fc.boolean() });
  const capacityBytes = 64 * sector;

  it("are read as they were written and no other way, over any files, shares and blocks", async () => {
    const seen = { read: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 9 }),
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        fc.boolean(),
        fc.array(record, { minLength: 1, maxLength: 12 }),
        async (blockSectors, shares, requestsInFlight, verify, direct, records) => {
          const blockBytes = blockSectors * sector;
          const swap = bench.open({ capacityBytes, blockBytes, shares, requestsInFlight, verify, direct });
          const model = new RecordModel(capacityBytes, blockBytes);
          const written: { offset: number; bytes: number }[] = [];
          for (const { at, sectors, isWrite } of records) {
            const offset = at * sector;
            const bytes = Math.min(sectors * sector, capacityBytes - offset);
            if (isWrite) {
              model.write(offset, await swap.writeNoise(offset, bytes));
              written.push({ offset, bytes });
              continue;
            }
            const range = written[at % Math.max(1, written.length)] ?? { offset, bytes };
            if (model.canRead(range.offset, range.bytes)) {
              const found = await swap.read(range.offset, range.bytes);
              expect(equal(found, model.bytes.subarray(range.offset, range.offset + range.bytes))).toBe(true);
              seen.read++;
            } else {
              expect((await failureOf(swap.read(range.offset, range.bytes))).code).toBe("INTERNAL");
              swap.renewQueues();
              seen.refused++;
            }
          }
          swap.destroy();
          for (const path of swap.paths) rmSync(path);
        },
      ),
      { numRuns: 60, seed: 7 },
    );
    expect(Math.min(seen.read, seen.refused)).toBeGreaterThan(20);
  });

  it("may be read in whole blocks of a larger one", async () => {
    const swap = bench.open({ blockBytes: 1 << 16 });
    const written = await swap.writeNoise(0, 5 << 16);
    expect(equal(await swap.read(1 << 16, 2 << 16), written.subarray(1 << 16, 3 << 16))).toBe(true);
    expect((await failureOf(swap.read(0, sector))).message).toMatch(/4096 bytes at offset 0.*a piece of 65536 was/);
  });

  it("lie block by block on the files, as often on each as its share says", async () => {
    const blockBytes = 2 * sector;
    const blocks = 23;
    const swap = bench.open({ capacityBytes: blocks * blockBytes, blockBytes, shares: [3, 1, 2] });
    const numbered = new Uint8Array(blocks * blockBytes).map((_, i) => 1 + Math.floor(i / blockBytes));
    await swap.write(0, numbered);
    const files = swap.paths.map((path) => readFileSync(path));
    const order = files.map((file) =>
      Array.from({ length: file.length / blockBytes }, (_, i) => file[i * blockBytes]!),
    );
    expect(order.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: blocks }, (_, i) => i + 1));
    for (const [i, share] of [3, 1, 2].entries()) {
      expect(order[i]).toEqual([...order[i]!].sort((a, b) => a - b));
      // Every whole round of six blocks gives each file its share.
      for (let round = 0; round < 3; round++)
        expect(order[i]!.filter((block) => Math.floor((block - 1) / 6) === round)).toHaveLength(share);
    }
  });

  it.skipIf(!hasMemoryFolder)("go through the page cache where direct I/O makes no sense, and it is told", async () => {
    const inMemory = new SwapBench(memoryFolder);
    const mixed = bench.open({
      shares: [1, 1],
      paths: [join(bench.folder, "drive.swap"), join(inMemory.folder, "memory.swap")],
    });
    expect(mixed.direct[1]).toBe(false);
    const written = await mixed.writeNoise(sector, 300 * 1024);
    expect(equal(await mixed.read(sector, 300 * 1024), written)).toBe(true);
    expect(bench.open({ direct: false }).direct).toEqual([false]);
    inMemory.close();
  });
});

describe("wrong use", () => {
  let swap: TestSwap;
  beforeAll(() => {
    swap = bench.open();
  });

  it("of unaligned offsets, lengths and addresses, and of ranges outside, is refused when it is issued", () => {
    expect(() => swap.issueRead(512, sector)).toThrow(/diskRead.offset: found 512; wanted a multiple of 4096/);
    expect(() => swap.issueRead(0, 100)).toThrow(/diskRead.bytes: found 100; wanted a multiple of 4096/);
    expect(() => swap.issueWrite(0, sector, 64)).toThrow(
      /diskWrite.src: found byte offset 64; wanted a multiple of 4096/,
    );
    expect(() => swap.issueWrite(1 << 20, sector)).toThrow(/diskWrite.offset.*4096 bytes at 1048576.*within.*1048576/);
    expect(() => swap.issueWrite(0, 16 << 20)).toThrow(RangeError);
  });

  it("of a swap that is closed or was never there is refused", () => {
    const closed = bench.open();
    closed.destroy();
    expect(() => closed.issueRead(0, sector)).toThrow(/found swap.*wanted the number of an open swap/);
    expect(() => closed.destroy()).toThrow(RangeError);
    expect(() => closed.inject({ operation: "read", kind: "flip" })).toThrow(RangeError);
  });

  it.each([
    [{ blockBytes: 1000 }, /blocks of 1000 bytes; wanted a multiple of 4096/],
    [{ blockBytes: 0 }, /blocks of 0 bytes/],
    [{ requestsInFlight: 0 }, /0 requests in flight/],
    [{ shares: [0] }, /a share of 0/],
    [{ paths: [] }, /0 paths and 1 shares/],
    [{ capacityBytes: -1 }, /capacityBytes/],
    [{ capacityBytes: 1.5 }, /capacityBytes/],
  ])("of options %j is refused", (options, message) => {
    expect(() => bench.open(options)).toThrow(message);
  });

  it("of a file that exists touches nothing", () => {
    const path = swap.paths[0]!;
    const before = statSync(path);
    expect(() => bench.open({ paths: [path] })).toThrow(expect.objectContaining({ code: "DISK" }));
    expect(statSync(path).ino).toBe(before.ino);
  });
});

describe("reading and writing", () => {
  it("run at once: a slow write does not hold a read up, nor the other way round", async () => {
    const swap = bench.open();
    const written = await swap.writeNoise(0, 1 << 16);
    for (const slow of ["write", "read"] as const) {
      swap.inject({ operation: slow, kind: "delay", delayMs: 60_000 });
      const slowQueue = slow === "write" ? swap.writeQueue : swap.readQueue;
      const held = slow === "write" ? swap.issueWrite(1 << 17, 1 << 16) : swap.issueRead(0, 1 << 16);
      if (slow === "write") expect(equal(await swap.read(0, 1 << 16), written)).toBe(true);
      else await swap.writeNoise(1 << 18, 1 << 16);
      expect(native.completed(slowQueue)).toBeLessThan(held);
      // Closing the queue ends the wait.
      bench.closeQueue(slowQueue);
      swap.renewQueues();
      swap.inject({ operation: slow, kind: "delay", delayMs: 0 });
    }
  });

  it("end before a destroyed swap closes its files", async () => {
    const swap = bench.open();
    const written = await swap.writeNoise(0, 1 << 18);
    swap.inject({ operation: "read", kind: "delay", delayMs: 100 });
    const read = swap.read(0, 1 << 18);
    swap.destroy();
    expect(equal(await read, written)).toBe(true);
  });

  it("of several queues at once keep their bytes apart", async () => {
    const swap = bench.open({ requestsInFlight: 2, shares: [1, 1] });
    const written = await swap.writeNoise(0, 1 << 20);
    const queues = Array.from({ length: 4 }, () => bench.queue());
    const parts = queues.map((queue, i) => {
      const dst = { region: bench.memory, offset: i << 18 };
      const { code, values } = encode("diskRead", { swap: swap.handle, offset: i << 18, bytes: 1 << 18, dst }, null);
      return native.reached(queue, native.issue(queue, code, values));
    });
    await Promise.all(parts);
    const found = new Uint8Array(1 << 20);
    native.readRegion(bench.memory, 0, found);
    expect(equal(found, written)).toBe(true);
  });
});

describe("injected faults", () => {
  it.each([
    ["read", "readError", "EIO"],
    ["write", "readError", "EIO"],
    ["write", "diskFull", "ENOSPC"],
    ["write", "short", "short"],
    ["read", "short", "short"],
    ["read", "flip", "checksum"],
  ] as const)("a %s with %s fails with %s, and tells where", async (operation, kind, reason) => {
    const swap = bench.open({ capacityBytes: 1 << 19, blockBytes: 1 << 16 });
    await swap.writeNoise(1 << 16, 3 << 16);
    swap.inject({ operation, kind });
    const failed = operation === "read" ? swap.read(1 << 16, 3 << 16) : swap.writeNoise(1 << 16, 3 << 16);
    const failure = await failureOf(failed);
    expect(failure.code).toBe("DISK");
    expect(failure.place).toMatchObject({
      rank: 2,
      file: swap.paths[0],
      operation,
      offset: 1 << 16,
      bytes: 1 << 16,
      reason,
    });
    // The queue is poisoned: what was asked of it later hears the same.
    const later = operation === "read" ? swap.read(1 << 16, 1 << 16) : swap.writeNoise(0, 1 << 16);
    expect((await failureOf(later)).place).toEqual(failure.place);
  });

  it("a byte that flips on its way to the drive is found when it is read", async () => {
    const swap = bench.open({ shares: [1, 1] });
    swap.inject({ operation: "write", kind: "flip", afterOps: 1 });
    await swap.writeNoise(0, 1 << 17);
    await swap.writeNoise(1 << 17, 1 << 17);
    await swap.read(0, 1 << 17);
    const { place } = await failureOf(swap.read(1 << 17, 1 << 17));
    expect(place).toMatchObject({ file: swap.paths[0], offset: 1 << 16, reason: "checksum" });
  });

  it("without checksums nobody sees it", async () => {
    const swap = bench.open({ verify: false });
    swap.inject({ operation: "write", kind: "flip" });
    const written = await swap.writeNoise(0, 1 << 17);
    expect(equal(await swap.read(0, 1 << 17), written)).toBe(false);
  });

  it("a request that is done in parts is gone on with", async () => {
    const swap = bench.open();
    for (const operation of ["write", "read"] as const) swap.inject({ operation, kind: "partial" });
    const written = await swap.writeNoise(sector, 5 * sector);
    expect(equal(await swap.read(sector, 5 * sector), written)).toBe(true);
  });

  it("what a failed write was to replace can no longer be read", async () => {
    const swap = bench.open();
    await swap.writeNoise(0, 1 << 16);
    swap.inject({ operation: "write", kind: "diskFull" });
    await failureOf(swap.writeNoise(0, 1 << 16));
    expect((await failureOf(swap.read(0, 1 << 16))).code).toBe("INTERNAL");
  });

  it("the unknown ones are refused", () => {
    const swap = bench.open();
    expect(() => swap.inject({ operation: "read", kind: "gremlin" as "flip" })).toThrow(/gremlin/);
    expect(() => swap.inject({ operation: "erase" as "read", kind: "flip" })).toThrow(/erase/);
  });
});

describe("files that are touched while they are in use", () => {
  function damage(path: string, offset: number, bytes: Uint8Array): void {
    const file = openSync(path, "r+");
    writeSync(file, bytes, 0, bytes.length, offset);
    closeSync(file);
  }

  it("any flipped bit is found, and the block that it is in is named", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat((1 << 18) - 1), fc.nat(7), async (at, bit) => {
        const swap = bench.open();
        const written = await swap.writeNoise(0, 1 << 18);
        damage(swap.paths[0]!, at, Uint8Array.of(written[at]! ^ (1 << bit)));
        const { place } = await failureOf(swap.read(0, 1 << 18));
        expect(place).toMatchObject({ reason: "checksum", offset: Math.floor(at / 65536) * 65536, bytes: 65536 });
        swap.destroy();
      }),
      { numRuns: 12, seed: 3 },
    );
  });

  it("a torn block, half old and half new, is found", async () => {
    const swap = bench.open();
    const old = await swap.writeNoise(0, 1 << 16);
    await swap.writeNoise(0, 1 << 16);
    damage(swap.paths[0]!, 1 << 15, old.subarray(1 << 15));
    expect((await failureOf(swap.read(0, 1 << 16))).place.reason).toBe("checksum");
  });

  it.each(["read", "write"] as const)(
    "a deleted one fails the next %s, though it could still be used",
    async (operation) => {
      const swap = bench.open({ shares: [1, 1] });
      await swap.writeNoise(0, 1 << 18);
      rmSync(swap.paths[1]!);
      const next = operation === "read" ? swap.read(0, 1 << 18) : swap.writeNoise(0, 1 << 18);
      expect((await failureOf(next)).place).toMatchObject({
        reason: "deleted",
        file: swap.paths[1],
        operation,
        rank: 2,
      });
    },
  );

  it("one that was cut short is told as such", async () => {
    const swap = bench.open();
    await swap.writeNoise(0, 1 << 18);
    truncateSync(swap.paths[0]!, 1 << 15);
    expect((await failureOf(swap.read(0, 1 << 18))).place.reason).toBe("resized");
  });
});

describe("a full disk", () => {
  it("has its room taken when the swap is made", () => {
    const swap = bench.open({ capacityBytes: 3 << 20 });
    const { size, blocks } = statSync(swap.paths[0]!);
    expect(size).toBe(3 << 20);
    expect(blocks * 512).toBeGreaterThanOrEqual(3 << 20);
  });

  it.skipIf(!hasMemoryFolder)("shows when the swap is made, which then leaves no file", () => {
    const inMemory = new SwapBench(memoryFolder);
    const paths = [join(inMemory.folder, "large.swap")];
    const failure = expect.objectContaining({ code: "DISK", details: expect.stringContaining("ENOSPC") });
    expect(() => inMemory.open({ paths, capacityBytes: 2 ** 50, blockBytes: 1 << 20 })).toThrow(failure);
    expect(existsSync(paths[0]!)).toBe(false);
    inMemory.close();
  });

  it("or a limit on the size of files shows as a failure, not as a signal", () => {
    const script = `
      const { createRequire } = await import("node:module");
      const native = createRequire(import.meta.url)(${JSON.stringify(fileURLToPath(new URL("../../build/shunya.node", import.meta.url)))});
      const paths = [${JSON.stringify(join(bench.folder, "limited-a"))}, ${JSON.stringify(join(bench.folder, "limited-b"))}];
      try {
        native.createSwap({ paths, shares: [1, 3], capacityBytes: 2 << 20, blockBytes: 65536, requestsInFlight: 1, verify: true, direct: true, rank: 0 });
      } catch (error) { console.log(error.code, error.details); }`;
    const command = `ulimit -f 1024; exec "$0" --input-type=module -e "$1"`; // 1024 blocks of 512 bytes or 1 KiB
    const run = spawnSync("sh", ["-c", command, process.execPath, script], { encoding: "utf8" });
    expect(run.stdout).toMatch(/^DISK .*limited-b.*EFBIG/);
    expect(["limited-a", "limited-b"].filter((name) => existsSync(join(bench.folder, name)))).toEqual([]);
  });
});
