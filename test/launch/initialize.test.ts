// The front door in a world of one: budgets of both memories, page-locked memory, and what is said of tiers.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { lockLimitBytes } from "../../src/device/locked-memory.ts";
import { type InitializeOptions, initialize } from "../../src/launch/initialize.ts";
import { createLogger } from "../../src/log/logger.ts";
import { Gpt2, type LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { Engine } from "../../src/zero/engine.ts";
import { tinyGpt2 } from "../laws/models.ts";

const swap = mkdtempSync(join(tmpdir(), "shunya-initialize-"));
afterAll(() => rmSync(swap, { recursive: true, force: true }));

const shape = [1, 16];
const tokens = { data: new Int32Array(16), shape };

async function start(
  zero_optimization: object,
  more: Partial<InitializeOptions<LanguageBatch>> = {},
): Promise<{ engine: Engine<LanguageBatch>; said: string[] }> {
  const said: string[] = [];
  const engine = await initialize<LanguageBatch>({
    model: new Gpt2({ ...tinyGpt2, hidden: 64, heads: 2 }),
    config: {
      train_micro_batch_size_per_gpu: 1,
      bf16: { enabled: true },
      optimizer: { type: "AdamW", params: { lr: 1e-3 } },
      zero_optimization,
    },
    threads: 1,
    logger: createLogger({ write: (line) => said.push(line) }),
    ...more,
  });
  return { engine, said };
}

async function step(engine: Engine<LanguageBatch>): Promise<void> {
  await engine.backward(await engine.forward({ inputs: tokens, targets: tokens }));
  await engine.step();
}

const host = { device: "cpu" };

test("offloaded memory is page-locked as pin_memory says, and the ledger knows how much", async (context) => {
  const { engine } = await start({ stage: 3, offload_optimizer: host, offload_param: host });
  await using _ = engine;
  await step(engine);
  const { lockedBytes, refusedBytes } = engine.device.locked;
  if (refusedBytes > 0) context.skip(`this system lets a process lock ${lockLimitBytes()} bytes only`);
  const held = engine.device.ledger.total("host");
  expect(held).toBeGreaterThan(500_000);
  expect(Math.abs(lockedBytes / held - 1)).toBeLessThan(0.02);
  expect(engine.notices).toEqual([]);
});

test("nothing is locked where pin_memory is off, or nothing is offloaded", async () => {
  for (const zero of [{ stage: 2, offload_optimizer: { ...host, pin_memory: false } }, { stage: 2 }]) {
    const { engine, said } = await start(zero);
    await using _ = engine;
    expect(engine.device.locked).toMatchObject({ lockedBytes: 0, refusedBytes: 0 });
    expect(said).toEqual([]);
  }
});

test("a budget of the host holds, to the byte", async () => {
  const zero = { stage: 2, offload_optimizer: host };
  const { engine } = await start(zero);
  await step(engine);
  const { bytes } = engine.device.ledger.highest("host");
  await engine[Symbol.asyncDispose]();
  const fits = await start(zero, { hostMemoryBytes: bytes });
  await step(fits.engine);
  await fits.engine[Symbol.asyncDispose]();
  const tooSmall = start(zero, { hostMemoryBytes: bytes / 2 });
  await expect(tooSmall).rejects.toMatchObject({ code: "MEMORY", tier: "host" });
  await expect(start(zero, { hostMemoryBytes: 0 })).rejects.toThrow(
    /^initialize: hostMemoryBytes: found 0; wanted a positive/,
  );
});

test("states on disk go with the engine, and a disk without a folder is refused", async () => {
  const { engine } = await start({ stage: 1, offload_optimizer: { device: "nvme", nvme_path: swap } });
  await step(engine);
  expect(readdirSync(swap)).toHaveLength(1);
  await engine[Symbol.asyncDispose]();
  expect(readdirSync(swap)).toEqual([]);
  await expect(start({ stage: 1, offload_optimizer: { device: "nvme" } })).rejects.toThrow(
    /^zero_optimization\.offload_optimizer\.nvme_path is left out/,
  );
});
