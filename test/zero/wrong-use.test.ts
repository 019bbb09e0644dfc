// What an engine is not made from, and what is gone when it is asked for.
import { expect, test } from "vitest";
import { SimulatedTransport } from "../../src/comm/simulated.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { Device } from "../../src/device/device.ts";
import { SimulatedBackend } from "../../src/device/simulated.ts";
import { MemoryBudgetError, ModelError, ShapeError, UsageError } from "../../src/errors/errors.ts";
import { joinWorld } from "../../src/launch/world.ts";
import { Gpt2 } from "../../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../../src/nn/models/gpt2-config.ts";
import { Engine } from "../../src/zero/engine.ts";
import { forecast } from "../../src/zero/forecast.ts";

const shape = { vocabularySize: 32, positions: 16, hidden: 16, layers: 2, heads: 2 };
const small = { ...gpt2Configs.gpt2, ...shape };
const config = (accumulation = 1) =>
  resolveConfig({
    worldSize: 2,
    overrides: [
      ["train_micro_batch_size_per_gpu", 1],
      ["gradient_accumulation_steps", accumulation],
    ],
  });
const ids = { data: new Int32Array(16), shape: [1, 16] };
const batch = { inputs: ids, targets: ids };

const simulated = (given: object = {}, arenaBytes = 2 ** 40) =>
  Engine.create({
    model: new Gpt2(small),
    config: config(),
    device: new Device({ backend: new SimulatedBackend(1), arenaBytes }),
    transport: new SimulatedTransport(0, 2),
    ...given,
  });

test("a model belongs to one open engine at a time", async () => {
  const model = new Gpt2(small);
  const first = await simulated({ model });
  await expect(simulated({ model })).rejects.toThrow(UsageError);
  expect(await first.forward(batch)).toBeDefined(); // the refusal has not touched it
  await first[Symbol.asyncDispose]();
  await (await simulated({ model }))[Symbol.asyncDispose]();
});

test.each([Number.NaN, -1, 1.5, 2 ** 60])("seed %d is refused", async (seed) => {
  await expect(simulated({ seed })).rejects.toThrow(/seed: found/);
});

test.each([undefined, {}])("%j is no model", async (model) => {
  await expect(simulated({ model })).rejects.toThrow(/wanted a Module/);
});

test("given weights of another length are refused by name", async () => {
  const weights = {
    has: () => true,
    read: async (_: string, __: number, count: number) => new Float32Array(count - 1),
  };
  await expect(simulated({ weights })).rejects.toThrow(ModelError);
});

test("more than the address space is a budget that does not hold it, and the model stays free", async () => {
  const model = new Gpt2(small);
  await expect(simulated({ model }, 4096)).rejects.toThrow(MemoryBudgetError);
  await (await simulated({ model }))[Symbol.asyncDispose]();
});

test("a loss is read before the next micro-batch, or not at all", async () => {
  await using engine = await simulated();
  const early = await engine.forward(batch);
  const value = await early.item();
  await engine.backward(early);
  await engine.step();
  const late = await engine.forward(batch);
  await engine.backward(late);
  await engine.step();
  await engine.forward(batch);
  expect(await early.item()).toBe(value);
  await expect(late.item()).rejects.toThrow(/call loss.item\(\) before the next/);
});

test("a forecast takes as long for a billion micro-batches as for four, and counts them all", async () => {
  const sentWith = async (accumulation: number): Promise<number> => {
    const stage3 = { ...config(accumulation), stage: 3 } as const;
    const { report } = await forecast({ model: new Gpt2(small), config: stage3, batch, threads: 1 });
    return report.traffic.reduceScatter.elementsSent;
  };
  expect(await sentWith(1e9)).toBe(1e9 * (await sentWith(1)));
});

test("a batch that is refused can be given again, right", async () => {
  await using engine = await simulated();
  const short = { data: new Int32Array(15), shape: [1, 16] };
  await expect(engine.forward({ inputs: ids, targets: short })).rejects.toThrow(/batch.targets: found 15 elements/);
  await engine.backward(await engine.forward(batch));
  expect((await engine.step())!.step).toBe(1);
});

test("widths that heads do not divide, and inputs without a batch, are named", async () => {
  expect(() => new Gpt2({ ...small, heads: 3 })).toThrow(ShapeError);
  await using engine = await simulated();
  const flat = { data: new Int32Array(16), shape: [16] };
  await expect(engine.forward({ inputs: flat, targets: flat })).rejects.toThrow(/\[batch, seq\]/);
});

test.each([
  [{ threads: 0 }, /threads: found 0/],
  [{ threads: 1e6 }, /threads: found 1000000/],
  [{ deviceMemoryBytes: Number.NaN }, /deviceMemoryBytes: found NaN/],
  [{ deadlineMs: 0 }, /deadlineMs: found 0/],
])("a world with %j is refused", (options, message) => {
  expect(() => joinWorld(options)).toThrow(message);
});
