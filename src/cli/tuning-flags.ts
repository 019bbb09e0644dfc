/** Flags that say what of a model is trained: `--freeze`. */
import type { Command } from "commander";
import type { Override } from "../config/resolve.ts";

export interface TuningFlags {
  readonly freeze?: readonly string[];
}

const collect = (text: string, before: readonly string[] = []): readonly string[] => [...before, text];

export function addTuningOptions(command: Command): Command {
  return command.option(
    "--freeze <pattern>",
    "do not train parameters of these names, such as 'transformer.wte.*'; '!*.ln_*' after it trains some again; may be repeated",
    collect,
  );
}

/** The same as values of the file. */
export const tuningOverrides = ({ freeze }: TuningFlags): readonly Override[] =>
  freeze === undefined ? [] : [["shunya.freeze", freeze]];
