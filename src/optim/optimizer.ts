/**
 * Optimizers over flat ranges: a rule is which fp32 states an element has and one fused op that updates a range. What a range
 * belongs to (a tensor, a shard, the whole model) is not known here, so every rule must work element by element.
 */
import type { OptimizerConfig } from "../config/types.ts";
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import type { OptimizerPart } from "../device/ledger.ts";
import type { Span } from "../device/ops.ts";
import type { QueueName } from "../device/queue.ts";

/** A contiguous range of elements, everything an update reads and writes. */
export interface UpdateRange {
  readonly count: number;
  /** fp32 master weights; in fp32 training the parameters themselves. */
  readonly master: Span;
  readonly gradient: Span;
  readonly gradientType: DType;
  /** The 16-bit copy to write, or null. */
  readonly parameter: Span | null;
  readonly parameterType: DType;
  /** The fp32 states of the rule; all are zero before the first update. */
  state(part: OptimizerPart): Span;
}

/** The numbers of one update of a parameter group. */
export interface UpdateStep {
  /** Updates made so far, this one included. */
  readonly update: number;
  readonly learningRate: number;
  readonly weightDecay: number;
  /** In place of the rule's own momentum (Adam's and Lion's beta1); undefined where no schedule cycles it. */
  readonly momentum: number | undefined;
  /** What gradients are multiplied by: clipping and the inverse loss scale in one. */
  readonly gradientScale: number;
}

/** A rule: its fp32 states per element (the K of the plan is 4 bytes each, and 4 for the master), and the op that updates a range. */
export interface Optimizer {
  readonly states: readonly OptimizerPart[];
  issue(device: Device, queue: QueueName, range: UpdateRange, step: UpdateStep): void;
}

type SettingsOf<T extends OptimizerConfig["type"]> = OptimizerConfig & { readonly type: T };

export function createOptimizer(config: OptimizerConfig): Optimizer {
  switch (config.type) {
    case "Adam":
    case "AdamW":
      return adam(config);
    case "Lion":
      return lion(config);
    case "SGD":
      return sgd(config);
    case "Adagrad":
      return adagrad(config);
    default:
      return config satisfies never;
  }
}

/** The fields that the ops of all rules share. */
function shared(range: UpdateRange, step: UpdateStep) {
  const { count, master, gradient, gradientType, parameter, parameterType } = range;
  const { gradientScale, learningRate, weightDecay } = step;
  const numbers = { gradientScale, learningRate, weightDecay };
  return { count, master, gradient, gradientType, parameter, parameterType, ...numbers };
}

/** Adam (Kingma and Ba 2015), whose decay is added to the gradient, and AdamW (Loshchilov and Hutter 2019), where it acts on the weight. */
function adam(settings: SettingsOf<"Adam" | "AdamW">): Optimizer {
  const { beta2, epsilon, biasCorrection } = settings;
  return {
    states: ["firstMoment", "secondMoment"],
    issue(device, queue, range, step) {
      const beta1 = step.momentum ?? settings.beta1;
      device.issue(queue, "adam", {
        ...shared(range, step),
        firstMoment: range.state("firstMoment"),
        secondMoment: range.state("secondMoment"),
        beta1,
        beta2,
        epsilon,
        correction1: biasCorrection ? 1 - beta1 ** step.update : 1,
        correction2: biasCorrection ? 1 - beta2 ** step.update : 1,
        decoupled: settings.type === "AdamW",
      });
    },
  };
}

/** Lion (Chen et al. 2023, algorithm 2): the sign of a moment; decay acts on the weight. */
function lion({ beta1, beta2 }: SettingsOf<"Lion">): Optimizer {
  return {
    states: ["firstMoment"],
    issue(device, queue, range, step) {
      const firstMoment = range.state("firstMoment");
      device.issue(queue, "lion", { ...shared(range, step), firstMoment, beta1: step.momentum ?? beta1, beta2 });
    },
  };
}

/**
 * Gradient descent as torch.optim.SGD: the moment is the gradient itself after the first update, from the second on it is
 * momentum times itself plus (1 - dampening) times the gradient. Without momentum there is no state.
 */
function sgd({ momentum, dampening, nesterov }: SettingsOf<"SGD">): Optimizer {
  const hasMomentum = momentum > 0;
  return {
    states: hasMomentum ? ["firstMoment"] : [],
    issue(device, queue, range, step) {
      device.issue(queue, "sgd", {
        ...shared(range, step),
        firstMoment: hasMomentum ? range.state("firstMoment") : null,
        momentum: step.momentum ?? momentum,
        gradientShare: step.update === 1 ? 1 : 1 - dampening,
        nesterov,
      });
    },
  };
}

/**
 * Adagrad (Duchi et al. 2011) as torch.optim.Adagrad. The state is the sum of squares since the start, zero in padding as all
 * states are; the initial accumulator is added to it in the update.
 */
function adagrad({ epsilon, learningRateDecay, initialAccumulator }: SettingsOf<"Adagrad">): Optimizer {
  return {
    states: ["secondMoment"],
    issue(device, queue, range, step) {
      device.issue(queue, "adagrad", {
        ...shared(range, step),
        learningRate: step.learningRate / (1 + (step.update - 1) * learningRateDecay),
        secondMoment: range.state("secondMoment"),
        epsilon,
        initialSum: initialAccumulator,
      });
    },
  };
}
