/** `shunya checkpoint merge`: a model and its adapters as one model. */
import { realpathSync } from "node:fs";
import { exportModel } from "../checkpoint/export-model.ts";
import { readGenerationConfig } from "../checkpoint/generation-json.ts";
import { mergedModel } from "../checkpoint/merge-adapter.ts";
import { defaultFormat, type WeightType } from "../checkpoint/weight-names.ts";
import { ModelError } from "../errors/errors.ts";
import type { Logger } from "../log/logger.ts";
import { formatBytes, formatMany } from "../report/numbers.ts";
import { checkCompanionsThere, copyCompanions } from "./companion-files.ts";
import { baseOf, openAdapted, openJobTokenizer } from "./job.ts";

export interface MergeRequest {
  readonly dtype: WeightType;
  readonly maxShardSize?: number;
  readonly model: string;
  readonly adapter: string;
  readonly output: string;
}

/** Whether an adapter's own name for its model leads to the one that was named. */
function isModel(base: string, model: string): boolean {
  if (base === model || base === baseOf({ model })) return true;
  try {
    return realpathSync(base) === realpathSync(model);
  } catch {
    return false; // one of them is no folder here
  }
}

/** @throws ModelError, UsageError */
export async function runMerge(request: MergeRequest, logger: Logger): Promise<void> {
  await using opened = await openAdapted(request.model, request.adapter);
  const { config, weights, lora, base } = opened;
  if (!weights || !lora)
    throw new ModelError(`--model ${request.model} has no weights; wanted the folder of the model that was adapted`);
  const tokenizer = await openJobTokenizer({ tokenizer: undefined, model: request.model });
  const companions = { tokenizer, generation: await readGenerationConfig(request.model) };
  checkCompanionsThere(request.output, companions, false);
  const source = mergedModel(config, lora, (name, first, count) => weights.read(name, first, count));
  const format = { dtype: request.dtype, maxShardBytes: request.maxShardSize ?? defaultFormat.maxShardBytes };
  const { files, bytes } = await exportModel(source, config, request.output, format);
  await copyCompanions(companions, request.output);
  if (typeof base === "string" && !isModel(base, request.model))
    logger.warn(
      `${request.adapter} says that it belongs to ${base}, and it is merged into ${request.model}: that should be the same model, and not ` +
        "one that has these adapters in it already",
    );
  process.stdout.write(
    `${request.model} with the adapters of ${request.adapter} is in ${request.output}: ${formatBytes(bytes)} of weights in ` +
      `${request.dtype}, ${formatMany(files.length, "file")}.\n`,
  );
}
