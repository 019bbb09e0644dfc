// Trains and saves after every step until it is killed; goes on from the newest checkpoint of its folder, if there is one.
// Arguments: the folder, and how many checkpoints stay (left out: all). A line "saved N" follows each published checkpoint, "resumed N" the start.
import { existsSync } from "node:fs";
import { initialize, saveCheckpoint } from "../../src/index.ts";
import { createLogger } from "../../src/log/logger.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import { buildModel, gpt2 } from "../laws/models.ts";
import { smallJob, trainStep } from "../zero/support.ts";

const folder = process.argv[2]!;
const keep = process.argv[3] === undefined ? undefined : Number(process.argv[3]);
const job = smallJob({
  model: gpt2({ hidden: 128 }),
  config: { train_micro_batch_size_per_gpu: 1, optimizer: { type: "AdamW", params: { lr: 0.001 } } },
  seqLength: 8,
});

await using engine = await initialize<LanguageBatch>({
  model: buildModel(job.model, 0),
  config: job.config,
  threads: 1,
  // Nothing may be damaged: what is said of a checkpoint that is passed over is an error here.
  logger: createLogger({ rank: 0, write: (line) => process.stdout.write(line) }),
  ...(existsSync(folder) && { resume: folder }),
});
process.stdout.write(`resumed ${engine.steps}\n`);
for (;;) {
  await trainStep(engine, job, engine.steps);
  const { step } = await saveCheckpoint(engine, folder, { ...(keep !== undefined && { keep }) });
  process.stdout.write(`saved ${step}\n`);
}
