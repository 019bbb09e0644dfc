/**
 * Fifty real configuration files in a small form of our own: what they have that is special, and what DeepSpeed 0.19.6's own reader
 * makes of them on 4 and on 8 ranks ("stage optimizer parameters micro x accumulation = batch precision"), or the better answer.
 * A number such as 07 is the case's own.
 */

export type Outcome = string | RegExp;
export interface Case {
  readonly id: string;
  readonly text: string;
  /** The command line gives the micro-batch. */
  readonly micro?: 1;
  readonly on4: Outcome;
  readonly on8?: Outcome;
  /** [reduce bucket, all-gather bucket, persistence threshold]; undefined: the plan's. */
  readonly sizes?: readonly [number | undefined, number | undefined, number | undefined];
  /** What the warnings must say. */
  readonly warns?: readonly RegExp[];
}

const autoAdamW =
  '"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}';
const fp16 =
  '"fp16": {"enabled": true, "loss_scale": 0, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1}';
const bothOnCpu =
  '"offload_optimizer": {"device": "cpu", "pin_memory": true}, "offload_param": {"device": "cpu", "pin_memory": true}';
const autoSizes = ["reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"]
  .map((name) => `"${name}": "auto"`)
  .join(", ");
const oldPad = "activation_checkpointing: {partition_activations: true, cpu_checkpointing: false}";

export const cases: readonly Case[] = [
  {
    id: "01 deprecated cpu_offload",
    text: `{"train_batch_size": 4, "gradient_accumulation_steps": 1, ${fp16},
      "zero_optimization": {"stage": 2, "reduce_bucket_size": 7000000, "allgather_bucket_size": 7000000, "cpu_offload": true}}`,
    on4: "2 cpu none 1x1=4 fp16",
    on8: /train_batch_size: .*4 != 0 \* 1 \* 8/,
    sizes: [7e6, 7e6, undefined],
    warns: [/cpu_offload: an old key/],
  },
  {
    id: "03 a schedule and no optimizer",
    text: `{"train_batch_size": 4, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2}, ${fp16},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 10}}}`,
    on4: "2 none none 1x1=4 fp16",
    on8: /4 != 0 \* 1 \* 8/,
  },
  {
    id: "05 offload_param at stage 0",
    text: `{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, ${fp16},
      "zero_optimization": {"stage": 0, "offload_param": {"device": "cpu"}, "stage3_param_persistence_threshold": 0}}`,
    on4: "0 none none 2x4=32 fp16",
    on8: "0 none none 2x2=32 fp16",
    sizes: [undefined, undefined, 0],
    warns: [
      /offload_param\.device: parameters are whole below stage 3, so this is ignored/,
      /the stage is 0: without effect/,
    ],
  },
  {
    id: "07 stage 3 with numbers beyond 32 bits",
    text: `{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
      "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}},
      "zero_optimization": {"stage": 3, "allgather_bucket_size": 5e7, "reduce_bucket_size": 5e7, "sub_group_size": 1e12,
        "stage3_param_persistence_threshold": 1e5, "stage3_gather_16bit_weights_on_model_save": true}}`,
    on4: "3 none none 1x1=4 bf16",
    on8: "3 none none 1x1=8 bf16",
    sizes: [5e7, 5e7, 1e5],
  },
  {
    id: "09 a template without a batch",
    text: `{"zero_optimization": {"stage": 3, "contiguous_gradients": false, "sub_group_size": 1e12, "reduce_bucket_size": 5e8}}`,
    on4: /train_batch_size: no batch is given.*--micro-batch/,
    warns: [/contiguous_gradients: has no effect/],
  },
  {
    id: "09 with a flag",
    text: `{"zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "stage3_param_persistence_threshold": 1e6}}`,
    micro: 1,
    on4: "3 none none 1x1=4 fp32",
    on8: "3 none none 1x1=8 fp32",
    sizes: [5e8, undefined, 1e6],
  },
  {
    id: "11 direct storage, for one rank",
    text: `{"zero_optimization": {"stage": 3, "stage3_max_live_parameters": "auto", "offload_param": {"device": "nvme",
      "nvme_path": "/disk", "buffer_size": "auto", "buffer_count": 3}}, "aio": {"use_gds": true, "queue_depth": 32}, "train_batch_size": 1}`,
    on4: /1 != 0 \* 1 \* 4/,
    warns: [/aio\.use_gds: .*need CUDA/],
  },
  {
    id: "13 1-bit Adam",
    text: `{"train_batch_size": 96, "train_micro_batch_size_per_gpu": 3, ${fp16},
      "optimizer": {"type": "OnebitAdam", "params": {"lr": 3e-5, "freeze_step": 400, "cuda_aware": false}}}`,
    on4: /OneBitAdam is an optimizer that this version does not have .*use AdamW/,
    warns: [/not looked at.*freeze_step, cuda_aware/],
  },
  {
    id: "15 0/1 Adam",
    text: `{"train_batch_size": 4096, "train_micro_batch_size_per_gpu": 16, "optimizer": {"type": "ZeroOneAdam", "params": {"lr": 1e-5}}}`,
    on4: /ZeroOneAdam is an optimizer that this version does not have/,
  },
  {
    id: "17 ZenFlow",
    text: `{"train_batch_size": 8, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow": {"topk_ratio": 0.1}}}`,
    on4: "2 cpu none 2x1=8 bf16",
    on8: "2 cpu none 1x1=8 bf16",
    warns: [/zenflow: has no effect here: a DeepSpeed key that this version does not implement/],
  },
  {
    id: "19 a shell template",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: this is the fault
    text: '{"bf16": {"enabled": "auto"},\n"zero_optimization": {\n"stage": ${zero_stage},\n"overlap_comm": true}}',
    on4: /line 3: .*\$\{zero_stage\}.*placeholder/,
  },
  {
    id: "21 a batch for one rank",
    text: `{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 32, "prescale_gradients": true}`,
    on4: /32 != 32 \* 0 \* 4 .*train_batch_size 128/,
    on8: /32 != 32 \* 0 \* 8 .*train_batch_size 256/,
  },
  {
    id: "23 sequence parallelism",
    text: `{"train_batch_size": 1, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
      "compile": {"deepcompile": true}, "gradient_clipping": "auto", "sequence_parallel_size": 2}`,
    on4: /1 != 1 \* 1 \* 4[\s\S]*sequence_parallel_size: found 2; wanted 1/,
    warns: [/compile: has no effect/],
  },
  {
    id: "25 bare words of a script, and a clip in the wrong place",
    text: '{"train_batch_size": 512,\n"optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}},\n"curriculum_learning": {"enabled": true,\n"min_difficulty": CONFIG_CL_MIN,\n"x": 1}}',
    on4: /CONFIG_CL_MIN/,
  },
  {
    id: "25 the clip alone",
    text: `{"train_batch_size": 512, "optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}}}`,
    on4: /max_grad_norm: found 1; .*write gradient_clipping at the top level/,
  },
  {
    id: "27 keys of another program in compile",
    text: `{"zero_optimization": {"stage": 1, "overlap_comm": true}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto",
      "initial_scale_power": 32}, "compile": {"disable": false, "backend": "inductor"}, "train_batch_size": "auto"}`,
    micro: 1,
    on4: "1 none none 1x1=4 fp32",
    on8: "1 none none 1x1=8 fp32",
    warns: [/compile: has no effect/, /"auto" is filled with false, so this trains in fp32/],
  },
  {
    id: "29 a note, and tensor parallelism",
    text: `{"_comment": "see the manual", "train_batch_size": "auto", "zero_optimization": {"stage": 2, "overlap_comm": false,
      "allgather_bucket_size": 5e8, "reduce_bucket_size": 5e8, "round_robin_gradients": true}, "tensor_parallel": {"autotp_size": 2}}`,
    micro: 1,
    on4: "2 none none 1x1=4 fp32",
    on8: "2 none none 1x1=8 fp32",
    sizes: [5e8, 5e8, undefined],
    warns: [/_comment: a note/, /round_robin_gradients: has no effect/, /tensor_parallel: has no effect/],
  },
  {
    id: "31 all auto, and a step count like 1e5",
    text: `{${autoAdamW}, "zero_optimization": {"stage": 3, ${bothOnCpu}, ${autoSizes}, "gather_16bit_weights_on_model_save": true},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
      "gradient_clipping": "auto", "steps_per_print": 1e5}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp32",
    on8: "3 cpu cpu 1x1=8 fp32",
    warns: [/lr: "auto" is filled with/, /warmup_num_steps: "auto" is filled with 1/],
  },
  {
    id: "33 everything persists",
    text: `{"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "zero_optimization": {
      "stage": 3, "offload_param": {"device": "cpu"}, "reduce_bucket_size": 1e9, "stage3_param_persistence_threshold": 1e9}}`,
    on4: "3 none cpu 1x1=4 fp32",
    on8: "3 none cpu 1x1=8 fp32",
    sizes: [1e9, undefined, 1e9],
    warns: [/tensors up to 1000000000 elements stay whole on every rank/],
  },
  {
    id: "35 offload with auto",
    text: `{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, ${bothOnCpu}, ${autoSizes}}, "gradient_clipping": "auto"}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp32",
  },
  {
    id: "37 a decay whose length is auto",
    text: `{${autoAdamW}, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
      "warmup_num_steps": "auto", "warmup_type": "linear", "total_num_steps": "auto"}}, "zero_optimization": {"stage": 3, ${bothOnCpu},
      "stage3_max_live_parameters": 2e9, ${autoSizes}}}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp32",
    warns: [/total_num_steps: "auto" is filled with the length of the run when it begins; --steps/],
  },
  {
    id: "39 a fraction as least loss scale",
    text: `{"train_batch_size": 8, "fp16": {"enabled": "auto", "min_loss_scale": 1e-10}, "zero_optimization": {"stage": 2}}`,
    on4: /min_loss_scale: found 1e-10; wanted a whole number/,
  },
  {
    id: "41 an old name, and Apex's level",
    text: `{"fp16": {"enabled": true, "opt_level": "O2"}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
      "offload_optimizer": {"device": "cpu"}, "allgather_bucket_size": 5e8, "stage3_gather_fp16_weights_on_model_save": true}}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp16",
    sizes: [undefined, 5e8, undefined],
    warns: [/fp16\.opt_level: has no effect here: it is Apex's/],
  },
  {
    id: "43 no optimizer on purpose",
    text: `{"bf16": {"enabled": false}, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3, "sub_group_size": 1e8},
      "gradient_accumulation_steps": 1, "train_micro_batch_size_per_gpu": 2, "zero_force_ds_cpu_optimizer": false}`,
    on4: "3 none none 2x1=8 fp16",
    on8: "3 none none 2x1=16 fp16",
  },
  {
    // DeepSpeed refuses the second and third key; what they meant is plain.
    id: "45 three old offload keys",
    text: `{"zero_optimization": {"stage": 3, "reduce_bucket_size": 2e8, "cpu_offload": true, "cpu_offload_params": true,
      "cpu_offload_pin_memory": true}}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp32",
    sizes: [2e8, undefined, undefined],
    warns: [/cpu_offload_params: an old key, read as it was meant/, /cpu_offload_pin_memory: has no effect/],
  },
  {
    id: "47 devices none",
    text: `{"train_batch_size": "auto", "fp16": {"enabled": "auto", "initial_scale_power": 32}, "zero_optimization": {"stage": 1,
      "offload_param": {"device": "none"}, "offload_optimizer": {"device": "none"}, "allgather_bucket_size": 5e8}}`,
    micro: 1,
    on4: "1 none none 1x1=4 fp32",
    on8: "1 none none 1x1=8 fp32",
    sizes: [undefined, 5e8, undefined],
  },
  {
    id: "49 0/1 Adam with stage 3",
    text: `{"train_batch_size": 16, ${fp16}, "optimizer": {"type": "ZeroOneAdam", "params": {"var_freeze_step": 1000}},
      "zero_optimization": {"stage": 3}}`,
    on4: /ZeroOneAdam is an optimizer that this version does not have/,
  },
  {
    id: "51 small buckets",
    text: `{"fp16": {"enabled": "auto", "auto_cast": true}, "zero_optimization": {"stage": 3, "overlap_comm": false, ${bothOnCpu},
      "sub_group_size": 1e7, "reduce_bucket_size": 1e7, "stage3_param_persistence_threshold": 1e4}}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp32",
    sizes: [1e7, undefined, 1e4],
    warns: [/auto_cast: has no effect/],
  },
  {
    id: "53 false as section",
    text: `{"train_batch_size": 16, "gradient_accumulation_steps": 2, "fp16": {"enabled": true}, "zero_optimization": false}`,
    on4: "0 none none 2x2=16 fp16",
    on8: "0 none none 1x2=16 fp16",
    warns: [/zero_optimization: found false in place of an object/],
  },
  {
    id: "55 the old name of bf16",
    text: `fp16: {enabled: false, min_loss_scale: 1}\namp: {enabled: false, opt_level: "O2"}\nbfloat16: {enabled: true}\n${oldPad}
      zero_optimization: {stage: 2, offload_optimizer: {device: "cpu"}}\ngradient_clipping: 0.1`,
    micro: 1,
    on4: "2 cpu none 1x1=4 bf16",
    warns: [/partition_activations: has no effect here: write "shunya"/],
  },
  {
    id: "57 a wrong name of the micro-batch",
    text: `{"micro_batch_per_gpu": 5, "train_batch_size": 5, ${fp16}}`,
    on4: /micro_batch_per_gpu: unknown key; did you mean train_micro_batch_size_per_gpu\?[\s\S]*5 != 1 \* 1 \* 4/,
    on8: /5 != 0 \* 1 \* 8/,
  },
  {
    id: "59 numbers as text",
    text: `{"zero_optimization": {"stage": 3, ${bothOnCpu}, "sub_group_size": 1e14, "reduce_bucket_size": "1",
      "stage3_prefetch_bucket_size": "10", "stage3_param_persistence_threshold": "0"}}`,
    micro: 1,
    on4: "3 cpu cpu 1x1=4 fp32",
    sizes: [1, undefined, 0],
    warns: [/found "10", read as 10; write it without quotes/, /a reduction of 1 element means/],
  },
  {
    id: "61 another kind of file",
    text: `{"env": {}, "global": {"model": {"deepspeed": {"optimizer": {"type": "Adam"}, "zero_optimization": true}}}, "runs": {}}`,
    micro: 1,
    on4: /no key of DeepSpeed's at the top level.*\(env, global, runs\); what stands under global\.model\.deepspeed/,
  },
  {
    id: "63 auto sizes only",
    text: `{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "fp16": {"enabled": true}, "bf16": {"enabled": false},
      "zero_optimization": {"stage": 3, ${bothOnCpu}, ${autoSizes}}, "comms_logger": {"enabled": false}}`,
    on4: "3 cpu cpu 1x8=32 fp16",
    on8: "3 cpu cpu 1x8=64 fp16",
    warns: [/gradients of 8 micro-batches are added in fp16/],
  },
  {
    id: "65 stage-3 keys at stage 2",
    text: `{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2,
      ${bothOnCpu}, "sub_group_size": 1e9, "stage3_max_live_parameters": 1e9}}`,
    on4: "2 cpu none 4x1=16 fp16",
    on8: /16 != 4 \* 0 \* 8/,
    warns: [/so this is ignored/, /the stage is 2: without effect, nor .*sub_group_size/],
  },
  {
    id: "67 all on disk, and a misspelling",
    text: `{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, ${fp16}, "wall_clock_breakdown": true,
      "zero_optimization": {"stage": 3, "stage3_param_persitence_threshold": 1e5, "reduce_bucket_size": 90000000,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/disk"}, "offload_param": {"device": "nvme", "nvme_path": "/disk", "max_in_cpu": 1}},
      "aio": {"thread_count": 2}}`,
    on4: "3 nvme nvme 4x1=16 fp16",
    on8: "3 nvme nvme 4x1=32 fp16",
    sizes: [9e7, undefined, 1e5],
    warns: [/stage3_param_persitence_threshold: a misspelling/, /aio\.thread_count: an old key/],
  },
  {
    id: "69 two clips in the wrong place",
    text: `{"train_batch_size": 4, "optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0, "__max_grad_norm__": 0.0}}}`,
    on4: /max_grad_norm: found 1;[\s\S]*__max_grad_norm__: Adam has no such parameter/,
  },
  {
    id: "71 ZeRO++",
    text: `{"zero_optimization": {"stage": 3, "reduce_bucket_size": 10000000, "zero_quantized_weights": true,
      "zero_hpz_partition_size": 16, "zero_quantized_gradients": true}}`,
    micro: 1,
    on4: "3 none none 1x1=4 fp32",
    sizes: [1e7, undefined, undefined],
    warns: [
      /zero_quantized_weights: .*nor .*zero_quantized_gradients: a DeepSpeed key that this version does not/,
      /hpz/,
    ],
  },
  {
    id: "73 trailing commas, a number beyond 32 bits",
    text: `{"train_batch_size": 16, "gradient_accumulation_steps": 1, "fp16": {"enabled": true, "initial_scale_power": 32,},
      "zero_optimization": {"stage": 1, "allgather_bucket_size": 5e8, "reduce_bucket_size": 5e8,}, "steps_per_print": 9999999999}`,
    on4: "1 none none 4x1=16 fp16",
    on8: "1 none none 2x1=16 fp16",
    sizes: [5e8, 5e8, undefined],
  },
  {
    id: "75 for eight ranks, and a section of nobody's",
    text: `{"train_batch_size": 1520, "train_micro_batch_size_per_gpu": 190, "gradient_accumulation_steps": 1,
      "fp16": {"enabled": true}, "tensorboard": {"enabled": true, "job_name": "train",}, "checkpointing": {"enabled": true}}`,
    on4: /1520 != 190 \* 1 \* 4/,
    on8: "0 none none 190x1=1520 fp16",
    warns: [/checkpointing: has no effect/],
  },
  {
    id: "77 old and new offload, of two kinds",
    text: `{"train_batch_size": 16, "fp16": {"enabled": true, "initial_scale_power": 15}, "optimizer": {"type": "Adam"},
      "zero_optimization": {"stage": 2, "allgather_bucket_size": 5e7, "cpu_offload": true, "offload_param": {"device": "cpu"}}}`,
    on4: "2 cpu none 4x1=16 fp16",
    on8: "2 cpu none 2x1=16 fp16",
    warns: [/offload_param\.device: .*ignored/],
  },
  {
    id: "79 for two ranks, without a warm-up",
    text: `{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
      "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}`,
    on4: /4 != 1 \* 2 \* 4[\s\S]*warmup_num_steps: found 0; wanted a positive whole number/,
  },
  {
    id: "81 for 36 ranks",
    text: `{"train_batch_size": 10080, "train_micro_batch_size_per_gpu": 280, "gradient_accumulation_steps": 1,
      "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 128, "warmup_num_steps": 10}}}`,
    on4: /10080 != 280 \* 1 \* 4/,
    on8: /10080 != 280 \* 1 \* 8/,
  },
  {
    id: "83 an odd micro-batch",
    text: `{"train_micro_batch_size_per_gpu": 21, "gradient_accumulation_steps": 1, ${fp16}, "zero_optimization": {"stage": 2,
      "contiguous_gradients": false, "reduce_bucket_size": 50000000, "allgather_bucket_size": 500000000}}`,
    on4: "2 none none 21x1=84 fp16",
    on8: "2 none none 21x1=168 fp16",
    sizes: [5e7, 5e8, undefined],
  },
  {
    id: "85 adam_w_mode beside params",
    text: `{"train_batch_size": 2048, "train_micro_batch_size_per_gpu": 32, "zero_optimization": {"stage": 1},
      "fp16": {"enabled": true, "initial_scale_power": 7}, "optimizer": {"type": "Adam", "adam_w_mode": true, "params": {"lr": 0.001}}}`,
    on4: "1 none none 32x16=2048 fp16",
    on8: "1 none none 32x8=2048 fp16",
    warns: [/adam_w_mode: at the wrong level/],
  },
  {
    id: "87 a tuner's list of stages among another program's keys",
    text: `{"a-1": 1, "b-1": 1, "c-1": 1, "d-1": 1, "e-1": 1, "f-1": 1, "g-1": 1, "train_micro_batch_size_per_gpu": 1,
      "zero_optimization": {"stage": [0, 1, 2, 3]}}`,
    on4: /7 keys at the top level are not DeepSpeed's[\s\S]*stage: found \[0, 1, 2, 3\]; wanted 0, 1, 2, 3/,
  },
  {
    id: "89 an auto batch alone",
    text: `{"train_batch_size": "auto", "gradient_accumulation_steps": 4, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}`,
    on4: /train_batch_size: "auto" needs a micro-batch to be filled from; give --micro-batch/,
  },
  {
    id: "89 with a flag",
    text: `{"train_batch_size": "auto", "gradient_accumulation_steps": 4, "fp16": {"enabled": true},
      "zero_optimization": {"stage": 2, "allgather_bucket_size": 2e8}}`,
    micro: 1,
    on4: "2 none none 1x4=16 fp16",
    on8: "2 none none 1x4=32 fp16",
    sizes: [undefined, 2e8, undefined],
  },
  {
    id: "91 half a loss scale",
    text: `{"train_micro_batch_size_per_gpu": 2, "fp16": {"enabled": true, "min_loss_scale": 0.5, "fp16_scale_tolerance": 0.25},
      "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}`,
    on4: /min_loss_scale: found 0\.5; wanted a whole number/,
    warns: [/fp16_scale_tolerance: has no effect/, /ignored/],
  },
  {
    id: "93 Muon and experts",
    text: `{"train_batch_size": 16, "bf16": {"enabled": true}, "optimizer": {"type": "Muon", "params": {"muon_lr": 2e-4}},
      "expert_parallel": {"enabled": true, "autoep_size": 8}, "gradient_accumulation_steps": 2}`,
    on4: /Muon is an optimizer that this version does not have[\s\S]*expert_parallel: .*data-parallel only/,
    warns: [/muon_lr/],
  },
  {
    id: "95 another schedule's parameters",
    text: `{"train_batch_size": 64, "gradient_accumulation_steps": 16, "bf16": {"enabled": true}, "scheduler": {
      "type": "WarmupCosineLR", "params": {"warmup_min_lr": 3e-5, "warmup_num_steps": 2000, "total_num_steps": 100000}}}`,
    on4: /warmup_min_lr: WarmupCosineLR has no such parameter; it has .*warmup_min_ratio/,
    on8: /64 != 0 \* 16 \* 8/,
  },
  {
    id: "97 for six ranks",
    text: `{"train_batch_size": 6, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true}}`,
    on4: /6 != 1 \* 1 \* 4/,
    on8: /6 != 1 \* 1 \* 8/,
  },
  {
    id: "99 a key at two levels",
    text: `{"zero_optimization": {"stage": 2, "allgather_bucket_size": 2e8, "reduce_bucket_size": 2e8, "memory_efficient_linear": false,
      "stage3_param_persistence_threshold": 2e8}, "memory_efficient_linear": false, "bf16": {"enabled": true},
      "data_types": {"grad_accum_dtype": "bf16"}, "flops_profiler": {"enabled": false, "output_file": null}}`,
    micro: 1,
    on4: "2 none none 1x1=4 bf16",
    on8: "2 none none 1x1=8 bf16",
    sizes: [2e8, 2e8, 2e8],
    warns: [/memory_efficient_linear: at the wrong level/, /without effect/],
  },
];
