/** Rows of the key table: zero_optimization and aio. */

import {
  always,
  derived,
  type KeySpec,
  notYet,
  nullable,
  renamed,
  section,
  switchFor,
  unused,
  used,
} from "./key-kinds.ts";
import { path, share, words } from "./key-types.ts";
import { boolean, elements, integer, oneOf } from "./value-types.ts";

const devices = words(["none", "cpu", "nvme"]);
const fullPrecision = "parameters and gradients travel in their own type, so results are those without it";
const optimizerDevice = "zero_optimization.offload_optimizer.device";
const parameterDevice = "zero_optimization.offload_param.device";
const pinned = unused("pin_memory now stands in the offload sections; DeepSpeed ignores this one too");

export const zeroKeys = {
  "zero_optimization.stage": used(
    oneOf([0, 1, 2, 3]),
    0,
    "what ranks share: 1 optimizer states, 2 also gradients, 3 also parameters",
  ),
  "zero_optimization.overlap_comm": nullable(
    derived(boolean, "collectives run beside the backward pass; left out: true at stage 3, else false"),
  ),
  "zero_optimization.reduce_bucket_size": derived(elements(1), "most gradient elements in one reduction", {
    deepspeed: 5e8,
  }),
  "zero_optimization.allgather_bucket_size": derived(
    elements(1),
    "most parameter elements in one gather after a step",
    { deepspeed: 5e8 },
  ),
  "zero_optimization.sub_group_size": derived(
    elements(1),
    "elements of this rank that one piece of the optimizer step updates",
    { deepspeed: 1e9 },
  ),
  "zero_optimization.stage3_prefetch_bucket_size": derived(elements(0), "most elements gathered ahead of their use", {
    deepspeed: 5e7,
  }),
  "zero_optimization.stage3_param_persistence_threshold": derived(
    elements(0),
    "tensors up to this size stay gathered",
    { deepspeed: 1e5 },
  ),
  "zero_optimization.stage3_max_live_parameters": derived(elements(0), "most gathered elements at any time", {
    deepspeed: 1e9,
  }),
  "zero_optimization.stage3_max_reuse_distance": derived(
    elements(0),
    "a unit used again within this many elements is not released",
    { deepspeed: 1e9 },
  ),
  "zero_optimization.stage3_model_persistence_threshold": unused(
    "every tensor up to stage3_param_persistence_threshold stays gathered",
    { type: elements(0) },
  ),
  "zero_optimization.stage3_gather_16bit_weights_on_model_save": unused(
    "saved models always hold whole weights, at every stage",
    { obeyed: [true] },
  ),
  "zero_optimization.stage3_module_granularity_threshold": unused("units are the model's blocks", {
    obeyed: [0],
    type: elements(0),
  }),
  "zero_optimization.stage3_use_all_reduce_for_fetch_params": unused("parameters are always fetched by all-gather"),
  "zero_optimization.stage3_allgather_sequential": unused("a unit is always one gather"),
  "zero_optimization.contiguous_gradients": unused("a unit's gradients always lie in one buffer", {
    obeyed: [true],
    type: boolean,
  }),
  "zero_optimization.reduce_scatter": used(
    boolean,
    true,
    "gradients go to their owner only; they do so with false too, which gives the same sums",
  ),
  "zero_optimization.allgather_partitions": unused("updated parameters always travel by all-gather", {
    obeyed: [true],
    type: boolean,
  }),
  "zero_optimization.use_multi_rank_bucket_allreduce": unused("gradients go to their owner by reduce-scatter"),

  "zero_optimization.offload_optimizer.device": used(
    devices,
    "none",
    "where optimizer states live and updates run, at stages 1 to 3: device, host memory, disk (DeepSpeed: nvme at stage 3)",
  ),
  "zero_optimization.offload_optimizer.nvme_path": nullable(derived(path, "folder for optimizer states on disk")),
  "zero_optimization.offload_optimizer.buffer_count": used(
    integer(1),
    4,
    "sub-groups of states from disk that are in memory at once",
  ),
  "zero_optimization.offload_optimizer.pin_memory": used(
    boolean,
    true,
    "host memory of states and gradients is page-locked, as far as the system allows (ulimit -l)",
  ),
  "zero_optimization.offload_optimizer.pipeline_read": derived(
    boolean,
    "the next states are read from disk during an update; left out: true (DeepSpeed: false)",
  ),
  "zero_optimization.offload_optimizer.pipeline_write": derived(
    boolean,
    "states are written to disk during the next update; left out: true (DeepSpeed: false)",
  ),
  "zero_optimization.offload_optimizer.fast_init": unused("states always begin where they live"),
  "zero_optimization.offload_optimizer.ratio": used(
    share,
    1,
    "share of the sub-groups that is offloaded, at every stage (DeepSpeed: stage 3)",
  ),
  "zero_optimization.offload_optimizer.super_offload": notYet(
    "updates of offloaded states begin after the last gradient",
  ),
  "zero_optimization.offload_optimizer.cpuadam_cores_perc": unused("--threads says how many cores a rank uses", {
    type: share,
  }),
  "zero_optimization.offload_param.device": used(
    devices,
    "none",
    "where parameters live at rest, at stage 3: device, host memory, disk",
  ),
  "zero_optimization.offload_param.nvme_path": nullable(derived(path, "folder for parameters on disk")),
  "zero_optimization.offload_param.buffer_count": used(
    integer(1),
    5,
    "ranges of parameters from disk that are in memory at once",
  ),
  "zero_optimization.offload_param.buffer_size": derived(
    elements(1),
    "most elements of a rank's part of a unit; left out: the largest part (DeepSpeed: 1e8)",
  ),
  "zero_optimization.offload_param.max_in_cpu": derived(
    elements(0),
    "elements of a rank that stay in host memory with device nvme, the first in plan order; left out: 0 (DeepSpeed: 1e9)",
  ),
  "zero_optimization.offload_param.pin_memory": used(
    boolean,
    true,
    "host memory of parameters is page-locked, as far as the system allows (ulimit -l)",
  ),
  "zero_optimization.cpu_offload": switchFor(optimizerDevice, "cpu"),
  "zero_optimization.cpu_offload_param": switchFor(parameterDevice, "cpu"),
  // Never a key of DeepSpeed's code, but taught by an old tutorial.
  "zero_optimization.cpu_offload_params": switchFor(parameterDevice, "cpu"),
  "zero_optimization.cpu_offload_use_pin_memory": pinned,
  "zero_optimization.cpu_offload_pin_memory": pinned,

  "zero_optimization.ignore_unused_parameters": unused(
    "a parameter without a gradient counts as one whose gradient is zero",
    { obeyed: [true] },
  ),
  "zero_optimization.round_robin_gradients": unused("every rank owns an equal range, so there is nothing to balance"),
  "zero_optimization.load_from_fp32_weights": unused("weights are always read in full precision", { obeyed: [true] }),
  "zero_optimization.elastic_checkpoint": unused("DeepSpeed's own checkpoints are not read"),
  "zero_optimization.pipeline_loading_checkpoint": unused("weights are always streamed", {
    obeyed: [true],
    deepspeed: false,
  }),
  "zero_optimization.memory_efficient_linear": unused("what is saved for backward never pins a parameter", {
    obeyed: [true],
  }),
  "zero_optimization.override_module_apply": unused(
    "it speaks of PyTorch modules, whose apply is never replaced here",
    {
      deepspeed: true,
    },
  ),
  "zero_optimization.log_trace_cache_warnings": unused("the order of units is learned, and a change is no fault"),
  "zero_optimization.enable_sanity_checks": unused(
    "no command hands out gathered parameters to be edited, so there is nothing to check",
  ),
  "zero_optimization.save_muon_momentum_buffer_in_memory": unused("there is no Muon here"),
  "zero_optimization.leaf_module": section(
    unused("mark a module as a unit in code instead"),
    ...["classes", "names", "name_suffixes"],
  ),
  "zero_optimization.grad_hooks": unused("an old key that DeepSpeed has no more; gradients always settle as produced", {
    obeyed: [true],
  }),
  "zero_optimization.legacy_stage1": always([false], "DeepSpeed refuses it too; there is one stage 1"),
  "zero_optimization.zero_hpz_partition_size": notYet(
    "parameters are sharded over all ranks, with the same results",
    [1],
  ),
  "zero_optimization.zero_quantized_weights": notYet(fullPrecision),
  "zero_optimization.zero_quantized_nontrainable_weights": notYet(fullPrecision),
  "zero_optimization.zero_quantized_gradients": notYet(fullPrecision),
  "zero_optimization.zeropp_loco_param": section(notYet(fullPrecision), "err_beta", "reset_T"),
  "zero_optimization.mics_shard_size": notYet("states are sharded over all ranks, with the same results", [-1]),
  "zero_optimization.mics_hierarchical_params_gather": notYet("states are sharded over all ranks"),
  "zero_optimization.zenflow": section(
    notYet("every update is whole and in time, so results are those without it"),
    ...["topk_ratio", "select_strategy", "select_interval", "update_interval", "overlap_step", "offload", "auto_ratio"],
    ...["full_warm_up_rounds", "pt_reserved_cores_perc"],
  ),
  allgather_size: unused("an old key of DeepSpeed's; write zero_optimization.allgather_bucket_size"),
  disable_allgather: unused("updated parameters always travel by all-gather"),
  zero_allow_untested_optimizer: unused("every optimizer here is tested with every stage, so none is refused", {
    obeyed: [true],
    deepspeed: false,
  }),
  zero_force_ds_cpu_optimizer: unused("every optimizer here updates on the host too, so none is refused", {
    deepspeed: true,
  }),

  "aio.block_size": used(integer(1), 2 ** 20, "bytes of one request to a drive"),
  "aio.queue_depth": used(integer(1), 8, "requests of one thread that are under way at once"),
  "aio.intra_op_parallelism": used(integer(1), 1, "threads that share a transfer"),
  "aio.single_submit": unused("each request is a call of its own on a thread of its own", { type: boolean }),
  "aio.overlap_events": unused("requests never wait for each other", { type: boolean }),
  "aio.use_gds": unused("direct transfers between disk and GPU need CUDA", { type: boolean }),
  "aio.thread_count": renamed("aio.intra_op_parallelism", integer(1)),
} as const satisfies Readonly<Record<string, KeySpec>>;
