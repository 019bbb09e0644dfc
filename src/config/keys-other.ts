/** Rows of the key table: reporting, and sections of DeepSpeed's that are outside of ZeRO. */

import { always, derived, type KeySpec, mustBeOff, notYet, nullable, section, unused, used } from "./key-kinds.ts";
import { countOrAll, delayedUpdate, explainDelay, paths, text } from "./key-types.ts";
import { boolean, integer, oneOf } from "./value-types.ts";

const numbersWouldDiffer = "this version does not have it, and training without it would give other numbers";
const dataParallel = "ranks here are data-parallel only";
const otherMonitors = "use csv_monitor or tensorboard, or --log-json";
const unbound = 'write "shunya": { "activation_checkpointing": true } to recompute activations';
const saving = "--save-every and --resume save and resume";

export const reportingKeys = {
  steps_per_print: nullable(used(integer(1), 10, "steps between progress lines", { deepspeed: null })),
  wall_clock_breakdown: used(boolean, false, "show the time of each phase of a step"),
  memory_breakdown: used(boolean, false, "show every kind of memory after a step"),
  dump_state: used(boolean, false, "show the engine's state at the start"),
  "comms_logger.enabled": derived(boolean, "count and time collectives; left out: true where the section stands"),
  "comms_logger.verbose": used(boolean, false, "a line for each collective"),
  "comms_logger.prof_all": unused("all collectives are counted", { obeyed: [true] }),
  "comms_logger.prof_ops": unused("all collectives are counted"),
  "comms_logger.debug": unused("a collective is always named by its caller"),
  "flops_profiler.enabled": used(boolean, false, "show the operations of one step by module"),
  "flops_profiler.profile_step": used(integer(1), 1, "the step that is shown"),
  "flops_profiler.module_depth": used(countOrAll, -1, "levels of module names; -1: all"),
  "flops_profiler.top_modules": used(integer(1), 1, "modules named as the most expensive"),
  "flops_profiler.detailed": used(boolean, true, "a line for each module"),
  "flops_profiler.output_file": nullable(derived(text, "where it is written; left out: standard output")),
  "flops_profiler.recompute_fwd_factor": unused("recomputed operations are counted as they happen", { obeyed: [0] }),
  "csv_monitor.enabled": used(boolean, false, "write metrics as CSV files"),
  "csv_monitor.output_path": used(text, "", "folder of the CSV files"),
  "csv_monitor.job_name": used(text, "DeepSpeedJobName", "folder of this job in it"),
  "tensorboard.enabled": used(boolean, false, "write metrics as TensorBoard event files"),
  "tensorboard.output_path": used(text, "", "folder of the event files"),
  "tensorboard.job_name": used(text, "DeepSpeedJobName", "folder of this job in it"),
  wandb: section(unused(otherMonitors), "enabled", "group", "team", "project"),
  comet: section(
    unused(otherMonitors),
    ...["enabled", "samples_log_interval", "project", "workspace", "api_key", "experiment_name", "experiment_key"],
    ...["online", "mode"],
  ),
  log_level: unused("there is one level"),
  timers: unused("wall_clock_breakdown shows the time of each phase"),
} as const satisfies Readonly<Record<string, KeySpec>>;

export const otherKeys = {
  // they would change the numbers
  amp: section(mustBeOff("use bf16.enabled or fp16.enabled"), "enabled", "opt_level"),
  torch_autocast: mustBeOff("use bf16.enabled or fp16.enabled"),
  elasticity: section(
    mustBeOff("it would choose another batch; write the batch keys"),
    ...["enabled", "max_train_batch_size", "micro_batch_sizes", "min_gpus", "max_gpus", "min_time", "version"],
    ...["ignore_non_elastic_batch_info", "prefer_larger_batch", "model_parallel_size", "num_gpus_per_node"],
  ),
  progressive_layer_drop: mustBeOff(numbersWouldDiffer),
  quantize_training: mustBeOff(numbersWouldDiffer),
  curriculum_learning: mustBeOff(numbersWouldDiffer),
  data_efficiency: mustBeOff(numbersWouldDiffer),
  expert_parallel: mustBeOff(dataParallel),
  sequence_parallel_size: always([1], dataParallel),

  // they change where things are, or act only where a PyTorch model asks for them
  tensor_parallel: section(notYet(`${dataParallel}, so the global batch counts every rank`), "autotp_size"),
  pipeline: notYet(dataParallel),
  seq_parallel_communication_data_type: unused(dataParallel),
  compression_training: unused("DeepSpeed applies it only in a PyTorch model that calls its compression"),
  sparse_attention: unused("DeepSpeed applies it only in a PyTorch model that asks for it"),
  eigenvalue: unused("it serves quantize_training, which is not here"),
  hybrid_engine: notYet("generation runs on the same engine"),
  compile: notYet("kernels here are compiled beforehand"),
  autotuning: unused("sizes that are left out are derived from the model"),
  graph_harvesting: notYet("kernels here are compiled beforehand"),
  use_data_before_expert_parallelism: unused(dataParallel),
  nebula: unused("it is a service of another vendor"),
  vocabulary_size: unused("the model says its vocabulary"),
  checkpointing: unused(`it is no key of DeepSpeed's, which ignores it; ${saving}`),

  "activation_checkpointing.partition_activations": unused(unbound, { type: boolean }),
  "activation_checkpointing.contiguous_memory_optimization": unused(unbound, { type: boolean }),
  "activation_checkpointing.cpu_checkpointing": unused(unbound, { type: boolean }),
  "activation_checkpointing.number_checkpoints": unused(unbound),
  "activation_checkpointing.synchronize_checkpoint_boundary": unused(unbound, { type: boolean }),
  "activation_checkpointing.profile": unused(unbound, { type: boolean }),
  "checkpoint.tag_validation": unused("a checkpoint is named by its step on every rank", {
    type: oneOf(["Ignore", "Warn", "Fail"]),
  }),
  "checkpoint.load_universal": unused("checkpoints here are loaded at any number of ranks", { type: boolean }),
  "checkpoint.use_node_local_storage": unused("all ranks are on one machine", { type: boolean }),
  "checkpoint.parallel_write": section(unused("every rank writes its own shards"), "pipeline_stage"),
  "checkpoint.checkpoint_serialization": unused("checkpoints are safetensors and JSON"),
  "checkpoint.writer": section(
    unused("checkpoints are safetensors and JSON"),
    ...["type", "decoupled", "io_buffer_size", "io_buffer_double", "show_statistics", "data_parallel", "io_multiplier"],
  ),

  // our own
  "shunya.nvme_paths": nullable(
    derived(paths, "further folders on other drives; what is offloaded to disk is divided among all of them"),
  ),
  "shunya.disk_checksums": used(boolean, true, "what is read from disk is compared with checksums of what was written"),
  "shunya.delayed_update": used(
    delayedUpdate,
    false,
    "the host applies a step's gradients while the next step computes, so parameters are a step late; with offload_optimizer only",
    { explain: explainDelay },
  ),
  "shunya.activation_checkpointing": used(
    boolean,
    false,
    "keep only each block's input and recompute the rest in the backward pass",
  ),
} as const satisfies Readonly<Record<string, KeySpec>>;
