/** The native runtime below the device seam: regions, the op boundary, queues and events. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { encode } from "../../src/device/encode.ts";
import { loadNative, type Native, type NativeFailure } from "../../src/device/native.ts";
import { type OpArgs, type OpName, opFields, opNames, type Span } from "../../src/device/ops.ts";

const addon = loadNative() as Native & { opCount(): number; opArity(code: number): number };
const regionBytes = 1 << 20;
let region: number;
let queue: number;

beforeAll(() => {
  region = addon.createRegion(regionBytes);
  queue = addon.createQueue(2);
});
afterAll(() => {
  addon.destroyQueue(queue);
  addon.closeRegion(region);
});

const at = (offset: number): Span => ({ region, offset });
function issue<K extends OpName>(name: K, args: OpArgs<K>, onQueue = queue): number {
  const call = encode(name, args, null);
  return addon.issue(onQueue, call.code, call.values);
}
function floats(offset: number, count: number): Float32Array {
  const into = new Float32Array(count);
  addon.readRegion(region, offset, new Uint8Array(into.buffer));
  return into;
}
function put(offset: number, values: Float32Array | Int32Array): void {
  addon.writeRegion(region, offset, new Uint8Array(values.buffer));
}
async function failureOf(promise: Promise<unknown>): Promise<NativeFailure> {
  return promise.then(
    () => expect.fail("resolved; wanted a failure"),
    (error: NativeFailure) => error,
  );
}
/** A queue whose first op has failed: an id outside the vocabulary. */
function failingQueue(): number {
  const poisoned = addon.createQueue(1);
  put(0, Int32Array.of(1, 9, 2));
  const sizes = { rows: 3, cols: 4, vocabulary: 8, dtype: "f32", accumulate: false } as const;
  issue("embedding", { ...sizes, ids: at(0), table: at(4096), out: at(8192) }, poisoned);
  return poisoned;
}

describe("op table", () => {
  it("has the rows of the TypeScript table, field for field", () => {
    expect(addon.opCount()).toBe(opNames.length);
    const width = { size: 1, real: 1, flag: 1, dtype: 1, key: 1, span: 2, "span?": 2, segments: 1 };
    for (const [code, name] of opNames.entries()) {
      const kinds = Object.values(opFields[name]) as (keyof typeof width)[];
      expect([name, addon.opArity(code)]).toEqual([name, kinds.reduce((sum, kind) => sum + width[kind], 0)]);
    }
  });

  it("refuses a wrong number of arguments and unknown ops", () => {
    for (const [code] of opNames.entries())
      expect(() => addon.issue(queue, code, new Float64Array(addon.opArity(code) + 1))).toThrow(RangeError);
    expect(() => addon.issue(queue, 0, new Float64Array(0))).toThrow(RangeError);
    for (const code of [-1, opNames.length, 1e9])
      expect(() => addon.issue(queue, code, new Float64Array(5))).toThrow(RangeError);
  });
});

describe("bounds", () => {
  it("names op, field, what was found and what was wanted", () => {
    const fill = { count: 100, dtype: "f32", value: 0 } as const;
    expect(() => issue("fill", { ...fill, dst: at(regionBytes - 396) })).toThrow(/fill.*dst.*1048180.*1048576/s);
    expect(() => issue("fill", { ...fill, dst: at(2) })).toThrow(/fill.*dst.*4/s);
    expect(() => issue("fill", { ...fill, count: -1, dst: at(0) })).toThrow(/fill.*count/s);
    expect(() => issue("fill", { ...fill, count: 2 ** 52, dst: at(0) })).toThrow(RangeError);
    expect(() => issue("fill", { ...fill, dst: { region: 99999, offset: 0 } })).toThrow(/fill.*dst.*99999/s);
  });

  const matrix = {
    ...({ m: 8, n: 8, k: 8, dtype: "f32", aRowStride: 8, aDepthStride: 1, bRowStride: 8, bDepthStride: 1 } as const),
    ...({ ldc: 8, cType: "f32", accumulate: false, bias: null, biasType: "f32", gelu: false } as const),
    preActivation: null,
  };
  it.each([
    ["a", { a: regionBytes - 252 }],
    ["b", { b: regionBytes - 252 }],
    ["c", { c: regionBytes - 252 }],
    ["a", { a: regionBytes - 256, aRowStride: 9 }],
    ["c", { c: regionBytes - 256, ldc: 9 }],
    ["aRowStride", { aRowStride: 2, aDepthStride: 3 }],
    ["a", { aRowStride: 2 ** 52 }],
    ["ldc", { ldc: 7 }],
    ["a", { m: 2 ** 40, k: 2 ** 40 }],
  ])("matmul: %s with %j is a RangeError", (_field, change) => {
    const { a = 0, b = 0, c = 4096, ...sizes } = change as { a?: number; b?: number; c?: number };
    const args = { ...matrix, a: at(a), b: at(b), c: at(c), ...sizes };
    expect(() => issue("matmul", args)).toThrow(RangeError);
  });

  it("needs scratch where the op does, within its region", () => {
    const args = { ...matrix, m: 64, n: 64, k: 64, aRowStride: 64, bRowStride: 64, ldc: 64 };
    const call = { ...args, a: at(0), b: at(16384), c: at(32768) };
    const query = encode("matmul", call, null);
    const bytes = addon.scratchBytes(query.code, query.values, 2);
    if (bytes === 0) return;
    expect(() => issue("matmul", call)).toThrow(/scratch/);
    const tooLate = encode("matmul", call, at(regionBytes - 64 * Math.floor((bytes - 1) / 64)));
    expect(() => addon.issue(queue, tooLate.code, tooLate.values)).toThrow(/scratch/);
  });

  it("refuses to write over positions that the op reads", () => {
    const loss = { rows: 8, cols: 8, ld: 8, dtype: "f32", gradient: true, gradientScale: 1 } as const;
    const operands = { logits: at(0), targets: at(128), rowLoss: at(4096) };
    expect(() => issue("crossEntropy", { ...loss, ...operands })).toThrow(/crossEntropy.targets.*logits/);
    const table = { rows: 8, cols: 8, vocabulary: 8, dtype: "f32", accumulate: false } as const;
    expect(() => issue("embedding", { ...table, ids: at(0), table: at(4096), out: at(16) })).toThrow(
      /embedding.ids.*out/,
    );
  });

  it("checks reads, writes, uploads and locks of regions", () => {
    const bytes = new Uint8Array(16);
    for (const offset of [regionBytes - 15, -1, 0.5, 2 ** 53, Number.NaN]) {
      expect(() => addon.readRegion(region, offset, bytes)).toThrow(RangeError);
      expect(() => addon.writeRegion(region, offset, bytes)).toThrow(RangeError);
      expect(() => addon.upload(queue, region, offset, bytes)).toThrow(RangeError);
      expect(() => addon.lockRegion(region, offset, 16)).toThrow(RangeError);
    }
    expect(() => addon.createRegion(-1)).toThrow(RangeError);
    expect(() => addon.closeRegion(4242)).toThrow(RangeError);
    expect(() => addon.issue(4242, 0, new Float64Array(5))).toThrow(RangeError);
    expect(() => addon.openRegion(addon.createSharedMemory(4096), 8192)).toThrow(RangeError);
  });

  it("keeps huge sparse regions", () => {
    const huge = addon.createRegion(24 * 2 ** 30);
    addon.writeRegion(huge, 24 * 2 ** 30 - 4, Uint8Array.of(1, 2, 3, 4));
    const into = new Uint8Array(4);
    addon.readRegion(huge, 24 * 2 ** 30 - 4, into);
    expect([...into]).toEqual([1, 2, 3, 4]);
    addon.closeRegion(huge);
  });

  it("never crashes on arbitrary arguments", async () => {
    const number = fc.oneof(
      fc.constantFrom(0, 1, 2, -1, 3, 4, 16, 64, 1024, 2 ** 20, 2 ** 31, 2 ** 40, 2 ** 53, -0.5, 1e300, Number.NaN),
      fc.integer({ min: 0, max: 64 }),
      fc.double(),
    );
    const own = addon.createQueue(2);
    const values = fc.record({
      code: fc.nat(opNames.length - 1),
      values: fc.array(number, { minLength: 60, maxLength: 60 }),
    });
    fc.assert(
      fc.property(values, ({ code, values }) => {
        // Spans mostly name a region that exists, so that more calls get beyond the first check.
        const args = Float64Array.from(values.slice(0, addon.opArity(code)), (v) => (v === 3 ? region : v));
        try {
          addon.issue(own, code, args);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
      { numRuns: 4000 },
    );
    await addon.reached(own, addon.wait(own, own, 0)).catch(() => undefined);
    addon.destroyQueue(own);
  });

  it("never crashes on arguments that are nearly right", async () => {
    const sizes: Record<string, number> = {
      aDepthStride: 1,
      bDepthStride: 1,
      root: 0,
      dropProbability: 0.25,
      probability: 0.25,
    };
    for (const stride of ["qStride", "kvStride", "outStride", "dOutStride", "dqStride", "dkvStride"])
      sizes[stride] = 64;
    /** A call that is right: extents of 8, spans apart from each other, scratch enough. */
    const rightCall = (name: OpName): number[] =>
      Object.entries(opFields[name]).flatMap(([field, kind], i) => {
        if (field === "scratch") return [region, regionBytes / 2];
        if (kind === "span" || kind === "span?") return [region, i * 16384];
        if (kind === "real") return [sizes[field] ?? 0.5];
        return [kind === "size" ? (sizes[field] ?? 8) : 0];
      });
    const edges = [
      0,
      1,
      7,
      9,
      -1,
      0.5,
      2 ** 12,
      2 ** 16,
      2 ** 20 - 4,
      2 ** 20,
      2 ** 31,
      2 ** 32,
      2 ** 52,
      2 ** 53,
      Number.NaN,
      Infinity,
    ];
    const change = fc.record({ at: fc.nat(40), value: fc.constantFrom(...edges) });
    const call = fc.record({ code: fc.nat(opNames.length - 5), changes: fc.array(change, { maxLength: 3 }) });
    let accepted = 0;
    let completed = 0;
    const issueNearly = (queue: number, code: number, changes: readonly { at: number; value: number }[]): void => {
      const args = Float64Array.from(rightCall(opNames[code]!));
      for (const { at, value } of changes) args[at % args.length] = value;
      try {
        addon.issue(queue, code, args);
        accepted++;
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError);
      }
    };
    // A few at a time: a random id outside the vocabulary fails its queue, as it should, and the rest would be skipped.
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 20, maxLength: 20 }), async (calls) => {
        addon.writeRegion(region, 0, new Uint8Array(regionBytes));
        const own = addon.createQueue(2);
        for (const { code, changes } of calls) issueNearly(own, code, changes);
        const isWhole = await addon.reached(own, addon.wait(own, own, 0)).then(
          () => true,
          (error: NativeFailure) => error.code !== "DEVICE",
        );
        if (isWhole) completed++;
        addon.destroyQueue(own);
      }),
      { numRuns: 200 },
    );
    expect(accepted).toBeGreaterThan(800);
    expect(completed).toBeGreaterThan(50);
  });

  it("accepts an op up to the last byte and not one element beyond", async () => {
    const args = { count: regionBytes / 4, dtype: "f32", value: 0 } as const;
    expect(issue("fill", { ...args, dst: at(0) })).toBeGreaterThan(0);
    expect(() => issue("fill", { ...args, count: args.count + 1, dst: at(0) })).toThrow(RangeError);
    await addon.reached(queue, issue("copy", { bytes: 3, src: at(regionBytes - 3), dst: at(0) }));
  });
});

describe("queues", () => {
  it("run ops in order and number them from 1", async () => {
    const own = addon.createQueue(1);
    expect(issue("fill", { count: 8, dtype: "f32", value: 3, dst: at(0) }, own)).toBe(1);
    expect(issue("scale", { count: 8, dtype: "f32", x: at(0), factor: 2, out: at(64) }, own)).toBe(2);
    expect(issue("add", { count: 8, dtype: "f32", a: at(0), b: at(64), out: at(0) }, own)).toBe(3);
    await addon.reached(own, 3);
    expect(addon.completed(own)).toBe(3);
    expect([...floats(0, 8)]).toEqual(Array(8).fill(9));
    addon.destroyQueue(own);
  });

  it("take 10,000 ops without waiting and complete them all", async () => {
    const own = addon.createQueue(1);
    put(0, new Float32Array(4));
    put(64, Float32Array.of(1, 1, 1, 1));
    let last = 0;
    for (let i = 0; i < 10_000; i++)
      last = issue("add", { count: 4, dtype: "f32", a: at(0), b: at(64), out: at(0) }, own);
    expect(last).toBe(10_000);
    await addon.reached(own, last);
    expect([...floats(0, 4)]).toEqual([10_000, 10_000, 10_000, 10_000]);
    addon.destroyQueue(own);
  });

  it("take uploads in order, the bytes as they were at the call", async () => {
    const bytes = new Uint8Array(Float32Array.of(5, 6).buffer);
    addon.upload(queue, region, 0, bytes);
    bytes.fill(0);
    const last = issue("scale", { count: 2, dtype: "f32", x: at(0), factor: 10, out: at(64) });
    await addon.reached(queue, last);
    expect([...floats(64, 2)]).toEqual([50, 60]);
  });

  it("wait for each other both ways", async () => {
    const other = addon.createQueue(1);
    put(0, new Float32Array(4));
    let last = 0;
    for (let turn = 0; turn < 200; turn++) {
      const [from, to] = turn % 2 ? [other, queue] : [queue, other];
      put(4096, Float32Array.of(1, 1, 1, 1));
      addon.wait(from, to, turn === 0 ? 0 : last);
      last = issue("add", { count: 4, dtype: "f32", a: at(0), b: at(4096), out: at(0) }, from);
    }
    await addon.reached(other, last);
    expect([...floats(0, 4)]).toEqual([200, 200, 200, 200]);
    addon.destroyQueue(other);
  });

  it("resolve events in any order of asking, also those long past", async () => {
    const first = issue("fill", { count: 1, dtype: "f32", value: 0, dst: at(0) });
    const later = Array.from({ length: 50 }, () => issue("fill", { count: 1, dtype: "f32", value: 0, dst: at(0) }));
    await Promise.all([...later].reverse().map((sequence) => addon.reached(queue, sequence)));
    await addon.reached(queue, first);
  });

  it("leave the event loop free while they work", async () => {
    const big = addon.createRegion(256 * 2 ** 20);
    const span = { region: big, offset: 0 };
    const own = addon.createQueue(1);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    let last = 0;
    const startMs = performance.now();
    for (let i = 0; i < 4; i++)
      last = issue(
        "initNormal",
        { ...{ count: 2e7, dtype: "f32", key: 1, firstElement: 0 }, mean: 0, std: 1, dst: span },
        own,
      );
    expect(performance.now() - startMs).toBeLessThan(20);
    await addon.reached(own, last);
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(5);
    addon.destroyQueue(own);
    addon.closeRegion(big);
  });

  it("may lose their region or be destroyed while ops are pending", async () => {
    const own = addon.createQueue(2);
    const big = addon.createRegion(64 * 2 ** 20);
    const args = { count: 1.6e7, dtype: "f32", value: 1, dst: { region: big, offset: 0 } } as const;
    let last = 0;
    for (let i = 0; i < 20; i++) last = issue("fill", args, own);
    addon.closeRegion(big);
    expect(() => issue("fill", args, own)).toThrow(RangeError);
    const pending = failureOf(addon.reached(own, last));
    addon.destroyQueue(own);
    expect((await pending).code).toBe("DEVICE");
  });

  it("record start and end of every op when asked to", async () => {
    const own = addon.createQueue(1);
    expect(addon.trace(own, true)).toHaveLength(0);
    for (let i = 0; i < 3; i++) issue("fill", { count: 100, dtype: "f32", value: 0, dst: at(0) }, own);
    await addon.reached(own, 3);
    const trace = addon.trace(own, false);
    expect([trace[0], trace[3], trace[6]]).toEqual([1, 2, 3]);
    for (let i = 0; i < 9; i += 3) expect(trace[i + 2]!).toBeGreaterThanOrEqual(trace[i + 1]!);
    addon.destroyQueue(own);
  });
});

describe("failures", () => {
  it("poison their queue: ids outside the vocabulary are named, later ops are skipped", async () => {
    const poisoned = failingQueue();
    const failure = await failureOf(addon.reached(poisoned, 1));
    expect(failure).toBeInstanceOf(Error);
    expect(failure.code).toBe("DEVICE");
    expect(failure.message).toMatch(/embedding.*9/);
    expect(JSON.parse(failure.details)).toMatchObject({ op: "embedding" });
    put(0, Float32Array.of(7));
    const skipped = issue("fill", { count: 1, dtype: "f32", value: 1, dst: at(0) }, poisoned);
    expect(skipped).toBe(2);
    expect((await failureOf(addon.reached(poisoned, skipped))).code).toBe("DEVICE");
    expect(addon.completed(poisoned)).toBe(2);
    expect(floats(0, 1)[0]).toBe(7);
    addon.destroyQueue(poisoned);
  });

  it("do not reach back to events before them", async () => {
    const own = addon.createQueue(1);
    const fine = issue("fill", { count: 1, dtype: "f32", value: 1, dst: at(0) }, own);
    put(64, Int32Array.of(100));
    const targets = { rows: 1, cols: 4, ld: 4, dtype: "f32", gradient: false, gradientScale: 1 } as const;
    const bad = issue("crossEntropy", { ...targets, logits: at(4096), targets: at(64), rowLoss: at(128) }, own);
    const failure = await failureOf(addon.reached(own, bad));
    expect(failure.message).toMatch(/crossEntropy.*100/);
    await addon.reached(own, fine);
    addon.destroyQueue(own);
  });

  it("pass on to queues that wait for them", async () => {
    const poisoned = failingQueue();
    const own = addon.createQueue(1);
    const wait = addon.wait(own, poisoned, 1);
    const after = issue("fill", { count: 1, dtype: "f32", value: 1, dst: at(0) }, own);
    expect((await failureOf(addon.reached(own, wait))).message).toMatch(/embedding/);
    expect((await failureOf(addon.reached(own, after))).code).toBe("DEVICE");
    addon.destroyQueue(poisoned);
    addon.destroyQueue(own);
  });

  it("end the wait for a queue that is destroyed", async () => {
    const gone = addon.createQueue(1);
    const own = addon.createQueue(1);
    const wait = addon.wait(own, gone, 1);
    addon.destroyQueue(gone);
    expect((await failureOf(addon.reached(own, wait))).code).toBe("DEVICE");
    addon.destroyQueue(own);
  });
});

describe("a process", () => {
  const addonPath = fileURLToPath(new URL("../../build/shunya.node", import.meta.url));
  // Queues at work, a wait for an op that never comes, a collective without its peers, an exchange: all still open at the end.
  const busy = `
    const n = process.getBuiltinModule("node:module").createRequire(${JSON.stringify(addonPath)})(${JSON.stringify(addonPath)});
    const region = n.createRegion(2 ** 26), first = n.createQueue(2), second = n.createQueue(1), third = n.createQueue(1);
    for (let i = 0; i < 5; i++) n.issue(first, 0, Float64Array.of(2 ** 24, 0, 1, region, 0));
    n.wait(second, first, 99);
    const control = n.openRegion(n.createSharedMemory(n.controlBytes(2)), n.controlBytes(2));
    const group = n.createGroup(0, 2, control, [region, region], 60_000);
    n.issue(third, ${opNames.indexOf("barrier")}, Float64Array.of(group, 1));
    const open = [n.reached(second, 1), n.exchange(group, 1, new Uint8Array(4))].map((promise) => promise.catch(() => {}));
  `;
  const run = (script: string): { status: number | null; signal: string | null; elapsedMs: number } => {
    const startMs = performance.now();
    const { status, signal } = spawnSync(process.execPath, ["-e", script], { timeout: 20_000 });
    return { status, signal, elapsedMs: performance.now() - startMs };
  };

  it.each([
    ["process.exit", "setTimeout(() => process.exit(3), 20)", 3],
    ["an error while the script loads", "throw new Error('end')", 1],
    ["an uncaught error", "setTimeout(() => { throw new Error('end') }, 20)", 1],
    [
      "destroying everything",
      "[first, second, third].map(n.destroyQueue); n.destroyGroup(group); n.closeRegion(region)",
      0,
    ],
    ["closing memory first", "n.closeRegion(region); n.closeRegion(control); setTimeout(() => process.exit(0), 20)", 0],
  ])("ends cleanly by %s with ops open", (_how, end, status) => {
    const ended = run(busy + end);
    expect([ended.status, ended.signal]).toEqual([status, null]);
    expect(ended.elapsedMs).toBeLessThan(10_000);
  });

  it("ends by itself once nothing is awaited, queues or not", () => {
    expect(run(busy.replace(/const open.*/, "")).status).toBe(0);
  });
});
