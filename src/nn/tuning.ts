/** What of a model a configuration trains. */
import type { ResolvedConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { freezeFault, frozenBy } from "./freeze.ts";
import type { Module } from "./module.ts";

export type Tuning = Pick<ResolvedConfig, "freeze">;

/**
 * Freezes what the configuration says, in place; a second time changes nothing. Parameters that are frozen already stay so.
 * @returns `model` @throws UsageError for a pattern that fits no parameter, and where nothing is left to train
 */
export function tuned<M extends Module>(model: M, { freeze }: Tuning): M {
  if (freeze.length === 0) return model;
  const parameters = model.namedParameters();
  const fault = freezeFault(
    freeze,
    parameters.map(([name]) => name),
  );
  if (fault !== undefined) throw new UsageError(`shunya.freeze: ${fault}`);
  const isFrozen = frozenBy(freeze);
  for (const [name, parameter] of parameters) if (isFrozen(name)) parameter.trainable = false;
  return model;
}
