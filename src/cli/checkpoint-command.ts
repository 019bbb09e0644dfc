/** The flags of `shunya checkpoint`. */
import { Command } from "commander";
import { defaultFormat, type WeightType } from "../checkpoint/weight-names.ts";
import { createLogger } from "../log/logger.ts";
import { dtypeOption, shardSizeOption } from "./output-flags.ts";

export function checkpointCommand(): Command {
  return new Command("checkpoint")
    .description("what checkpoints hold, whether they are undamaged, and what others can read or have written")
    .addCommand(inspectCommand())
    .addCommand(verifyCommand())
    .addCommand(exportCommand())
    .addCommand(mergeCommand())
    .addCommand(convertCommand());
}

const inspectCommand = (): Command =>
  new Command("inspect")
    .description("what a checkpoint is of: step, settings, kinds of state, tensors, files")
    .argument("<dir>", "a checkpoint, or a folder of them: then the newest")
    .option("--json", "the same as data, with every tensor")
    .action(async (folder: string, flags: { json?: true }) => {
      const { runInspect } = await import("./checkpoint-inspect.ts");
      await runInspect(folder, flags.json === true);
    });

const verifyCommand = (): Command =>
  new Command("verify")
    .description("whether every byte is as it was written; exit code 2 where one is not")
    .argument("<dir>", "a checkpoint, or a folder of them: then all of them")
    .action(async (folder: string) => {
      const { runVerify } = await import("./checkpoint-verify.ts");
      process.exitCode = await runVerify(folder);
    });

interface FormatFlags {
  readonly output: string;
  readonly dtype: WeightType;
  readonly maxShardSize?: number;
}

interface ExportFlags extends FormatFlags {
  readonly merge?: true;
  readonly model?: string;
}

const addFormat = (command: Command): Command =>
  command
    .requiredOption("--output <folder>", "gets config.json and the weights")
    .addOption(dtypeOption("--dtype").default(defaultFormat.dtype))
    .addOption(shardSizeOption());

const exportCommand = (): Command =>
  addFormat(new Command("export"))
    .description("the weights as a model folder in Hugging Face's layout; of LoRA the adapters, in PEFT's")
    .argument("<dir>", "a checkpoint, or a folder of them: then the newest undamaged one")
    .option("--merge", "of LoRA: one model with the adapters in it")
    .option("--model <name|dir>", "the model, where the checkpoint does not say it, or where its base is now")
    .action(async (folder: string, flags: ExportFlags) => {
      const { runExport } = await import("./checkpoint-export.ts");
      await runExport({ folder, ...flags }, createLogger());
    });

interface MergeFlags extends FormatFlags {
  readonly model: string;
  readonly adapter: string;
}

const mergeCommand = (): Command =>
  addFormat(new Command("merge"))
    .description("a model and LoRA adapters of it as one model folder in Hugging Face's layout")
    .requiredOption("--model <dir|owner/name>", "the model that was adapted")
    .requiredOption("--adapter <dir>", "its adapters, as PEFT or train --output wrote them")
    .action(async (flags: MergeFlags) => {
      const { runMerge } = await import("./checkpoint-merge.ts");
      await runMerge(flags, createLogger());
    });

const convertCommand = (): Command =>
  new Command("convert")
    .description("a DeepSpeed checkpoint (stages 1 to 3, or universal) as one that train --resume goes on from")
    .requiredOption(
      "--from <dir>",
      "what save_checkpoint or ds_to_universal wrote: one step, or the folder with `latest`",
    )
    .requiredOption("--output <dir>", "gets the checkpoint as a folder step-...")
    .option("--model <name|dir>", "the model: compared with the tensors, and kept in the checkpoint")
    .action(async (flags: { from: string; output: string; model?: string }) => {
      const { runConvert } = await import("./checkpoint-convert.ts");
      await runConvert(flags, createLogger());
    });
