/** What an engine is made from. */
import type { Transport } from "../comm/group.ts";
import type { ResolvedConfig } from "../config/types.ts";
import type { Device } from "../device/device.ts";
import { UsageError } from "../errors/errors.ts";
import {
  anObject,
  checkOptions,
  type Kind,
  type Kinds,
  numberThat,
  oneOf,
  required,
  signal,
  wholeNumber,
  withMethods,
} from "../errors/options.ts";
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

export const modelKind: Kind = required({
  wanted: "a Module whose forward(tape, batch) resolves to the loss",
  holds: (value) =>
    value instanceof Object && typeof (value as Partial<EngineOptions<object>["model"]>).forward === "function",
});

export const seedKind = wholeNumber(0);

/** Of engine.on. */
export const eventKind = required(oneOf(["step", "end"]));

export const bytesKind = numberThat("a number of bytes of at least 0", (bytes) => bytes >= 0);

export const weightsKind = withMethods("weights", ["has", "read"]);

const kinds: Kinds<EngineOptions<object>> = {
  model: modelKind,
  config: required(anObject),
  device: required(anObject),
  transport: required(anObject),
  seed: seedKind,
  weights: weightsKind,
  resume: anObject,
  signal,
  row: anObject,
};

/** @throws UsageError for what no engine can be made from */
export function checkEngineOptions<B extends object>(options: EngineOptions<B>): void {
  checkOptions<EngineOptions<object>>("Engine.create", options as unknown as EngineOptions<object>, kinds);
  const { model } = options;
  const taken = model.namedParameters().find(([, parameter]) => parameter.isBound);
  if (taken)
    throw new UsageError(
      `the model's parameter ${taken[0]} belongs to an engine that is still open; dispose that engine first, or make another model`,
    );
}
