// GPT-2 on a text file, by the engine's own calls: npx shunya launch --ranks 2 examples/train-gpt2.ts FILE [steps]
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Gpt2, gpt2Configs, initialize } from "shunya";

const [file = fileURLToPath(new URL("../README.md", import.meta.url)), steps = "100"] = process.argv.slice(2);
const length = 64;

// A published size with smaller numbers; `gpt2Configs.gpt2` as it is would be the model of 124 million parameters.
const small = { vocabularySize: 256, positions: length, hidden: 96, layers: 3, heads: 3 };
const model = new Gpt2({ ...gpt2Configs.gpt2, ...small });
const config = fileURLToPath(new URL("ds_config.json", import.meta.url));

await using engine = await initialize({ model, config });
const { rank, worldSize } = engine.group;
const { microBatch, gradientAccumulation } = engine.plan.config;
const shape = [microBatch, length];

engine.on("step", ({ step, loss, gradNorm, ranks }) => {
  const bytes = Object.values(ranks[0]!.memory.atPeak).reduce((sum, kind) => sum + kind, 0);
  if (rank === 0 && step % 10 === 0)
    console.log(`step ${step}  loss ${loss.toFixed(3)}  norm ${gradNorm?.toFixed(2)}  peak ${bytes} bytes a rank`);
});

// Bytes are tokens. Every micro-batch of every rank takes the next windows of the text.
const text = Int32Array.from(readFileSync(file));
const count = microBatch * length;
for (let step = 0; step < Number(steps); step++) {
  for (let micro = 0; micro < gradientAccumulation; micro++) {
    const sample = (step * gradientAccumulation + micro) * worldSize + rank;
    const first = (sample * count) % (text.length - count);
    const inputs = { data: text.slice(first, first + count), shape };
    const targets = { data: text.slice(first + 1, first + 1 + count), shape };
    const loss = await engine.forward({ inputs, targets });
    await engine.backward(loss);
  }
  await engine.step(); // updates once all micro-batches of the step have run
}
