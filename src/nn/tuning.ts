/** What of a model a configuration trains. */
import type { ResolvedConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { freezeFault, frozenBy } from "./freeze.ts";
import { addAdapters } from "./lora.ts";
import type { Module } from "./module.ts";

export type Tuning = Pick<ResolvedConfig, "freeze" | "lora">;

/**
 * Freezes what the configuration says and adds the adapters that it asks for, in place; a second time changes nothing. Parameters
 * that are frozen already stay so.
 * @returns `model` @throws UsageError for a pattern or target that fits nothing, and where nothing is left to train
 */
export function tuned<M extends Module>(model: M, { freeze, lora }: Tuning): M {
  if (lora) addAdapters(model, lora);
  if (freeze.length > 0) applyFreeze(model, freeze);
  return model;
}

function applyFreeze(model: Module, patterns: readonly string[]): void {
  const parameters = model.namedParameters();
  const fault = freezeFault(
    patterns,
    parameters.map(([name]) => name),
  );
  if (fault !== undefined) throw new UsageError(`shunya.freeze: ${fault}`);
  const isFrozen = frozenBy(patterns);
  for (const [name, parameter] of parameters) if (isFrozen(name)) parameter.trainable = false;
}
