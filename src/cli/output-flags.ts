/** How `--output` writes a model: the flags that `train` and `checkpoint export` share. */
import { type Command, Option } from "commander";
import { defaultFormat, type ModelFormat, type WeightType, weightTypes } from "../checkpoint/weight-names.ts";
import { UsageError } from "../errors/errors.ts";
import { parsePositiveBytes } from "./parse.ts";

export interface OutputFlags {
  readonly output?: string;
  readonly outputDtype?: WeightType;
  readonly maxShardSize?: number;
}

/** @param dtypeFlag its name, since `--dtype` alone would say too little beside a training's own types */
export const dtypeOption = (dtypeFlag: string): Option =>
  new Option(`${dtypeFlag} <type>`, "of the weights that are written").choices(Object.keys(weightTypes));

export const shardSizeOption = (): Option =>
  new Option("--max-shard-size <size>", "bytes of a file of weights (default: 5GB)").argParser(parsePositiveBytes);

export const addOutputFormat = (command: Command): Command =>
  command.addOption(dtypeOption("--output-dtype")).addOption(shardSizeOption());

/** @throws UsageError where nothing is written */
export function outputFormatOf({ output, outputDtype, maxShardSize }: OutputFlags): Partial<ModelFormat> | undefined {
  if (outputDtype === undefined && maxShardSize === undefined) return undefined;
  if (output === undefined)
    throw new UsageError("--output-dtype and --max-shard-size say how --output DIR is written; give that too");
  return {
    dtype: outputDtype ?? defaultFormat.dtype,
    maxShardBytes: maxShardSize ?? defaultFormat.maxShardBytes,
  };
}
