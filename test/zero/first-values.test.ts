// First values are read once from where they are given, though a rank may need them as parameters and as masters.
import { expect, test } from "vitest";
import { SimulatedTransport } from "../../src/comm/simulated.ts";
import { resolveConfig } from "../../src/config/resolve.ts";
import { Device } from "../../src/device/device.ts";
import { SimulatedBackend } from "../../src/device/simulated.ts";
import { describeModel } from "../../src/nn/describe.ts";
import { elementsOf } from "../../src/tensor/tensor.ts";
import { Engine } from "../../src/zero/engine.ts";
import { buildModel, gpt2 } from "../laws/models.ts";

const worldSize = 3;

/** How often rank 1 read each element of the given weights. */
async function readsOf(stage: number, more: readonly (readonly [string, unknown])[]): Promise<Set<number>> {
  const config = resolveConfig({
    worldSize,
    overrides: [["train_micro_batch_size_per_gpu", 1], ["zero_optimization.stage", stage], ...more],
  });
  const model = buildModel(gpt2(), 0);
  const counts = new Map(
    [...describeModel(model).parameters.values()].map(({ name, shape }) => [name, new Uint8Array(elementsOf(shape))]),
  );
  const weights = {
    has: () => true,
    read: async (name: string, first: number, count: number) => {
      const seen = counts.get(name)!;
      for (let i = first; i < first + count; i++) seen[i]!++;
      return new Float32Array(count);
    },
  };
  const device = new Device({ backend: new SimulatedBackend(1), arenaBytes: 2 ** 40 });
  const transport = new SimulatedTransport(1, worldSize);
  await using _ = await Engine.create({ model, config, device, transport, weights });
  return new Set([...counts.values()].flatMap((seen) => [...seen]));
}

const bf16 = ["bf16.enabled", true] as const;
const host = ["zero_optimization.offload_optimizer.device", "cpu"] as const;

test.each([
  { what: "all of it", stage: 0, more: [bf16], reads: [1] },
  { what: "all of it, of which it updates a part", stage: 1, more: [bf16], reads: [1] },
  { what: "all of it, masters on the host", stage: 2, more: [bf16, host], reads: [1] },
  { what: "its own range", stage: 3, more: [bf16], reads: [0, 1] },
  { what: "parameters that are their own masters", stage: 1, more: [], reads: [1] },
])("a rank that holds $what at stage $stage reads it once", async ({ stage, more, reads }) => {
  expect([...(await readsOf(stage, more))].sort()).toEqual(reads);
});
