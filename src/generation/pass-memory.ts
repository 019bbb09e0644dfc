/** What reading a text takes beside the model: the same passes on the simulated device, which keeps the ledger and computes nothing. */
import { availableParallelism } from "node:os";
import { Device } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import { SimulatedBackend } from "../device/simulated.ts";
import { KeyValueCache } from "../nn/key-value-cache.ts";
import { copyAdapters } from "../nn/lora.ts";
import type { LanguageModel } from "../nn/models/language-model.ts";
import { RandomKeys } from "../tensor/random.ts";
import { Tape } from "../tensor/tape.ts";
import { Tensor } from "../tensor/tensor.ts";

export interface Reading {
  /** Tokens that the cache has room for. */
  readonly capacity: number;
  /** Most tokens of a pass. */
  readonly passTokens: number;
  /** Of activations. */
  readonly dtype: DType;
}

/** Address space without end: only sizes count here. */
const arenaBytes = 2 ** 52;

/** Bytes of the cache and of the passes that fill it, at most: with as many threads as the machine has cores. */
export async function readingBytes(model: LanguageModel, { capacity, passTokens, dtype }: Reading): Promise<number> {
  using device = new Device({ backend: new SimulatedBackend(availableParallelism()), arenaBytes });
  const twin = model.twin();
  copyAdapters(model, twin);
  let weightBytes = 0;
  for (const [name, parameter] of twin.namedParameters()) {
    const buffer = device.allocate("parameters", parameter.elements * dtypeBytes[dtype]);
    weightBytes += buffer.bytes;
    const value = Tensor.borrow(device, buffer, 0, parameter.shape, dtype);
    parameter.name = name;
    parameter.bind({ unitName: "", value, takeGradient: () => ({ tensor: value, accumulate: false }) });
  }
  using cache = new KeyValueCache(device, twin.keyValueShape, capacity, dtype);
  const tokens = Math.min(passTokens, capacity);
  // The last pass that fits sees the most keys; a short one is another path of the kernels.
  for (const count of new Set([tokens, 1])) {
    using tape = new Tape({ device, dtype, training: false, random: new RandomKeys(0) });
    cache.clear(capacity);
    cache.add(capacity - count);
    const logits = await twin.nextLogits(tape, tape.integers(new Int32Array(count), [1, count]), cache);
    tape.make(logits.shape, "f32"); // as they are read
  }
  return device.ledger.highest("device").bytes - weightBytes;
}
