/** Flags that say what of a model is trained: `--freeze` and those of LoRA. */
import type { Command } from "commander";
import type { Override } from "../config/resolve.ts";
import { parseInteger, parsePositive } from "./parse.ts";

export interface TuningFlags {
  readonly freeze?: readonly string[];
  readonly loraRank?: number;
  readonly loraAlpha?: number;
  readonly loraTargets?: readonly string[];
  /** As written: the configuration's reader judges it. */
  readonly loraDropout?: string;
}

const collect = (text: string, before: readonly string[] = []): readonly string[] => [...before, text];

const listed = (text: string): readonly string[] => text.split(",").map((name) => name.trim());

export function addTuningOptions(command: Command): Command {
  return command
    .option(
      "--freeze <pattern>",
      "do not train parameters of these names, such as 'transformer.wte.*'; '!*.ln_*' after it trains some again; may be repeated",
      collect,
    )
    .option("--lora-rank <n>", "train LoRA adapters of this rank, and nothing else", parseInteger(1))
    .option("--lora-alpha <x>", "what they add is multiplied by alpha / rank (default: 8)", parsePositive)
    .option(
      "--lora-targets <names>",
      "layers that get one: q_proj,v_proj or all-linear (default: PEFT's, c_attn of GPT-2, q_proj,v_proj of Llama)",
      listed,
    )
    .option("--lora-dropout <share>", "of an adapter's inputs (default: 0)");
}

/** The same as values of the file. */
export function tuningOverrides(flags: TuningFlags): readonly Override[] {
  const all: readonly (readonly [string, unknown])[] = [
    ["shunya.freeze", flags.freeze],
    ["shunya.lora.rank", flags.loraRank],
    ["shunya.lora.alpha", flags.loraAlpha],
    ["shunya.lora.targets", flags.loraTargets],
    ["shunya.lora.dropout", flags.loraDropout],
  ];
  return all.flatMap(([path, value]) => (value === undefined ? [] : [[path, value] as const]));
}
