/** The flags of `shunya plan` and `shunya simulate`. */
import { Command, Option } from "commander";
import { optimizerTypes } from "../config/names.ts";
import { collectOverride } from "./override-flag.ts";
import { parseBytes, parseCount, parseInteger, parsePositive } from "./parse.ts";
import type { PlanOutputs } from "./plan.ts";
import type { PlanFlags } from "./plan-subject.ts";
import type { SimulateFlags } from "./simulate.ts";
import { addTuningOptions } from "./tuning-flags.ts";

/** Beyond that a rank's share of anything is nothing. */
const mostRanks = 2 ** 17;

/** What a model, a machine and a job are described by. */
export function addJobOptions(command: Command): Command {
  return addTuningOptions(command)
    .option("--params <n>", 'parameters: "1.5e9", "1.5B"; the model is the GPT of about that size', parseCount)
    .option("--model <name|dir|file>", "a published name, a model folder, a config.json, or owner/name on Hugging Face")
    .option("--ranks <n>", "data-parallel ranks", parseInteger(1, mostRanks), 1)
    .option("--ranks-per-node <n>", "ranks that share a host (default: the card's usual node)", parseInteger(1))
    .option("--device <name>", "a card, such as A10G or A100-40GB; cpu: this machine (docs/hardware.md)")
    .option("--device-memory <size>", "usable memory of a device, instead of the card's", parseBytes)
    .option("--host-memory <size>", "usable memory of a node's host", parseBytes)
    .option("--disk <size>", "free space of a node's drives", parseBytes)
    .option("--peer-link <link>", 'between cards of a node: "NVLink 3", "20GB/s"')
    .option("--host-link <link>", 'between a card and its host: "PCIe 4 x16", "PCIe 3 x8 @ 6GB/s"')
    .option("--network-link <link>", 'of a node: "100 Gbit Ethernet", "8x InfiniBand HDR 200"')
    .option("--drive <drive>", 'of a node: "NVMe PCIe 4", "2x NVMe PCIe 3", "5GB/s"')
    .option("--flops <n>", "what products reach on a device, in operations per second", parseCount)
    .option("--machine <file>", "this machine as doctor --calibrate --output FILE measured it")
    .option("--batch <n>", "sequences of all ranks in a step (train_batch_size)", parseInteger(1))
    .option("--micro-batch <n>", "sequences of a rank's micro-batch", parseInteger(1))
    .option("--seq-length <n>", "tokens of a sequence", parseInteger(1))
    .option("--config <file>", "a DeepSpeed-style configuration to start from")
    .option("--set <path=value>", "override one value of the file; may be repeated", collectOverride)
    .option("--checkpointing", "activation checkpointing: blocks run again in the backward pass")
    .addOption(new Option("--optimizer <name>", "without --config (default: AdamW)").choices([...optimizerTypes]))
    .addOption(
      new Option("--precision <type>", "without --config (default: bf16, or fp16 on older cards)").choices([
        "fp32",
        "bf16",
        "fp16",
      ]),
    );
}

export function planCommand(): Command {
  return addJobOptions(new Command("plan"))
    .description("what fits and what it costs: stages 0 to 3 side by side, and the smallest change that fits")
    .addOption(new Option("--engine <name>", "who is to run it").choices(["shunya", "deepspeed"]).default("shunya"))
    .option("--write-config <file>", "write what is recommended as a configuration that DeepSpeed and Shunya read")
    .option("--svg <file>", "the four stages to scale, as a picture")
    .option("--html <file>", "the same as a page with controls, which needs no network")
    .option("--overwrite", "replace files of another kind, and configurations, that these three find there")
    .option("--show-work", "every term with its numbers")
    .option("--tokens <n>", "of the whole run, such as 30e9: adds days", parseCount)
    .option("--price <x>", "of an hour of one device: adds the cost of the run", parsePositive)
    .option("--largest-model", "the largest model that fits, for every stage and offload")
    .option("--fewest-ranks", "the fewest ranks on which the model fits, for every stage and offload")
    .option("--largest-batch", "the largest micro-batch that fits, for every stage and offload")
    .option("--json", "the same as data")
    .action(async (flags: PlanFlags & PlanOutputs) => {
      const { runPlan } = await import("./plan.ts");
      process.exitCode = await runPlan(flags);
    });
}

const offloadDevices = ["none", "cpu", "nvme"];

export function simulateCommand(): Command {
  return addJobOptions(new Command("simulate"))
    .description(
      "a step of a job on any machine and any number of ranks: memory, traffic, time, what is hidden, and whether it fits",
    )
    .option("--stage <n>", "ZeRO stage 0 to 3; overrides the file", parseInteger(0, 3))
    .addOption(new Option("--offload-optimizer <place>", "where optimizer states are").choices(offloadDevices))
    .addOption(new Option("--offload-param <place>", "where parameters are, at stage 3").choices(offloadDevices))
    .option("--trace <file>", "what every queue does and when in a step, for ui.perfetto.dev")
    .option("--json", "the same as data")
    .action(async (flags: SimulateFlags) => {
      const { runSimulate } = await import("./simulate.ts");
      process.exitCode = await runSimulate(flags);
    });
}
