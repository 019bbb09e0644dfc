/** The `optimizer` section: each type with its own parameters, and DeepSpeed's and PyTorch's defaults. */

import { nameUnjudged, refuseForeign } from "./foreign.ts";
import type { Settings } from "./reader.ts";
import type { OptimizerConfig } from "./types.ts";

type OptimizerType = OptimizerConfig["type"];

/** The learning rate when no optimizer type is given: a common start for GPT-2 sizes. */
const learningRateWithoutType = 3e-4;
/** PyTorch's defaults, and those of DeepSpeed's FusedLion and DeepSpeedCPULion (0.19.8), which are not the paper's. */
const learningRates: Readonly<Record<OptimizerType, number>> = {
  Adam: 1e-3,
  AdamW: 1e-3,
  Lion: 1e-3,
  SGD: 1e-3,
  Adagrad: 1e-2,
};
/** DeepSpeed's Adam has 0; torch.optim.AdamW, which `torch_adam` asks for, has 0.01. */
const weightDecayOfTorchAdamW = 0.01;

const ofAdam = ["lr", "betas", "eps", "weight_decay", "adam_w_mode", "bias_correction", "torch_adam"];
const parametersOf: Readonly<Record<OptimizerType, readonly string[]>> = {
  Adam: ofAdam,
  AdamW: ofAdam,
  Lion: ["lr", "betas", "weight_decay"],
  SGD: ["lr", "momentum", "dampening", "nesterov", "weight_decay"],
  Adagrad: ["lr", "eps", "weight_decay", "lr_decay", "initial_accumulator_value"],
};

/** @param hasFile without a file there is nobody to be told that a type was chosen */
export function resolveOptimizer(settings: Settings, hasFile: boolean): OptimizerConfig {
  const given = settings.get("optimizer.type");
  const type = given ?? "AdamW";
  if (settings.isUnreadable("optimizer.type")) nameUnjudged(settings, "optimizer");
  else {
    refuseForeign(settings, "optimizer", type, parametersOf[type]);
    if (given === undefined && hasFile)
      settings.warn(
        "optimizer.type",
        `left out: AdamW is used, with lr ${learningRateWithoutType} unless lr is given; write an optimizer section`,
      );
  }
  const lr = settings.get("optimizer.params.lr");
  return parametersFor(settings, type, lr ?? (given === undefined ? learningRateWithoutType : learningRates[type]));
}

function parametersFor(settings: Settings, type: OptimizerType, learningRate: number): OptimizerConfig {
  const base = { learningRate, weightDecay: settings.get("optimizer.params.weight_decay") ?? 0 };
  const betas = settings.get("optimizer.params.betas");
  switch (type) {
    case "Adam":
    case "AdamW": {
      // DeepSpeed: type Adam decouples weight decay unless adam_w_mode is false; type AdamW always does.
      const decoupled = type !== "Adam" || settings.get("optimizer.params.adam_w_mode");
      const torchDefault = decoupled && settings.get("optimizer.params.torch_adam") ? weightDecayOfTorchAdamW : 0;
      const [beta1, beta2] = betas ?? [0.9, 0.999];
      return {
        type: decoupled ? "AdamW" : "Adam",
        learningRate,
        weightDecay: settings.get("optimizer.params.weight_decay") ?? torchDefault,
        beta1,
        beta2,
        epsilon: settings.get("optimizer.params.eps") ?? 1e-8,
        biasCorrection: settings.get("optimizer.params.bias_correction"),
      };
    }
    case "Lion": {
      const [beta1, beta2] = betas ?? [0.9, 0.999];
      return { type, ...base, beta1, beta2 };
    }
    case "SGD":
      return { type, ...base, ...momentumOf(settings) };
    case "Adagrad":
      return {
        type,
        ...base,
        epsilon: settings.get("optimizer.params.eps") ?? 1e-10,
        learningRateDecay: settings.get("optimizer.params.lr_decay"),
        initialAccumulator: settings.get("optimizer.params.initial_accumulator_value"),
      };
    default:
      return type satisfies never;
  }
}

function momentumOf(settings: Settings) {
  const momentum = settings.get("optimizer.params.momentum");
  const dampening = settings.get("optimizer.params.dampening");
  const nesterov = settings.get("optimizer.params.nesterov");
  if (nesterov && (momentum === 0 || dampening !== 0))
    settings.error(
      "optimizer.params.nesterov",
      `found true with momentum ${momentum} and dampening ${dampening}; Nesterov's momentum needs momentum above 0 and dampening 0`,
    );
  return { momentum, dampening, nesterov };
}
