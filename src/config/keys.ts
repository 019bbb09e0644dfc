/**
 * The table of configuration keys: DeepSpeed's, by dotted path, and our own under `shunya`. Everything that the reader, the error
 * messages and the spelling help know about keys comes from here; a new key is a new row.
 * Defaults are DeepSpeed's, save for sizes, which the plan derives from the model when they are left out.
 */

import { always, derived, type KeySpec, mustBeOff, settingOf, unused, used } from "./key-kinds.ts";
import { boolean, elements, integer, number, oneOf, pair } from "./value-types.ts";

const notYet = "this version does not have it";
const numbersWouldDiffer = `${notYet}, and training without it would give other numbers`;
const offloadNotYet = "offloading is not in this version; remove the section, or write device: none";
const monitorsNotYet = "use --log-json for a log that programs can read";

export const keys = {
  // batch
  train_batch_size: derived(integer(1), "samples in one optimizer step over all ranks and micro-batches"),
  train_micro_batch_size_per_gpu: derived(integer(1), "samples in one forward and backward pass on one rank"),
  gradient_accumulation_steps: derived(integer(1), "micro-batches whose gradients are added before one optimizer step"),

  // numbers
  gradient_clipping: used(number(0), 1, "largest global gradient norm; 0 switches clipping off"),
  "bf16.enabled": used(boolean, false, "train in bfloat16 with fp32 master weights"),
  "bf16.check_grad_overflow": unused("steps with a gradient that is not finite are handled the same at every stage"),
  "bf16.immediate_grad_update": unused("gradients are always added as they are produced"),
  "bf16.bf16_master_weights_and_grads": always([false], "master weights are always fp32"),
  "bf16.bf16_optimizer_states": always([false], "Adam's moments are always fp32"),
  "fp16.enabled": always([false], "this version trains in fp32 and bf16; use bf16.enabled, which needs no loss scale"),
  "fp16.auto_cast": settingOf("fp16"),
  "fp16.loss_scale": settingOf("fp16"),
  "fp16.initial_scale_power": settingOf("fp16"),
  "fp16.loss_scale_window": settingOf("fp16"),
  "fp16.hysteresis": settingOf("fp16"),
  "fp16.consecutive_hysteresis": settingOf("fp16"),
  "fp16.min_loss_scale": settingOf("fp16"),
  "fp16.fp16_master_weights_and_grads": settingOf("fp16"),
  "data_types.grad_accum_dtype": derived(
    oneOf(["fp32", "bf16", "fp16"]),
    "element type in which gradients of several micro-batches are added; left out: the parameters' own",
  ),
  "data_types.param_dtype": always([null], "the precision section decides"),
  "data_types.buffer_dtype": always([null], "the precision section decides"),
  communication_data_type: derived(
    oneOf(["fp32", "bf16", "fp16"]),
    "element type of gradients on their way between ranks; always the parameters' own (sums are fp32)",
  ),
  prescale_gradients: always([false], "gradients are added in fp32 and divided once, so there is nothing to prescale"),
  gradient_predivide_factor: always([1], "gradients are added in fp32 and divided once"),
  gradient_allreduce_op: always(["mean", "MEAN", "Mean"], "the loss is the mean over the global batch"),
  managed_gradient_accumulation: always([true], "the engine decides when a step ends"),
  sparse_gradients: always([false], notYet),

  // ZeRO
  "zero_optimization.stage": used(
    oneOf([0, 1, 2, 3]),
    0,
    "what ranks share: 1 optimizer states, 2 also gradients, 3 also parameters",
  ),
  "zero_optimization.overlap_comm": derived(
    boolean,
    "collectives run beside the backward pass; left out: true at stage 3, else false",
  ),
  "zero_optimization.reduce_bucket_size": derived(elements(1), "most gradient elements in one reduction"),
  "zero_optimization.allgather_bucket_size": derived(elements(1), "most parameter elements in one gather after a step"),
  "zero_optimization.sub_group_size": derived(
    elements(1),
    "elements of this rank that one piece of the optimizer step updates",
  ),
  "zero_optimization.stage3_prefetch_bucket_size": derived(elements(0), "most elements gathered ahead of their use"),
  "zero_optimization.stage3_param_persistence_threshold": derived(elements(0), "tensors up to this size stay gathered"),
  "zero_optimization.stage3_max_live_parameters": derived(elements(0), "most gathered elements at any time"),
  "zero_optimization.stage3_max_reuse_distance": derived(
    elements(0),
    "a unit used again within this many elements is not released",
  ),
  "zero_optimization.stage3_model_persistence_threshold": unused(
    "every tensor up to stage3_param_persistence_threshold stays gathered",
  ),
  "zero_optimization.stage3_gather_16bit_weights_on_model_save": unused("saved models always hold whole fp32 weights"),
  "zero_optimization.stage3_module_granularity_threshold": unused("units are the model's blocks"),
  "zero_optimization.stage3_use_all_reduce_for_fetch_params": unused("parameters are always fetched by all-gather"),
  "zero_optimization.stage3_allgather_sequential": unused("a unit is always one gather"),
  "zero_optimization.contiguous_gradients": always([true], "a unit's gradients always lie in one buffer"),
  "zero_optimization.reduce_scatter": always(
    [true],
    "gradients always go to their owner only; sending them to every rank costs twice the traffic",
  ),
  "zero_optimization.allgather_partitions": always([true], "updated parameters always travel by all-gather"),
  "zero_optimization.use_multi_rank_bucket_allreduce": unused("gradients go to their owner by reduce-scatter"),
  "zero_optimization.offload_optimizer.device": always(["none", null], offloadNotYet),
  "zero_optimization.offload_optimizer.nvme_path": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.buffer_count": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.pin_memory": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.pipeline_read": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.pipeline_write": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.fast_init": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.ratio": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.super_offload": settingOf("offload_optimizer"),
  "zero_optimization.offload_optimizer.cpuadam_cores_perc": settingOf("offload_optimizer"),
  "zero_optimization.offload_param.device": always(["none", null], offloadNotYet),
  "zero_optimization.offload_param.nvme_path": settingOf("offload_param"),
  "zero_optimization.offload_param.buffer_count": settingOf("offload_param"),
  "zero_optimization.offload_param.buffer_size": settingOf("offload_param"),
  "zero_optimization.offload_param.max_in_cpu": settingOf("offload_param"),
  "zero_optimization.offload_param.pin_memory": settingOf("offload_param"),
  "zero_optimization.cpu_offload": always([false, null], offloadNotYet),
  "zero_optimization.cpu_offload_param": always([false, null], offloadNotYet),
  "zero_optimization.cpu_offload_use_pin_memory": unused("DeepSpeed ignores it too"),
  "zero_optimization.ignore_unused_parameters": unused(
    "a parameter without a gradient counts as one whose gradient is zero",
  ),
  "zero_optimization.round_robin_gradients": unused("there is no copy to the host to balance"),
  "zero_optimization.load_from_fp32_weights": unused("weights are always read in full precision"),
  "zero_optimization.elastic_checkpoint": unused("DeepSpeed's own checkpoints are not read"),
  "zero_optimization.pipeline_loading_checkpoint": unused("weights are always streamed"),
  "zero_optimization.memory_efficient_linear": unused("what is saved for backward never pins a parameter"),
  "zero_optimization.override_module_apply": unused("it speaks of PyTorch modules"),
  "zero_optimization.log_trace_cache_warnings": unused("the order of units is planned, not recorded"),
  "zero_optimization.enable_sanity_checks": unused("the checks are always on"),
  "zero_optimization.save_muon_momentum_buffer_in_memory": unused("there is no Muon here"),
  "zero_optimization.leaf_module": unused("mark a module as a unit in code instead"),
  "zero_optimization.zero_hpz_partition_size": always([1], notYet),
  "zero_optimization.zero_quantized_weights": always([false], numbersWouldDiffer),
  "zero_optimization.zero_quantized_nontrainable_weights": always([false], numbersWouldDiffer),
  "zero_optimization.zero_quantized_gradients": always([false], numbersWouldDiffer),
  "zero_optimization.zeropp_loco_param": mustBeOff(numbersWouldDiffer),
  "zero_optimization.mics_shard_size": always([-1], notYet),
  "zero_optimization.mics_hierarchical_params_gather": always([false], notYet),
  "zero_optimization.zenflow": mustBeOff(numbersWouldDiffer),
  "zero_optimization.legacy_stage1": always([false], "DeepSpeed refuses it too"),
  allgather_size: unused("use zero_optimization.allgather_bucket_size"),
  zero_allow_untested_optimizer: unused("every optimizer here is tested with every stage"),
  zero_force_ds_cpu_optimizer: unused("there is one optimizer implementation"),
  disable_allgather: unused("updated parameters always travel by all-gather"),

  // optimizer
  "optimizer.type": derived(oneOf(["Adam", "AdamW"]), "left out: AdamW"),
  "optimizer.params.lr": derived(number(0), "learning rate; left out: 1e-3, or 3e-4 where no optimizer type is given"),
  "optimizer.params.betas": used(pair(number(0, { below: 1 })), [0.9, 0.999], "decay rates of the two moments"),
  "optimizer.params.eps": used(number(0), 1e-8, "added to the root of the second moment"),
  "optimizer.params.weight_decay": derived(
    number(0),
    "left out: 0, or 0.01 with torch_adam and decoupled decay, as in DeepSpeed",
  ),
  "optimizer.params.adam_w_mode": used(
    boolean,
    true,
    "type Adam: decoupled weight decay, as AdamW (which always has it)",
  ),
  "optimizer.params.bias_correction": used(boolean, true, "divide the moments by 1 - beta^step"),
  "optimizer.params.torch_adam": used(
    boolean,
    false,
    "changes the default of weight_decay only: there is one Adam here",
  ),
  "optimizer.params.fp32_optimizer_states": always([true], "Adam's moments are always fp32"),
  "optimizer.params.amsgrad": always([false], "DeepSpeed's Adam refuses it too"),
  "optimizer.params.max_grad_norm": always(
    [0, null],
    "DeepSpeed refuses it too; write gradient_clipping at the top level",
  ),
  "optimizer.legacy_fusion": unused("ZeRO ignores it"),

  // learning-rate schedule
  "scheduler.type": derived(
    oneOf(["WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "LRRangeTest"]),
    "how the learning rate changes; left out: it is constant",
  ),
  "scheduler.params.warmup_min_lr": derived(number(0), "where the warm-up begins; left out: 0"),
  "scheduler.params.warmup_max_lr": derived(
    number(0),
    "where the warm-up ends; left out: the optimizer's lr (WarmupLR) or 1e-3 (WarmupDecayLR), as in DeepSpeed",
  ),
  "scheduler.params.warmup_num_steps": derived(integer(1), "steps of the warm-up, 2 at least; left out: 1000"),
  "scheduler.params.warmup_type": derived(oneOf(["log", "linear"]), "shape of the warm-up; left out: log"),
  "scheduler.params.total_num_steps": derived(integer(1), "the step at which the decay ends; must be given"),
  "scheduler.params.warmup_min_ratio": derived(number(0), "share of lr where WarmupCosineLR begins; left out: 0"),
  "scheduler.params.cos_min_ratio": derived(number(0), "share of lr where WarmupCosineLR ends; left out: 1e-4"),
  "scheduler.params.lr_range_test_min_lr": derived(number(0), "LRRangeTest's first rate; left out: 1e-3"),
  "scheduler.params.lr_range_test_step_size": derived(integer(1), "steps of one rise; left out: 2000"),
  "scheduler.params.lr_range_test_step_rate": derived(number(0), "how much one rise adds; left out: 1"),
  "scheduler.params.lr_range_test_staircase": derived(boolean, "rise by stairs; left out: false"),

  // sections that would change the numbers
  amp: mustBeOff("use bf16.enabled"),
  torch_autocast: mustBeOff("use bf16.enabled"),
  elasticity: mustBeOff("it would choose another batch; write the batch keys"),
  compression_training: mustBeOff(numbersWouldDiffer),
  progressive_layer_drop: mustBeOff(numbersWouldDiffer),
  quantize_training: mustBeOff(numbersWouldDiffer),
  sparse_attention: mustBeOff(numbersWouldDiffer),
  eigenvalue: mustBeOff(numbersWouldDiffer),
  curriculum_learning: mustBeOff(numbersWouldDiffer),
  data_efficiency: mustBeOff(numbersWouldDiffer),
  tensor_parallel: mustBeOff("ranks here are data-parallel only"),
  expert_parallel: mustBeOff("ranks here are data-parallel only"),
  hybrid_engine: mustBeOff(notYet),
  sequence_parallel_size: always([1], "ranks here are data-parallel only"),

  // reporting
  steps_per_print: { ...used(integer(1), 10, "steps between progress lines"), sameAsLeftOut: [null] },
  wall_clock_breakdown: unused("use --log-json and the table at the end of a run"),
  memory_breakdown: unused("the table at the end of a run shows every byte"),
  dump_state: unused("the resolved configuration is printed at the start"),
  log_level: unused("there is one level"),
  flops_profiler: unused("--log-json counts the operations of every step"),
  comms_logger: unused("--log-json counts the traffic of every step"),
  tensorboard: unused(monitorsNotYet),
  wandb: unused(monitorsNotYet),
  csv_monitor: unused(monitorsNotYet),
  comet: unused(monitorsNotYet),
  timers: unused(monitorsNotYet),

  // the rest of DeepSpeed's top level
  activation_checkpointing: unused('write "shunya": { "activation_checkpointing": true } to recompute activations'),
  checkpoint: unused("this version saves the model at the end"),
  aio: unused("nothing is offloaded to disk"),
  autotuning: unused("sizes that are left out are derived from the model"),
  compile: unused("there is nothing to compile"),
  pipeline: unused("ranks here are data-parallel only"),
  nebula: unused("it is a service of another vendor"),
  dataloader_drop_last: unused("a batch is always full: it goes on with the next epoch"),
  vocabulary_size: unused("the model says its vocabulary"),
  seq_parallel_communication_data_type: unused("ranks here are data-parallel only"),

  // our own
  "shunya.activation_checkpointing": used(
    boolean,
    false,
    "keep only each block's input and recompute the rest in the backward pass",
  ),
} as const satisfies Readonly<Record<string, KeySpec>>;

export type KeyPath = keyof typeof keys;
/** Paths of the keys that this version acts on. */
export type UsedPath = { [K in KeyPath]: (typeof keys)[K] extends { status: "used" } ? K : never }[KeyPath];

/** Other spellings that DeepSpeed accepts, of keys or of whole sections, and the one that the table uses. */
export const aliases: Readonly<Record<string, string>> = {
  bfloat16: "bf16",
  "zero_optimization.stage3_gather_fp16_weights_on_model_save":
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
  ...Object.fromEntries(
    Object.keys(keys)
      .filter((path) => path.startsWith("zero_optimization.stage3_"))
      .map((path) => [path.replace(".stage3_", "."), path]),
  ),
};
