// What the system charges this process with while it writes a model, loads it into an engine, saves it and exports a checkpoint of it.
// Arguments: a folder to work in, the layers and the width of a GPT-2, and the type of the files. Prints one JSON object.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { exportModel, weightsIn } from "../../src/checkpoint/export-model.ts";
import { openTraining } from "../../src/checkpoint/open-training.ts";
import { defaultFormat, type WeightType } from "../../src/checkpoint/weight-names.ts";
import { writeModel } from "../../src/checkpoint/write-model.ts";
import { createModel, initialize, openModelFolder, saveCheckpoint, saveModel } from "../../src/index.ts";
import { createLogger } from "../../src/log/logger.ts";
import type { LanguageBatch } from "../../src/nn/models/language-model.ts";
import { elementsOf } from "../../src/tensor/tensor.ts";
import { tensorsOf, tinyConfig } from "./files.ts";

const [folder, layers, hidden, dtype] = process.argv.slice(2) as [string, string, string, WeightType];
const config = { ...tinyConfig, layers: Number(layers), hidden: Number(hidden), heads: 8, vocabularySize: 256 };
const tensors = tensorsOf(config);
const format = { ...defaultFormat, dtype, maxShardBytes: 2e7 };

/** Proportional set size, in bytes. */
const residentBytes = (): number =>
  1024 * Number(/^Pss: +(\d+) kB$/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))![1]);

/** By how much the process grew over what it had before, at most, while `body` ran. */
async function growth(body: () => Promise<void>): Promise<number> {
  globalThis.gc?.();
  const before = residentBytes();
  let highest = before;
  const look = (): void => {
    highest = Math.max(highest, residentBytes());
  };
  const timer = setInterval(look, 5);
  await body();
  look();
  clearInterval(timer);
  return highest - before;
}

const content = {
  config,
  tensors,
  values: async function* ({ shape }: { shape: readonly number[] }): AsyncGenerator<Float32Array> {
    for (let left = elementsOf(shape); left > 0; left -= 1 << 20)
      yield new Float32Array(Math.min(left, 1 << 20)).fill(0.01);
  },
};

const [given, saved, exported, checkpoints] = ["given", "saved", "exported", "checkpoints"].map((name) =>
  join(folder, name),
);
const write = await growth(async () => void (await writeModel(given!, content, format)));
await using opened = await openModelFolder(given!);
const settings = {
  train_micro_batch_size_per_gpu: 1,
  optimizer: { type: "SGD", params: { lr: 0.1 } },
  zero_optimization: { stage: 3 },
};
let engine: Awaited<ReturnType<typeof initialize<LanguageBatch>>>;
const load = await growth(async () => {
  engine = await initialize<LanguageBatch>({
    model: createModel(config),
    config: settings,
    weights: opened.weights!,
    logger: createLogger({ write: () => {} }),
  });
});
const ledger = (): number => engine.device.ledger.highest("device").bytes;
const loadLedger = ledger();
const save = await growth(() => saveModel(engine, config, saved!, format));
const saveLedger = ledger();
await saveCheckpoint(engine!, checkpoints!);
await engine![Symbol.asyncDispose]();
await using checkpoint = await openTraining(join(checkpoints!, "step-00000000"));
const exporting = await growth(async () => void (await exportModel(weightsIn(checkpoint), config, exported!, format)));
const modelBytes = 4 * tensors.reduce((sum, { shape }) => sum + elementsOf(shape), 0);
process.stdout.write(JSON.stringify({ modelBytes, write, load, loadLedger, save, saveLedger, export: exporting }));
