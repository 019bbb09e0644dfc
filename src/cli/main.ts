/** The `shunya` command: every command's flags in one place. Errors end the process with a code that says what kind they were. */
import { Command, CommanderError, InvalidArgumentError } from "commander";
import type { Override } from "../config/resolve.ts";
import { ShunyaError, UsageError } from "../errors/errors.ts";
import { isSystemError, messageOf, reasonOf } from "../errors/system-error.ts";
import { defaultThreads } from "../launch/environment.ts";
import { errorExitCode, exitCodes } from "../launch/exit-codes.ts";
import { createLogger } from "../log/logger.ts";
import { checkpointCommand } from "./checkpoint-command.ts";
import { explainCommand } from "./explain-command.ts";
import { generateCommand } from "./generate-command.ts";
import type { ReadingOptions } from "./job.ts";
import { mostRanks, mostThreads } from "./limits.ts";
import { fetchNamedModels } from "./model-flags.ts";
import { addOutputFormat, type OutputFlags, outputFormatOf } from "./output-flags.ts";
import { collectOverride } from "./override-flag.ts";
import { parseBytes, parseDevice, parseInteger, parsePositive, parseShare } from "./parse.ts";
import { planCommand, simulateCommand } from "./plan-command.ts";
import { tokenizerCommand } from "./tokenizer-command.ts";
import { addTuningOptions, type TuningFlags, tuningOverrides } from "./tuning-flags.ts";

const trainsOn =
  "This version trains on the CPUs of one Linux or macOS machine (fp32, bf16, fp16); there is no GPU support yet.";

const dataHelp =
  "UTF-8 text; .jsonl and .parquet of texts, or of conversations whose answers are learned; .bin token files; .gz or .zst of texts; folders and globs; a.txt:0.7 b.jsonl:0.3 mixes by weight";

interface TrainFlags extends TuningFlags, OutputFlags {
  readonly config?: string;
  readonly stage?: number;
  readonly set?: readonly Override[];
  readonly model?: string;
  readonly adapter?: string;
  readonly microBatch?: number;
  readonly lr?: number;
  readonly data: readonly string[];
  readonly textField: string;
  readonly dataCache?: string;
  readonly validation?: number;
  readonly validationData?: readonly string[];
  readonly evalEvery?: number;
  readonly samplePrompt?: readonly string[];
  readonly tokenizer?: string;
  readonly ranks: number;
  readonly steps?: number;
  readonly seqLength?: number;
  readonly seed: number;
  readonly shuffle: boolean;
  readonly deviceMemory?: number;
  readonly hostMemory?: number;
  readonly threads?: number;
  readonly overwrite?: true;
  readonly dryRun?: true;
  readonly saveEvery?: number;
  readonly keep?: number;
  readonly resume?: string;
  readonly logJson?: string;
  readonly trace?: string;
}

const collectPath = (path: string, before: readonly string[] = []): readonly string[] => [...before, path];

function collectPrompt(text: string, before: readonly string[] = []): readonly string[] {
  if (text === "") throw new InvalidArgumentError("the prompt is empty; give at least one character.");
  return [...before, text];
}

/** Values of the file that have a flag of their own. */
function namedOverrides({ stage, microBatch, lr }: Pick<TrainFlags, "stage" | "microBatch" | "lr">): Override[] {
  const all: readonly (readonly [string, number | undefined])[] = [
    ["zero_optimization.stage", stage],
    ["train_micro_batch_size_per_gpu", microBatch],
    ["optimizer.params.lr", lr],
  ];
  return all.flatMap(([path, value]) => (value === undefined ? [] : [[path, value] as const]));
}

/** @throws UsageError */
function validationOf({
  validation,
  validationData,
  evalEvery,
  samplePrompt,
}: TrainFlags): ReadingOptions["validation"] {
  if (validation !== undefined && validationData !== undefined)
    throw new UsageError("--validation and --validation-data are two ways to say the same; give one of them");
  if (validation !== undefined) return { share: validation };
  if (validationData !== undefined) return { data: validationData };
  if (evalEvery === undefined || samplePrompt !== undefined) return undefined;
  throw new UsageError(
    "--eval-every needs something to look at: give --validation 0.01, --validation-data FILE, or --sample-prompt TEXT",
  );
}

function trainCommand(): Command {
  return addOutputFormat(addTuningOptions(new Command("train")))
    .description("train a GPT-2 or a Llama on text with N data-parallel ranks at a ZeRO stage")
    .option(
      "--model <name|dir>",
      "a published size (gpt2 to gpt2-xl, llama-3.2-1b, qwen2.5-0.5b, smollm-135m, ...) for new weights; a model folder, or owner/name of a model on Hugging Face, for its weights; left out, a small model (and without --config a configuration) is chosen that this machine trains in about ten minutes",
    )
    .option("--adapter <dir>", "LoRA adapters of the model, as PEFT or --output wrote them: they are trained further")
    .requiredOption("--data <path...>", dataHelp)
    .option(
      "--tokenizer <dir|file>",
      "a tokenizer.json for text, or owner/name on Hugging Face (default: the model folder's, or else bytes are tokens)",
    )
    .option("--text-field <name>", "field of JSONL and Parquet data that holds the text", "text")
    .option("--data-cache <dir>", "where data that were made tokens are kept (default: the user's cache folder)")
    .option("--validation <share>", "hold out this share of each source, such as 0.01, from its end", parseShare)
    .option("--validation-data <path...>", "data for validation that are not trained on; as for --data")
    .option(
      "--eval-every <n>",
      "the loss on the validation data, and samples, after every n steps, and the last",
      parseInteger(1),
    )
    .option("--sample-prompt <text>", "show what the model makes of this text then; may be repeated", collectPrompt)
    .option("--config <file>", "a DeepSpeed-style JSON file")
    .option("--stage <n>", "ZeRO stage 0 to 3; overrides the file", parseInteger(0))
    .option("--micro-batch <n>", "windows of a rank's micro-batch; overrides the file", parseInteger(1))
    .option("--lr <x>", "learning rate of the optimizer; overrides the file", parsePositive)
    .option("--set <path=value>", "override one value of the file; may be repeated", collectOverride)
    .option("--ranks <n>", "data-parallel ranks, one process each", parseInteger(1, mostRanks), 1)
    .option("--steps <n>", "optimizer steps (default: one epoch)", parseInteger(1))
    .option("--seq-length <n>", "tokens of a window (default: the model's positions)", parseInteger(1))
    .option("--seed <n>", "of initial weights, shuffling and dropout", parseInteger(0), 42)
    .option("--no-shuffle", "take windows in the order of the data")
    .option(
      "--device-memory <size>",
      "budget of each rank, such as 24GB; a job that exceeds it is refused (default: a share of this machine's memory)",
      parseBytes,
    )
    .option("--host-memory <size>", "budget of each rank for what is offloaded to the host; the same", parseBytes)
    .option("--threads <n>", "threads of a rank (default: cores / ranks)", parseInteger(1, mostThreads))
    .option("--device <name>", "cpu is the only one in this version", parseDevice, "cpu")
    .option(
      "--output <dir>",
      "write the model there at the end, as Hugging Face has it: in fp32, if --output-dtype says no other; of LoRA the adapters, as PEFT has them",
    )
    .option("--overwrite", "replace a model that another run left in --output DIR; its checkpoints never are")
    .option("--save-every <n>", "a checkpoint in DIR/checkpoints of --output DIR after every n steps", parseInteger(1))
    .option(
      "--keep <n>",
      "of those the newest n stay, and the one that the run goes on from (default: all)",
      parseInteger(1),
    )
    .option(
      "--resume <dir>",
      "go on from a checkpoint, or from the newest in a folder of them; give the same flags again",
    )
    .option("--log-json <file>", "one JSON object per step: loss, memory, traffic, operations of every rank")
    .option("--dry-run", "show the plan of exactly this job, or why it cannot fit, and start nothing")
    .option(
      "--trace <file>",
      "what every queue of every rank did and when, for ui.perfetto.dev: the first 500,000 events of the run",
    )
    .action(async (flags: TrainFlags) => {
      const { runTrain } = await import("./train.ts");
      const job = {
        config: flags.config,
        overrides: [...(flags.set ?? []), ...namedOverrides(flags), ...tuningOverrides(flags)],
        model: flags.model,
        adapter: flags.adapter,
        data: flags.data,
        reading: { textField: flags.textField, cacheFolder: flags.dataCache, validation: validationOf(flags) },
        evalEvery: flags.evalEvery,
        samplePrompts: flags.samplePrompt,
        tokenizer: flags.tokenizer,
        ranks: flags.ranks,
        steps: flags.steps,
        seqLength: flags.seqLength,
        seed: flags.seed,
        shuffle: flags.shuffle,
        deviceMemoryBytes: flags.deviceMemory,
        hostMemoryBytes: flags.hostMemory,
        threads: flags.threads ?? defaultThreads(flags.ranks),
        output: flags.output,
        outputFormat: outputFormatOf(flags),
        overwrite: flags.overwrite === true,
        dryRun: flags.dryRun === true,
        saveEvery: flags.saveEvery,
        keep: flags.keep,
        resume: flags.resume,
        trace: flags.trace,
      };
      process.exitCode = (await runTrain(job, flags.logJson, createLogger())).exitCode;
    });
}

interface ConfigFlags extends Pick<TrainFlags, "set" | "microBatch" | "lr" | "ranks">, TuningFlags {
  readonly model?: string;
  readonly json?: true;
}

function configCommand(): Command {
  return addTuningOptions(new Command("config"))
    .description("what a configuration file comes to, where each value is from, and all that is wrong with it")
    .argument("<file>", "a DeepSpeed-style configuration")
    .option("--ranks <n>", "data-parallel ranks", parseInteger(1), 1)
    .option("--model <name|dir>", 'the model that sizes and "auto" are derived from')
    .option("--micro-batch <n>", "windows of a rank's micro-batch; overrides the file", parseInteger(1))
    .option("--lr <x>", "learning rate of the optimizer; overrides the file", parsePositive)
    .option("--set <path=value>", "override one value of the file; may be repeated", collectOverride)
    .option("--json", "one JSON document: the values, where they are from, and the problems")
    .action(async (file: string, flags: ConfigFlags) => {
      const { runConfig } = await import("./config.ts");
      const overrides = [...(flags.set ?? []), ...namedOverrides(flags), ...tuningOverrides(flags)];
      const question = { file, overrides, ranks: flags.ranks, model: flags.model };
      process.exitCode = await runConfig(question, flags.json === true);
    });
}

function launchCommand(): Command {
  return new Command("launch")
    .description("run your own training script on N ranks (RANK, WORLD_SIZE, LOCAL_RANK are set as by torchrun)")
    .requiredOption("--ranks <n>", "processes to start", parseInteger(1, mostRanks))
    .argument("<script>", "a .ts or .js module that calls initialize()")
    .argument("[args...]", "passed to the script")
    .passThroughOptions()
    .action(async (script: string, args: readonly string[], flags: { ranks: number }) => {
      const { runLaunch } = await import("./launch.ts");
      process.exitCode = await runLaunch(flags.ranks, script, args, createLogger());
    });
}

function benchCommand(): Command {
  const disk = new Command("disk")
    .description("find the aio section of a configuration that makes a drive fastest for offloaded states")
    .requiredOption("--path <dir>", "a folder on the drive; repeat it for several drives", collectPath)
    .option("--size <size>", "of all files together; they are removed at the end", parseBytes, 2 ** 31)
    .option("--seconds <n>", "about how long to measure", parseInteger(1), 40)
    .action(async (flags: { path: readonly string[]; size: number; seconds: number }) => {
      const { runBenchDisk } = await import("./bench-disk.ts");
      await runBenchDisk({ paths: flags.path, sizeBytes: flags.size, seconds: flags.seconds }, createLogger());
    });
  return new Command("bench").description("measure this machine").addCommand(disk);
}

interface DoctorCommandFlags {
  readonly leftovers?: readonly string[];
  readonly removeLeftovers?: readonly string[];
  readonly calibrate?: true;
  readonly path?: string;
  readonly output?: string;
}

function program(): Command {
  const root = new Command("shunya")
    .description(`ZeRO for TypeScript. ${trainsOn}`)
    .version("0.1.0")
    .enablePositionalOptions()
    .addCommand(planCommand())
    .addCommand(simulateCommand())
    .addCommand(trainCommand())
    .addCommand(configCommand())
    .addCommand(explainCommand())
    .addCommand(checkpointCommand())
    .addCommand(generateCommand())
    .addCommand(tokenizerCommand())
    .addCommand(launchCommand())
    .addCommand(benchCommand());
  root
    .command("doctor")
    .description("what this machine offers, and what is missing")
    .option(
      "--leftovers <dir...>",
      "look in these folders (those of nvme_path) for swap files that killed runs left behind",
    )
    .option("--remove-leftovers <dir...>", "the same, and remove them")
    .option("--calibrate", "measure this machine by small training runs (a minute), for plan and simulate to go by")
    .option("--path <dir>", "with --calibrate: measure the drive of this folder too")
    .option("--output <file>", "with --calibrate: keep it there, and not where plan and simulate look by themselves")
    .action(async (flags: DoctorCommandFlags) => {
      if (flags.calibrate) {
        if (flags.leftovers ?? flags.removeLeftovers)
          throw new UsageError(
            "--leftovers and --remove-leftovers are of doctor alone; run it once more without --calibrate",
          );
        const { calibrationFile, runCalibrate } = await import("./calibrate.ts");
        const options = { file: flags.output ?? calibrationFile(), folder: flags.path };
        return runCalibrate(options, createLogger());
      }
      const [lone] = Object.keys({ path: flags.path, output: flags.output }).filter((name) => name in flags);
      if (lone !== undefined) throw new UsageError(`--${lone} is of doctor --calibrate; give both, or leave it out`);
      const { runDoctor } = await import("./doctor.ts");
      process.exitCode = runDoctor(trainsOn, flags);
    });
  root
    .command("quickstart")
    .description("the story in two minutes: a small card, a stage that fits, a model that learns")
    .option("--output <dir>", "folder for everything that it writes", "runs/quickstart")
    .action(async (flags: { output: string }) => {
      const { runQuickstart } = await import("./quickstart.ts");
      process.exitCode = await runQuickstart(createLogger(), { folder: flags.output, steps: 800 });
    });
  return root;
}

const isPathName = /<[^>]*(dir|file|folder|path|script)[^>]*>/;

/** An empty name comes of a variable that is not set: it would be the working directory here and an unknown file there. @throws UsageError */
function checkPaths(command: Command): void {
  for (const option of command.options) {
    const value: unknown = isPathName.test(option.flags) ? command.getOptionValue(option.attributeName()) : undefined;
    if ([value].flat().includes(""))
      throw new UsageError(`${option.long} is given without a name (""); name a file or folder, or leave it out`);
  }
  for (const [i, argument] of command.registeredArguments.entries())
    if (isPathName.test(`<${argument.name()}>`) && [command.processedArgs[i]].flat()[0] === "")
      throw new UsageError(`${argument.name()} is empty (""); wanted the name of a file or folder`);
}

/** Every command answers bad flags with exit code 2 and one message. */
function answerUsage(command: Command): void {
  command.exitOverride();
  for (const child of command.commands) answerUsage(child);
}

/** Whoever reads the output may stop reading (`| head`, a pager), or what it goes to is full: that ends the command, and with it the ranks. */
function endWithReader(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(exitCodes.interrupted);
  process.stderr.write(`error: the output cannot be written: ${reasonOf(error)}\n`);
  process.exit(exitCodes.user);
}

/** What the system refuses, a user can mend, wherever it was met; a stack is for our own bugs. */
function tell(error: unknown): string {
  if (error instanceof ShunyaError) return error.message;
  if (isSystemError(error)) return messageOf(error);
  return (error as Error).stack ?? String(error);
}

/** @returns the exit code */
export async function main(argv: readonly string[]): Promise<number> {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", endWithReader);
  const root = program();
  answerUsage(root);
  root.hook("preAction", async (_, command) => {
    checkPaths(command);
    await fetchNamedModels(command, createLogger());
  });
  try {
    await root.parseAsync(argv, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.user;
    else {
      process.stderr.write(`error: ${tell(error)}\n`);
      process.exitCode = isSystemError(error) ? exitCodes.user : errorExitCode(error);
    }
  }
  return Number(process.exitCode ?? exitCodes.ok);
}
