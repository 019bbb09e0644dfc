/** The flags of `shunya explain`. */
import { Command } from "commander";
import type { Override } from "../config/resolve.ts";
import { UsageError } from "../errors/errors.ts";
import { collectOverride } from "./override-flag.ts";
import { parseBytes, parseCount, parseInteger } from "./parse.ts";
import type { MachineFlags, PlannedMachine } from "./planned-machine.ts";

interface ExplainFlags {
  readonly oom?: string;
  readonly config?: string;
  readonly model?: string;
  readonly params?: number;
  readonly ranks?: number;
  readonly seqLength?: number;
  readonly device?: string;
  readonly deviceMemory?: number;
  readonly hostMemory?: number;
  readonly microBatch?: number;
  readonly set?: readonly Override[];
  readonly json?: true;
}

export const explainCommand = (): Command =>
  new Command("explain")
    .description(
      "what a DeepSpeed configuration does, in plain words: where states live, what buckets cost, what is hidden; or what an out-of-memory message was about",
    )
    .argument("[config]", "a DeepSpeed-style configuration")
    .option(
      "--oom <file>",
      "a log with an out-of-memory message (- for standard input): which bytes those were, and what to change",
    )
    .option("--config <file>", "with --oom: the job's configuration")
    .option("--ranks <n>", "data-parallel ranks (default: 1)", parseInteger(1))
    .option(
      "--model <name|dir|file>",
      "the model that numbers are for: a published name, a model folder, a config.json, or owner/name on Hugging Face",
    )
    .option("--params <n>", "in place of a model: its number of parameters, such as 1.5e9 or 1.5B", parseCount)
    .option("--seq-length <n>", "tokens of a sample (default: the model's positions)", parseInteger(1))
    .option("--device <name>", "a card, such as A10G or A100-40GB: then it is told what is offloaded without need")
    .option("--device-memory <size>", "usable memory of a device, instead of the card's", parseBytes)
    .option("--host-memory <size>", "usable memory of a node's host", parseBytes)
    .option("--micro-batch <n>", "samples of a rank's micro-batch; overrides the file", parseInteger(1))
    .option("--set <path=value>", "override one value of the file; may be repeated", collectOverride)
    .option("--json", "the same as one JSON document")
    .action(runCommand);

async function runCommand(argument: string | undefined, flags: ExplainFlags): Promise<void> {
  const { oom, model, params, ranks, microBatch, device, deviceMemory, hostMemory, set = [] } = flags;
  if (argument !== undefined && flags.config !== undefined)
    throw new UsageError(`${argument} and --config ${flags.config} were both given; give one configuration`);
  const file = argument ?? flags.config;
  const micro: Override[] = microBatch === undefined ? [] : [["train_micro_batch_size_per_gpu", microBatch]];
  const question = {
    overrides: [...set, ...micro],
    model,
    parameters: params,
    seqLength: flags.seqLength,
    machine: await machineOf({ device, deviceMemory, hostMemory }),
  };
  const asJson = flags.json === true;
  if (oom !== undefined) {
    const { runExplainOom } = await import("./explain-oom.ts");
    process.exitCode = await runExplainOom({ ...question, log: oom, file, ranks }, asJson);
    return;
  }
  if (file === undefined)
    throw new UsageError(
      "explain needs a configuration file, or --oom FILE with a log; such as: shunya explain ds.json --params 1.5e9",
    );
  const { runExplain } = await import("./explain.ts");
  process.exitCode = await runExplain({ ...question, file, ranks: ranks ?? 1 }, asJson);
}

/** Undefined where nothing is said of one. */
async function machineOf(flags: MachineFlags): Promise<PlannedMachine | undefined> {
  if (flags.device === undefined && flags.deviceMemory === undefined) return undefined;
  const { plannedMachine } = await import("./planned-machine.ts");
  return plannedMachine(flags);
}
