/** What an engine is made from. */
import type { Transport } from "../comm/group.ts";
import type { ResolvedConfig } from "../config/types.ts";
import type { Device } from "../device/device.ts";
import { UsageError } from "../errors/errors.ts";
import type { Module } from "../nn/module.ts";
import type { SplitRow } from "../plan/residence.ts";
import type { Tape } from "../tensor/tape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { ResumePoint } from "./state.ts";
import type { WeightSource } from "./weights.ts";

export interface EngineOptions<B extends object> {
  /** Its forward makes one number, the loss, from a batch on the device. */
  readonly model: Module & { forward(tape: Tape, batch: B): Promise<Tensor> };
  readonly config: ResolvedConfig;
  readonly device: Device;
  readonly transport: Transport;
  /** Defaults to 42. */
  readonly seed?: number;
  readonly weights?: WeightSource;
  /** Where a saved run goes on from, instead of `weights` and drawn values. */
  readonly resume?: ResumePoint;
  /** Stops training cleanly: all ranks finish the step that is running, and the next `forward` throws InterruptedError. */
  readonly signal?: AbortSignal;
  /** A row of the residence table other than the configured stage's. */
  readonly row?: SplitRow;
}

/** @throws UsageError for what no engine can be made from */
export function checkOptions<B extends object>(options: EngineOptions<B>): void {
  const { model, seed = 42 } = options;
  if (typeof (model as Partial<EngineOptions<B>["model"]> | undefined)?.forward !== "function")
    throw new UsageError(
      "found a model without forward(tape, batch); wanted a Module whose forward resolves to the loss",
    );
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new UsageError(`found seed ${seed}; wanted a whole number from 0 to 2^53 - 1`);
  const taken = model.namedParameters().find(([, parameter]) => parameter.isBound);
  if (taken)
    throw new UsageError(
      `the model's parameter ${taken[0]} belongs to an engine that is still open; dispose that engine first, or make another model`,
    );
}
