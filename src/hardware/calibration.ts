/**
 * What was measured of a machine that trains on its CPU: rates of one core while all cores work, from the spans of real training
 * steps, an op's work over its time. From that, the machine as the virtual clock sees it, for any number of ranks and threads.
 */
import type { ElementType } from "../config/types.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import { operationsOf } from "../device/operations.ts";
import type { OpArgs, OpName, Segment } from "../device/ops.ts";
import type { QueueName } from "../device/queue.ts";
import type { QueueSpan } from "../device/timeline.ts";
import type { Machine } from "./machine.ts";
import { touchedBytes } from "./op-bytes.ts";

export interface Calibration {
  /** Of this format. */
  readonly version: 1;
  readonly measuredAt: string;
  readonly processor: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** Of one core while all work. */
  readonly core: CoreRates;
  /** Of all drives of a folder together; undefined: no folder was named. */
  readonly drive: DriveRates | undefined;
}

export interface CoreRates {
  readonly productsPerSecond: Readonly<Record<ElementType, number>>;
  readonly attentionPerSecond: Readonly<Record<ElementType, number>>;
  readonly droppedAttentionPerSecond: Readonly<Record<ElementType, number>>;
  /** Bytes per second by op, and by op and element type ("gelu bf16"). */
  readonly opBytesPerSecond: Readonly<Record<string, number>>;
  /** Of all ops that are bound by memory. */
  readonly memoryBytesPerSecond: number;
  /** Bytes that a rank sends. */
  readonly collectiveBytesPerSecond: number;
  readonly crossingBytesPerSecond: number;
  readonly updateBytesPerSecond: number;
}

export interface DriveRates {
  readonly folder: string;
  readonly readBytesPerSecond: number;
  readonly writeBytesPerSecond: number;
  readonly mixedBytesPerSecond: number;
}

/** Work (bytes, or operations of products) and seconds of all ops of a sort. */
export interface Tally {
  work: number;
  seconds: number;
}

/** Sorts of ops whose work is operations. */
const computedOps: Readonly<Partial<Record<OpName, string>>> = {
  matmul: "products",
  attention: "attention",
  attentionBackward: "attention",
};

/** The time of an op with less is that of its beginning, and would make a rate of nothing. */
const leastWork = 1e5;

/** Adds an op's work and time to the tally of its sort; what a rank waited for is no time of an op. @param ranks of the world */
export function tallySpan(
  tallies: Map<string, Tally>,
  { queue, op, args, start, end }: QueueSpan,
  ranks: number,
): void {
  if (op === undefined || op === "upload" || args === undefined) return;
  const work = workOf(queue, op, args, ranks);
  if (work < leastWork) return;
  const tally = tallies.get(sortOf(queue, op, args)) ?? { work: 0, seconds: 0 };
  tally.work += work;
  tally.seconds += (end - start) / 1e6;
  tallies.set(sortOf(queue, op, args), tally);
}

function sortOf(queue: QueueName, op: OpName, args: OpArgs<OpName>): string {
  if (queue !== "compute") return queue;
  const { dtype, dropProbability = 0 } = args as { dtype?: DType; dropProbability?: number };
  const sort = dropProbability > 0 ? "droppedAttention" : (computedOps[op] ?? op);
  return dtype === undefined ? sort : `${sort} ${dtype}`;
}

function workOf(queue: QueueName, op: OpName, args: OpArgs<OpName>, ranks: number): number {
  if (queue === "collective") return sentBytes(args, ranks);
  if (queue === "compute" && computedOps[op] !== undefined) return operationsOf(op, args);
  return queue === "down" || queue === "up" ? touchedBytes(op, args) / 2 : touchedBytes(op, args);
}

function sentBytes(args: OpArgs<OpName>, ranks: number): number {
  const { segments = [], srcType, dtype } = args as { segments?: readonly Segment[]; srcType?: DType; dtype?: DType };
  const type = srcType ?? dtype;
  return type === undefined ? 0 : segments.reduce((sum, s) => sum + s.count, 0) * (ranks - 1) * dtypeBytes[type];
}

const dtypeOf: Readonly<Record<ElementType, DType>> = { fp32: "f32", bf16: "bf16", fp16: "f16" };

/** What is not bound by the memory of the device. */
const otherSorts: ReadonlySet<string> = new Set([
  ...["products", "attention", "droppedAttention"],
  ...["collective", "down", "up", "update", "diskRead", "diskWrite"],
]);

/** @param tallies of ranks that had one thread each and kept all cores busy */
export function coreRates(tallies: ReadonlyMap<string, Tally>): CoreRates {
  const rate = (sort: string): number => {
    const { work, seconds } = tallies.get(sort) ?? { work: 0, seconds: 0 };
    return seconds > 0 ? work / seconds : Number.NaN;
  };
  const byType = (sort: string): Record<ElementType, number> =>
    Object.fromEntries(Object.entries(dtypeOf).map(([type, dtype]) => [type, rate(`${sort} ${dtype}`)])) as Record<
      ElementType,
      number
    >;
  const isBound = (sort: string): boolean => !otherSorts.has(sort.split(" ")[0]!);
  const bound = [...tallies].filter(([sort, { seconds }]) => isBound(sort) && seconds > 0);
  const sum = (of: (tally: Tally) => number): number => bound.reduce((total, [, tally]) => total + of(tally), 0);
  return {
    productsPerSecond: byType("products"),
    attentionPerSecond: byType("attention"),
    droppedAttentionPerSecond: byType("droppedAttention"),
    opBytesPerSecond: Object.fromEntries(bound.map(([sort]) => [sort, rate(sort)])),
    memoryBytesPerSecond: sum(({ work }) => work) / sum(({ seconds }) => seconds),
    // A core that trains alone meets nobody: ranks then reach each other's memory as fast as their own other tier.
    collectiveBytesPerSecond: tallies.has("collective") ? rate("collective") : rate("down"),
    crossingBytesPerSecond: rate("down"),
    updateBytesPerSecond: rate("update"),
  };
}

const typedRates = ["productsPerSecond", "attentionPerSecond", "droppedAttentionPerSecond"] as const;
const plainRates = [
  "memoryBytesPerSecond",
  "collectiveBytesPerSecond",
  "crossingBytesPerSecond",
  "updateBytesPerSecond",
] as const;
const driveRates = ["readBytesPerSecond", "writeBytesPerSecond", "mixedBytesPerSecond"] as const;
const isRate = (value: unknown): boolean => typeof value === "number" && value > 0 && Number.isFinite(value);

/** Whether everything that times are made of is a rate; a file may hold anything. */
export function isCalibration(value: unknown): value is Calibration {
  const { version, cores, core, drive } = (value ?? {}) as Partial<Calibration>;
  if (version !== 1 || !core) return false;
  return [
    cores,
    ...plainRates.map((key) => core[key]),
    ...typedRates.flatMap((key) => Object.keys(dtypeOf).map((type) => core[key]?.[type as ElementType])),
    ...Object.values(core.opBytesPerSecond ?? [undefined]),
    ...(drive ? driveRates.map((key) => drive[key]) : []),
  ].every(isRate);
}

/** What of a machine without a drive that was measured: a plain NVMe drive's. */
const usualDrive = { readBytesPerSecond: 3e9, writeBytesPerSecond: 2e9, mixedBytesPerSecond: 3e9 };

/** @param room bytes of memory and disk that may be used */
export function machineOfCalibration(
  { processor, cores, core, drive }: Calibration,
  {
    ranks,
    threads,
    memoryBytes,
    diskBytes,
  }: { ranks: number; threads: number; memoryBytes: number; diskBytes: number },
): Machine {
  // Ranks with more threads than there are cores take turns.
  const share = Math.min(1, cores / (ranks * threads));
  const of = (rate: number): number => rate * threads * share;
  const all = <K extends string>(rates: Readonly<Record<K, number>>): Record<K, number> =>
    Object.fromEntries(Object.entries<number>(rates).map(([key, rate]) => [key, of(rate)])) as Record<K, number>;
  const oneThread = Math.min(1, cores / ranks);
  return {
    name: "this machine",
    ranksPerNode: ranks,
    threads,
    processor: {
      name: processor,
      usableBytes: memoryBytes,
      productsPerSecond: all(core.productsPerSecond),
      attentionPerSecond: all(core.attentionPerSecond),
      droppedAttentionPerSecond: all(core.droppedAttentionPerSecond),
      memoryBytesPerSecond: of(core.memoryBytesPerSecond),
      opBytesPerSecond: all(core.opBytesPerSecond),
      launchSeconds: 0,
    },
    peerLink: { name: "shared memory", bytesPerSecond: core.collectiveBytesPerSecond * oneThread, latencySeconds: 0 },
    networkLink: { name: "none", bytesPerSecond: core.collectiveBytesPerSecond * oneThread, latencySeconds: 0 },
    hostLink: { name: "memory", bytesPerSecond: core.crossingBytesPerSecond * oneThread, latencySeconds: 0 },
    host: { usableBytes: memoryBytes, memoryBytesPerSecond: of(core.updateBytesPerSecond) * ranks },
    drive: { name: drive?.folder ?? "a usual NVMe drive", freeBytes: diskBytes, ...(drive ?? usualDrive) },
    shared: ["cores"],
  };
}
