/** What a traceback says of the bytes that were asked for: the innermost frame that names a purpose decides. */
import type { Frame } from "./oom-log.ts";

export type CauseKind =
  | "optimizer states"
  | "bucket"
  | "gathered parameters"
  | "logits"
  | "attention"
  | "activations"
  | "embedding"
  | "gradients"
  | "loading"
  | "pinned memory";

export interface Cause {
  readonly kind: CauseKind;
  /** Ends "these bytes are probably ...". */
  readonly words: string;
  readonly frame: Frame;
}

interface Rule {
  readonly kind: CauseKind;
  readonly pattern: RegExp;
  readonly words: string;
}

const rules: readonly Rule[] = [
  {
    kind: "optimizer states",
    pattern: /initialize_optimizer_states/,
    words: "optimizer states, which DeepSpeed makes at the start by an empty step",
  },
  {
    kind: "optimizer states",
    pattern: /create_fp32_partitions|single_partition_of_fp32|fp32_partitioned_groups|fp32_groups_flat/,
    words: "the fp32 master copy of a rank's part of the parameters",
  },
  {
    kind: "optimizer states",
    pattern: /(?:fused_|cpu_)?adam\w*\.py|optim\/\w+\.py|\bexp_avg|_init_group|optimizer\.step\(/i,
    words: "optimizer states: PyTorch makes an optimizer's moments in its first step",
  },
  {
    kind: "bucket",
    pattern:
      /ipg|reduce_bucket|average_tensor|allreduce_bucket|setup_buckets|reduce_scatter_coalesced|allreduce_and_copy|flatten_dense_tensors|reduce_independent/,
    words: "a bucket of gradients on their way between ranks (reduce_bucket_size, twice with overlap_comm)",
  },
  {
    kind: "gathered parameters",
    pattern:
      /fetch_sub_module|all_gather_params|_all_gather|all_gather_coalesced|partitioned_param_coordinator|GatheredParameters|_allgather_param/,
    words: "parameters that stage 3 gathers before their use",
  },
  {
    kind: "logits",
    pattern: /cross_entropy|log_softmax|logits|loss_fct|loss_function|lm_head/,
    words: "logits, or a copy of them for the loss: micro-batch x tokens x vocabulary, often in fp32",
  },
  {
    kind: "attention",
    pattern: /scaled_dot_product|attn_weights|attention_scores|\w*attention\w*|self_attn|\battn\b/i,
    words: "attention: without flash attention its scores are micro-batch x heads x tokens x tokens",
  },
  {
    kind: "activations",
    pattern:
      /\bmlp\b|MLP|feed_forward|c_fc|gelu|silu|swiglu|act_fn|up_proj|down_proj|gate_proj|layer_?norm|rms_?norm|dropout/i,
    words: "activations of a layer, kept for the backward pass",
  },
  { kind: "embedding", pattern: /embedding|\bwte\b|embed_tokens/i, words: "the embedding or its output" },
  {
    kind: "loading",
    pattern: /zero\.Init|from_pretrained|load_state_dict|\.cuda\(|\.to\(|\.half\(|\.bfloat16\(|_apply\(/,
    words: "the model as it is loaded: each rank puts all of it on its card before anything is shared",
  },
  {
    kind: "gradients",
    pattern: /run_backward|\.backward\(/,
    words: "gradients, or what a layer recomputes in the backward pass",
  },
  {
    kind: "loading",
    pattern: /deepspeed\.initialize|_configure_zero_optimizer|_configure_distributed_model/,
    words: "the model and its states as DeepSpeed sets them up",
  },
  {
    kind: "activations",
    pattern: /\bforward\b.*(?:modeling_|model)|training_step|compute_loss/,
    words: "activations, kept for the backward pass",
  },
];

export function causeOf(frames: readonly Frame[]): Cause | undefined {
  for (const frame of [...frames].reverse()) {
    if (/pin_memory/.test(`${frame.name} ${frame.code}`))
      return { kind: "pinned memory", words: "page-locked host memory for offloaded states", frame };
    const text = `${frame.file} ${frame.name} ${frame.code}`;
    const rule = rules.find(({ pattern }) => pattern.test(text));
    if (rule !== undefined) return { kind: rule.kind, words: rule.words, frame };
  }
  return undefined;
}
