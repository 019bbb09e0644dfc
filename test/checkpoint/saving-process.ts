// Trains and saves after every step, beside the next one, until it is killed; goes on from the newest checkpoint of its folder, if there
// is one. Arguments: the folder, how many checkpoints stay ("all": all of them), more of the configuration as JSON, and a model folder with a
// block that is frozen, so that checkpoints leave it there.
// A line "saved N" follows each published checkpoint, "resumed N" the start, "refused MESSAGE" a disk that takes no more.
import { existsSync } from "node:fs";
import { CheckpointError, initialize, openModelFolder, saveCheckpoint } from "../../src/index.ts";
import { createLogger } from "../../src/log/logger.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import { buildModel, gpt2 } from "../laws/models.ts";
import { smallJob, trainStep } from "../zero/support.ts";

const [folder, keep = "all", more = "{}", base] = process.argv.slice(2) as [string, string?, string?, string?];
const job = smallJob({
  model: gpt2({ hidden: 128 }),
  config: {
    train_micro_batch_size_per_gpu: 1,
    optimizer: { type: "AdamW", params: { lr: 0.001 } },
    ...(JSON.parse(more) as object),
    ...(base !== undefined && { shunya: { freeze: ["transformer.h.0.*"] } }),
  },
  seqLength: 8,
});
const options = keep === "all" ? {} : { keep: Number(keep) };

await using model = base === undefined ? undefined : await openModelFolder(base);
await using engine = await initialize<LanguageBatch>({
  model: buildModel(job.model, 0),
  config: job.config,
  threads: 1,
  // Nothing may be damaged: what is said of a checkpoint that is passed over is an error here.
  logger: createLogger({ rank: 0, write: (line) => process.stdout.write(line) }),
  // From a checkpoint it goes on with the folder that the checkpoint names.
  ...(existsSync(folder) ? { resume: folder } : model?.weights && { weights: model.weights }),
});
const say = (line: string): void => {
  if (engine.group.rank === 0) process.stdout.write(`${line}\n`);
};
say(`resumed ${engine.steps}`);
let saving: Promise<void> = Promise.resolve();
try {
  for (;;) {
    await trainStep(engine, job, engine.steps);
    await saving;
    saving = saveCheckpoint(engine, folder, options).then(({ step }) => say(`saved ${step}`));
    saving.catch(() => undefined); // told where it is awaited
  }
} catch (error) {
  if (!(error instanceof CheckpointError)) throw error;
  say(`refused ${error.message}`);
}
