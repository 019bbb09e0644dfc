/**
 * What is hidden costs nothing: training with optimizer states on a drive, and on the same drive made slower by a pause before every
 * transfer. The step may take longer only by what the hidden shares say that compute waited for.
 */
import { rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { SharedMemoryTransport } from "../src/comm/shared-memory.ts";
import { parseConfigObject } from "../src/config/json.ts";
import { resolveConfig } from "../src/config/resolve.ts";
import { CpuBackend, type CpuOptions } from "../src/device/cpu.ts";
import { Device, type DiskOptions, type OpenedDisk } from "../src/device/device.ts";
import { loadNative } from "../src/device/native.ts";
import { defaultArenaBytes } from "../src/launch/world.ts";
import { Gpt2, type LanguageBatch } from "../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../src/nn/models/gpt2-config.ts";
import { Engine } from "../src/zero/engine.ts";
import type { StepRecord } from "../src/zero/record.ts";
import { median } from "./ranks.ts";

export interface HiddenResult {
  readonly delayMs: number;
  /** Medians over the steps. */
  readonly stepSeconds: number;
  /** Of reading and of writing, a step. */
  readonly diskSeconds: readonly [read: number, write: number];
  /** How long compute waited for each. */
  readonly waitedSeconds: readonly [read: number, write: number];
}

/** The CPU device with a pause before every transfer from and to the disk. */
class SlowDisk extends CpuBackend {
  readonly #delayMs: number;

  constructor(options: CpuOptions, delayMs: number) {
    super(options);
    this.#delayMs = delayMs;
  }

  override async openDisk(options: DiskOptions): Promise<OpenedDisk> {
    const opened = await super.openDisk(options);
    for (const operation of ["read", "write"] as const)
      this.native.injectSwapFault({
        ...{ swap: opened.swap, operation, kind: "delay", afterOps: 0 },
        delayMs: this.#delayMs,
      });
    return opened;
  }
}

const model = { ...gpt2Configs.gpt2, layers: 6, hidden: 512, heads: 8, vocabularySize: 512, positions: 256 };
const [microBatch, seqLength] = [32, 256];

const configOf = (folder: string): object => ({
  train_micro_batch_size_per_gpu: microBatch,
  gradient_clipping: 1,
  bf16: { enabled: true },
  optimizer: { type: "AdamW", params: { lr: 1e-4 } },
  zero_optimization: { stage: 1, offload_optimizer: { device: "nvme", nvme_path: folder, buffer_count: 4 } },
});

async function createEngine(folder: string, delayMs: number): Promise<Engine<LanguageBatch>> {
  const native = loadNative();
  const arenaBytes = defaultArenaBytes();
  const arena = native.createRegion(arenaBytes);
  const backend = new SlowDisk({ threads: 1, deviceRegion: arena, arenaBytes }, delayMs);
  const control = native.createRegion(native.controlBytes(1));
  const describeTag = (tag: number): string => backend.tagNames(tag);
  const world = { rank: 0, worldSize: 1, control, arenas: [arena], deadlineMs: 60_000 };
  return Engine.create<LanguageBatch>({
    model: new Gpt2(model),
    config: resolveConfig({ file: parseConfigObject(configOf(folder)), worldSize: 1 }),
    device: new Device({ backend, arenaBytes }),
    transport: new SharedMemoryTransport({ ...world, describeTag }),
  });
}

/** Steps after one that is not counted: its passes wait for no update. */
async function train(folder: string, delayMs: number, steps: number): Promise<StepRecord[]> {
  await using engine = await createEngine(folder, delayMs);
  const shape = [microBatch, seqLength];
  const data = Int32Array.from({ length: microBatch * seqLength }, (_, i) => (i * 7919) % model.vocabularySize);
  const records: StepRecord[] = [];
  for (let step = 0; step <= steps; step++) {
    await engine.backward(await engine.forward({ inputs: { data, shape }, targets: { data, shape } }));
    records.push((await engine.step())!);
  }
  return records.slice(1);
}

function resultOf(delayMs: number, records: readonly StepRecord[]): HiddenResult {
  const of = (queue: "diskRead" | "diskWrite", field: "seconds" | "waitedSeconds"): number =>
    median(records.map((r) => r.ranks[0]!.overlap[queue][field]));
  return {
    delayMs,
    stepSeconds: median(records.map((r) => r.seconds)),
    diskSeconds: [of("diskRead", "seconds"), of("diskWrite", "seconds")],
    waitedSeconds: [of("diskRead", "waitedSeconds"), of("diskWrite", "waitedSeconds")],
  };
}

/** @param rounds of each delay, in turns @param steps of a round */
export async function measureHidden(delaysMs: readonly number[], rounds = 2, steps = 2): Promise<HiddenResult[]> {
  const folder = fileURLToPath(new URL("../build/bench-hidden", import.meta.url));
  await mkdir(folder, { recursive: true });
  try {
    const records = delaysMs.map((): StepRecord[] => []);
    for (let round = 0; round < rounds; round++)
      for (const [i, delayMs] of delaysMs.entries()) records[i]!.push(...(await train(folder, delayMs, steps)));
    return delaysMs.map((delayMs, i) => resultOf(delayMs, records[i]!));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
