/** Rows of the key table: batch, precision, optimizer and schedule. */

import { always, derived, type KeySpec, nullable, unused, used } from "./key-kinds.ts";
import { anyNumber, explainGroups, lossScale, parameterGroups, positive, scalePower } from "./key-types.ts";
import { explainOptimizer, explainScheduler, optimizerTypes, scheduleTypes } from "./names.ts";
import { boolean, integer, number, oneOf, pair } from "./value-types.ts";

const elementTypes = oneOf(["fp32", "bf16", "fp16"]);
const share = number(0, { below: 1 });
const noStairs = "the cycle has no stairs; DeepSpeed reads the key, and its cycle has none either";

export const batchKeys = {
  train_batch_size: nullable(derived(integer(1), "samples in one optimizer step over all ranks and micro-batches")),
  train_micro_batch_size_per_gpu: nullable(
    derived(integer(1), "samples in one forward and backward pass on one rank; --micro-batch sets it"),
  ),
  gradient_accumulation_steps: nullable(
    derived(integer(1), "micro-batches whose gradients are added before one optimizer step"),
  ),
  managed_gradient_accumulation: always([true], "the engine decides when a step ends"),
  dataloader_drop_last: unused("a batch is always full, since it goes on with the next epoch", {
    obeyed: [],
    deepspeed: false,
  }),
} as const satisfies Readonly<Record<string, KeySpec>>;

export const precisionKeys = {
  gradient_clipping: used(number(0), 1, "largest global gradient norm; 0 switches clipping off"),
  "fp16.enabled": used(boolean, false, "train in fp16 with fp32 master weights and a loss scale"),
  "fp16.auto_cast": unused("inputs are token numbers, which have no type to cast"),
  "fp16.loss_scale": used(lossScale, 0, "a static loss scale; 0: a dynamic one"),
  "fp16.initial_scale_power": used(scalePower, 16, "the dynamic scale begins at 2 to this power"),
  "fp16.loss_scale_window": used(integer(0), 1000, "updates without overflow between two doublings of the scale"),
  "fp16.hysteresis": used(integer(1), 2, "overflows before the scale is halved"),
  "fp16.consecutive_hysteresis": used(boolean, false, "an update without overflow refills the hysteresis"),
  "fp16.min_loss_scale": used(integer(0), 1, "an overflow at this scale stops the run"),
  "fp16.fp16_master_weights_and_grads": always([false], "master weights are always fp32"),
  "bf16.enabled": used(boolean, false, "train in bfloat16 with fp32 master weights"),
  "bf16.check_grad_overflow": used(
    boolean,
    true,
    "skip a step whose gradients are not finite, at every stage; false: such a step stops the run",
  ),
  "bf16.immediate_grad_update": unused("gradients are always added as they are produced", {
    obeyed: [true],
    deepspeed: false,
  }),
  "bf16.bf16_master_weights_and_grads": always([false], "master weights are always fp32"),
  "bf16.bf16_optimizer_states": always([false], "optimizer states are always fp32"),
  "data_types.grad_accum_dtype": nullable(
    derived(
      elementTypes,
      "element type in which gradients of several micro-batches are added; left out: the parameters' own",
    ),
  ),
  "data_types.param_dtype": nullable(derived(elementTypes, "the parameters' type, where it agrees with fp16 and bf16")),
  "data_types.buffer_dtype": nullable(derived(elementTypes, "as data_types.param_dtype: there are no other buffers")),
  communication_data_type: nullable(
    derived(
      elementTypes,
      "element type of gradients on their way between ranks; left out: the one that they have (sums are fp32)",
    ),
  ),
  prescale_gradients: used(boolean, false, "divide gradients by the number of ranks before they are sent, not after"),
  gradient_predivide_factor: used(
    positive,
    1,
    "divide gradients by this before they are sent and by the rest after; prescale_gradients goes first",
  ),
  gradient_allreduce_op: used(oneOf(["mean", "sum"]), "mean", "how the gradients of all ranks become one"),
  sparse_gradients: unused("embedding gradients are dense, which gives the same sums"),
  fp32_allreduce: always([false], 'an old key of DeepSpeed\'s; write "communication_data_type": "fp32"'),
  allreduce_always_fp32: always([false], 'an old key of DeepSpeed\'s; write "communication_data_type": "fp32"'),
  "fp16.opt_level": unused("it is Apex's; fp16 here is always fp16 parameters with fp32 master weights"),
  "fp16.fp16_scale_tolerance": unused("it is Fairseq's; hysteresis is DeepSpeed's way to tolerate overflows"),
} as const satisfies Readonly<Record<string, KeySpec>>;

export const optimizerKeys = {
  "optimizer.type": derived(oneOf(optimizerTypes), "left out: AdamW", { explain: explainOptimizer }),
  "optimizer.params.lr": derived(
    number(0),
    "learning rate; left out: 1e-3 (Adagrad 1e-2), or 3e-4 where no optimizer type is given",
  ),
  "optimizer.params.betas": derived(pair(share), "decay rates of Adam's and Lion's moments; left out: 0.9 and 0.999"),
  "optimizer.params.eps": derived(number(0), "Adam and Adagrad: added to the root; left out: 1e-8 (Adagrad 1e-10)"),
  "optimizer.params.weight_decay": derived(
    number(0),
    "left out: 0, or 0.01 with torch_adam and decoupled decay, as in DeepSpeed",
  ),
  "optimizer.params.adam_w_mode": used(
    boolean,
    true,
    "type Adam: decoupled weight decay, as AdamW (which always has it)",
  ),
  "optimizer.params.bias_correction": used(boolean, true, "Adam: divide the moments by 1 - beta^step"),
  "optimizer.params.torch_adam": used(
    boolean,
    false,
    "Adam: changes the default of weight_decay only, since there is one Adam here",
  ),
  "optimizer.params.fp32_optimizer_states": always([true], "optimizer states are always fp32"),
  "optimizer.params.amsgrad": always([false], "DeepSpeed's Adam refuses amsgrad too"),
  "optimizer.params.max_grad_norm": always(
    [0, null],
    "DeepSpeed refuses it too; write gradient_clipping at the top level",
  ),
  "optimizer.params.momentum": used(share, 0, "SGD: share of the old velocity that is kept"),
  "optimizer.params.dampening": used(number(0), 0, "SGD: share of the gradient that the velocity leaves out"),
  "optimizer.params.nesterov": used(boolean, false, "SGD: look ahead by one velocity; needs momentum"),
  "optimizer.params.lr_decay": used(number(0), 0, "Adagrad: the learning rate falls as 1 / (1 + step * lr_decay)"),
  "optimizer.params.initial_accumulator_value": used(number(0), 0, "Adagrad: the sum of squares at the start"),
  "optimizer.legacy_fusion": unused("ZeRO ignores it"),
  "shunya.parameter_groups": nullable(
    derived(
      parameterGroups,
      "parameters with a learning rate or weight decay of their own, by name pattern (* is any text); the first match counts",
      { explain: explainGroups },
    ),
  ),
} as const satisfies Readonly<Record<string, KeySpec>>;

export const schedulerKeys = {
  "scheduler.type": nullable(
    derived(oneOf(scheduleTypes), "how the learning rate changes; left out: it is constant", {
      explain: explainScheduler,
    }),
  ),
  "scheduler.params.warmup_min_lr": derived(number(0), "where the warm-up begins; left out: 0"),
  "scheduler.params.warmup_max_lr": nullable(
    derived(
      number(0),
      "where the warm-up ends; left out: the optimizer's or the group's lr (WarmupLR) or 1e-3 (WarmupDecayLR)",
    ),
  ),
  "scheduler.params.warmup_num_steps": derived(integer(1), "steps of the warm-up, 2 at least; left out: 1000"),
  "scheduler.params.warmup_type": derived(oneOf(["log", "linear"]), "shape of the warm-up; left out: log"),
  "scheduler.params.total_num_steps": derived(
    integer(1),
    'the step at which the decay ends; must be given, or "auto": the length of the run',
  ),
  "scheduler.params.warmup_min_ratio": derived(number(0), "share of lr where WarmupCosineLR begins; left out: 0"),
  "scheduler.params.cos_min_ratio": derived(number(0), "share of lr where WarmupCosineLR ends; left out: 1e-4"),
  "scheduler.params.lr_range_test_min_lr": derived(number(0), "LRRangeTest's first rate; left out: 1e-3"),
  "scheduler.params.lr_range_test_step_size": derived(integer(1), "steps of one rise; left out: 2000"),
  "scheduler.params.lr_range_test_step_rate": derived(number(0), "how much one rise adds; left out: 1"),
  "scheduler.params.lr_range_test_staircase": derived(boolean, "rise by stairs; left out: false"),
  "scheduler.params.cycle_min_lr": derived(number(0), "OneCycle: the rate at both ends of the cycle; must be given"),
  "scheduler.params.cycle_max_lr": derived(number(0), "OneCycle: the rate at the peak; must be given"),
  "scheduler.params.decay_lr_rate": derived(number(0), "OneCycle: decay after the cycle; left out: 0, none"),
  "scheduler.params.cycle_first_step_size": derived(integer(1), "OneCycle: steps of the rise; left out: 2000"),
  "scheduler.params.cycle_second_step_size": nullable(
    derived(integer(0), "OneCycle: steps of the fall; left out: as many as the rise"),
  ),
  "scheduler.params.cycle_first_stair_count": unused(noStairs, { obeyed: [0], type: integer(0) }),
  "scheduler.params.cycle_second_stair_count": unused(noStairs, { obeyed: [0], type: integer(0) }),
  "scheduler.params.decay_step_size": derived(integer(0), "OneCycle: steps of one decay; left out: 0, none"),
  "scheduler.params.cycle_momentum": derived(
    boolean,
    "OneCycle: beta1 cycles too, the other way round; left out: true",
  ),
  "scheduler.params.cycle_min_mom": derived(share, "OneCycle: momentum at the peak of the rate; left out: 0.8"),
  "scheduler.params.cycle_max_mom": derived(share, "OneCycle: momentum at both ends; left out: 0.9"),
  "scheduler.params.decay_mom_rate": derived(anyNumber, "OneCycle: rise of the momentum after the cycle; left out: 0"),
  "scheduler.params.last_batch_iteration": always([-1], "a run that is resumed knows its step"),
} as const satisfies Readonly<Record<string, KeySpec>>;
