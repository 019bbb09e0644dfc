/**
 * Optimizer states on disk: read sub-group k+1, update k, write k-1, against what the same drive gives for reading and writing
 * at once without an update. Both see the same machine: their passes alternate.
 */
import { mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { encode } from "../src/device/encode.ts";
import { loadNative } from "../src/device/native.ts";
import type { OpArgs, OpName, Span } from "../src/device/ops.ts";
import { type AioSettings, Swap } from "../src/device/swap.ts";
import { median, SwapSpeed, usualRecordBytes } from "../src/device/swap-speed.ts";

export interface DiskResult {
  readonly settings: AioSettings;
  /** Medians, in 10^9 bytes per second, reads and writes together. */
  readonly sweepGBs: number;
  readonly updateGBs: number;
  /** updateGBs / sweepGBs: 1 is an update that hides behind its disk traffic. */
  readonly share: number;
}

/** Masters and both moments, each a record of its own in a sub-group. */
const streams = 3;
const slots = 4;

type QueueName = "read" | "update" | "write";

/** fp32 states of `groups` sub-groups of `elements`, and the bf16 gradients and parameters of one. */
class PipelinedUpdate implements Disposable {
  readonly bytes: number;
  readonly #native = loadNative();
  readonly #queues: Readonly<Record<QueueName, number>>;
  readonly #swap: Swap;
  readonly #memory: number;
  readonly #elements: number;
  readonly #groups: number;

  constructor(folder: string, settings: AioSettings, elements: number, groups: number) {
    this.#elements = elements;
    this.#groups = groups;
    this.bytes = 4 * streams * elements * groups;
    this.#swap = new Swap({ folders: [folder], capacityBytes: this.bytes, rank: 0, verify: true, ...settings });
    const queue = (): number => this.#native.createQueue(1);
    this.#queues = { read: queue(), update: queue(), write: queue() };
    this.#memory = this.#native.createRegion(4 * streams * elements * slots + 4 * elements);
  }

  /** The first states: zeros. */
  async fill(): Promise<void> {
    const cleared = {
      count: streams * slots * this.#elements,
      dtype: "f32",
      value: 0,
      dst: this.#stream(0, 0),
    } as const;
    const zeros = this.#issue("update", "fill", cleared);
    this.#native.wait(this.#queues.write, this.#queues.update, zeros);
    let last = 0;
    for (let group = 0; group < this.#groups; group++) last = this.#move("write", group);
    await this.#native.reached(this.#queues.write, last);
  }

  /** Bytes per second of one update of all sub-groups. */
  async pass(): Promise<number> {
    const { read, update, write } = this.#queues;
    const written: number[] = [];
    const start = performance.now();
    for (let group = 0; group < this.#groups; group++) {
      const before = written[group - slots];
      if (before !== undefined) this.#native.wait(read, write, before);
      this.#native.wait(update, read, this.#move("read", group));
      this.#native.wait(write, update, this.#update(group));
      written.push(this.#move("write", group));
    }
    await this.#native.reached(write, written.at(-1)!);
    return (2 * this.bytes) / ((performance.now() - start) / 1000);
  }

  #move(direction: "read" | "write", group: number): number {
    const bytes = 4 * this.#elements;
    let last = 0;
    for (let stream = 0; stream < streams; stream++) {
      const place = { swap: this.#swap.handle, offset: (group * streams + stream) * bytes, bytes };
      const memory = this.#stream(group, stream);
      last =
        direction === "read"
          ? this.#issue("read", "diskRead", { ...place, dst: memory })
          : this.#issue("write", "diskWrite", { ...place, src: memory });
    }
    return last;
  }

  #update(group: number): number {
    const halves = 4 * streams * this.#elements * slots;
    return this.#issue("update", "adam", {
      count: this.#elements,
      ...{ master: this.#stream(group, 0), firstMoment: this.#stream(group, 1), secondMoment: this.#stream(group, 2) },
      ...{ gradientType: "bf16", gradient: { region: this.#memory, offset: halves } },
      ...{ parameterType: "bf16", parameter: { region: this.#memory, offset: halves + 2 * this.#elements } },
      ...{ gradientScale: 1, learningRate: 1e-4, weightDecay: 0.1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8 },
      ...{ correction1: 0.5, correction2: 0.5, decoupled: true },
    });
  }

  #stream(group: number, stream: number): Span {
    return { region: this.#memory, offset: 4 * this.#elements * ((group % slots) * streams + stream) };
  }

  #issue<K extends OpName>(queue: QueueName, name: K, args: OpArgs<K>): number {
    const { code, values } = encode(name, args, null);
    return this.#native.issue(this.#queues[queue], code, values);
  }

  [Symbol.dispose](): void {
    for (const queue of Object.values(this.#queues)) this.#native.destroyQueue(queue);
    this.#native.closeRegion(this.#memory);
    this.#swap.dispose();
  }
}

const candidates: readonly AioSettings[] = [2 ** 20, 2 ** 22].flatMap((blockBytes) =>
  [4, 8].map((queueDepth) => ({ blockBytes, queueDepth, parallelism: 1 })),
);

/**
 * @param elements of a sub-group; the last ones measured are as many as `stateBytes` hold
 * @param rounds after one that is not counted
 */
export async function measureDisk(elements = 2 ** 22, stateBytes = 2 ** 30, rounds = 7): Promise<DiskResult> {
  const folder = fileURLToPath(new URL("../build/bench-disk", import.meta.url));
  mkdirSync(folder, { recursive: true });
  try {
    const cases = candidates.map((settings) => ({ folders: [folder], settings }));
    using speed = new SwapSpeed({ cases, recordBytes: usualRecordBytes, records: 8 });
    const swept = candidates.map((): number[] => []);
    for (const i of cases.keys()) await speed.pass(i, "write");
    for (let round = 0; round < 3; round++)
      for (const [i, rates] of swept.entries()) rates.push(await speed.pass(i, "mixed"));
    const best = swept.map(median).reduce((most, rate, i, all) => (rate > all[most]! ? i : most), 0);
    const settings = candidates[best]!;
    using update = new PipelinedUpdate(folder, settings, elements, Math.floor(stateBytes / (4 * streams * elements)));
    await update.fill();
    const found = { sweep: [] as number[], update: [] as number[] };
    for (let round = 0; round <= rounds; round++) {
      const sweep = await speed.pass(best, "mixed");
      const updated = await update.pass();
      if (round === 0) continue;
      found.sweep.push(sweep);
      found.update.push(updated);
    }
    const [sweepGBs, updateGBs] = [median(found.sweep) / 1e9, median(found.update) / 1e9];
    return { settings, sweepGBs, updateGBs, share: updateGBs / sweepGBs };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
