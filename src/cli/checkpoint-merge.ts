/** `shunya checkpoint merge`: a model and its adapters as one model. */
import { exportModel } from "../checkpoint/export-model.ts";
import { readGenerationConfig } from "../checkpoint/generation-json.ts";
import { mergedModel } from "../checkpoint/merge-adapter.ts";
import { defaultFormat, type WeightType } from "../checkpoint/weight-names.ts";
import { ModelError } from "../errors/errors.ts";
import { formatBytes, formatMany } from "../report/numbers.ts";
import { checkCompanionsThere, copyCompanions } from "./companion-files.ts";
import { openAdapted, openJobTokenizer } from "./job.ts";

export interface MergeRequest {
  readonly dtype: WeightType;
  readonly maxShardSize?: number;
  readonly model: string;
  readonly adapter: string;
  readonly output: string;
}

/** @throws ModelError, UsageError */
export async function runMerge(request: MergeRequest): Promise<void> {
  await using opened = await openAdapted(request.model, request.adapter);
  const { config, weights, lora } = opened;
  if (!weights || !lora)
    throw new ModelError(`--model ${request.model} has no weights; wanted the folder of the model that was adapted`);
  const tokenizer = await openJobTokenizer({ tokenizer: undefined, model: request.model });
  const companions = { tokenizer, generation: await readGenerationConfig(request.model) };
  checkCompanionsThere(request.output, companions, false);
  const source = mergedModel(config, lora, (name, first, count) => weights.read(name, first, count));
  const format = { dtype: request.dtype, maxShardBytes: request.maxShardSize ?? defaultFormat.maxShardBytes };
  const { files, bytes } = await exportModel(source, config, request.output, format);
  await copyCompanions(companions, request.output);
  process.stdout.write(
    `${request.model} with the adapters of ${request.adapter} is in ${request.output}: ${formatBytes(bytes)} of weights in ` +
      `${request.dtype}, ${formatMany(files.length, "file")}.\n`,
  );
}
