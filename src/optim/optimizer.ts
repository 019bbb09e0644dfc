/**
 * Optimizers over flat ranges: a rule is which fp32 states an element has and one fused op that updates a range. What a range
 * belongs to (a tensor, a shard, the whole model) is not known here.
 */
import type { OptimizerConfig } from "../config/types.ts";
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import type { Span } from "../device/ops.ts";
import type { QueueName } from "../device/queue.ts";
import { UsageError } from "../errors/errors.ts";

export interface AdamSettings {
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  readonly biasCorrection: boolean;
  /** AdamW (Loshchilov and Hutter 2019): decay acts on the weight; otherwise it is added to the gradient. */
  readonly decoupled: boolean;
}

/** A contiguous range of elements, everything an update reads and writes. */
export interface UpdateRange {
  readonly count: number;
  /** fp32 master weights; in fp32 training the parameters themselves. */
  readonly master: Span;
  readonly firstMoment: Span;
  readonly secondMoment: Span;
  readonly gradient: Span;
  readonly gradientType: DType;
  /** The 16-bit copy to write, or null. */
  readonly parameter: Span | null;
  readonly parameterType: DType;
}

export interface UpdateStep {
  /** Updates made so far, this one included. */
  readonly update: number;
  readonly learningRate: number;
  /** What gradients are multiplied by: clipping and the inverse loss scale in one. */
  readonly gradientScale: number;
}

/** A rule: its fp32 states per element (the K of the plan is 4 bytes each, and 4 for the master), and the op that updates a range. */
export interface Optimizer {
  readonly states: readonly OptimizerPart[];
  issue(device: Device, queue: QueueName, range: UpdateRange, step: UpdateStep): void;
}

export function createOptimizer(config: OptimizerConfig): Optimizer {
  const { type, learningRate: _, ...settings } = config;
  if (type !== "Adam" && type !== "AdamW") throw new UsageError(`optimizer ${type} is not in this version`);
  return new Adam({ ...(settings as Omit<AdamSettings, "decoupled">), decoupled: type === "AdamW" });
}

/** Adam (Kingma and Ba 2015) and AdamW, with PyTorch's order of operations. */
export class Adam implements Optimizer {
  readonly states = ["firstMoment", "secondMoment"] as const;
  readonly #settings: AdamSettings;

  constructor(settings: AdamSettings) {
    this.#settings = settings;
  }

  issue(device: Device, queue: QueueName, range: UpdateRange, step: UpdateStep): void {
    const { beta1, beta2, epsilon, weightDecay, biasCorrection, decoupled } = this.#settings;
    device.issue(queue, "adam", {
      ...range,
      learningRate: step.learningRate,
      beta1,
      beta2,
      epsilon,
      weightDecay,
      correction1: biasCorrection ? 1 - beta1 ** step.update : 1,
      correction2: biasCorrection ? 1 - beta2 ** step.update : 1,
      gradientScale: step.gradientScale,
      decoupled,
    });
  }
}
