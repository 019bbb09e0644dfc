/** The flags of `shunya explain`. */
import { Command } from "commander";
import { type Override, parseOverride } from "../config/resolve.ts";
import { UsageError } from "../errors/errors.ts";
import { parseBytes, parseCount, parseInteger } from "./parse.ts";

interface ExplainFlags {
  readonly model?: string;
  readonly params?: number;
  readonly ranks: number;
  readonly seqLength?: number;
  readonly deviceMemory?: number;
  readonly microBatch?: number;
  readonly set?: readonly Override[];
  readonly json?: true;
}

function collectOverride(text: string, before: readonly Override[] = []): readonly Override[] {
  const override = parseOverride(text);
  if (!override) throw new UsageError(`--set ${text}: wanted path=value, such as --set zero_optimization.stage=2`);
  return [...before, override];
}

export const explainCommand = (): Command =>
  new Command("explain")
    .description(
      "what a DeepSpeed configuration does, in plain words: where states live, what buckets cost, what is hidden",
    )
    .argument("<config>", "a DeepSpeed-style configuration")
    .option("--ranks <n>", "data-parallel ranks", parseInteger(1), 1)
    .option("--model <name|dir>", "the model that numbers are for: a published size or a model folder")
    .option("--params <n>", "in place of a model: its number of parameters, such as 1.5e9 or 1.5B", parseCount)
    .option("--seq-length <n>", "tokens of a sample (default: the model's positions)", parseInteger(1))
    .option(
      "--device-memory <size>",
      "what training may use of each device, such as 24GB: offload without need is told then",
      parseBytes,
    )
    .option("--micro-batch <n>", "samples of a rank's micro-batch; overrides the file", parseInteger(1))
    .option("--set <path=value>", "override one value of the file; may be repeated", collectOverride)
    .option("--json", "the same as one JSON document")
    .action(async (file: string, flags: ExplainFlags) => {
      const { model, params, ranks, seqLength, deviceMemory, microBatch, set = [] } = flags;
      if (model !== undefined && params !== undefined)
        throw new UsageError("--model and --params were both given, and both say how large the model is; give one");
      const micro: Override[] = microBatch === undefined ? [] : [["train_micro_batch_size_per_gpu", microBatch]];
      const { runExplain } = await import("./explain.ts");
      const question = {
        file,
        overrides: [...set, ...micro],
        ranks,
        model,
        parameters: params,
        seqLength,
        deviceBytes: deviceMemory,
      };
      process.exitCode = await runExplain(question, flags.json === true);
    });
