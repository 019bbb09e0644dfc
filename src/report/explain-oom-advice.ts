/** What to change after an out-of-memory message, the smallest change first, with what each saves. */
import type { OffloadDevice, Stage } from "../config/types.ts";
import type { KnownJob } from "../planner/oom-candidates.ts";
import type { CauseKind } from "../planner/oom-cause.ts";
import type { OomFinding } from "../planner/oom-log.ts";
import type { SmallestChange } from "../planner/smallest-change.ts";
import { formatBytes, formatCount } from "./numbers.ts";

/** A job as far as flags and a file describe it. */
export interface OomJob extends KnownJob {
  /** Undefined: no file was given. */
  readonly stage: Stage | undefined;
  readonly offloadOptimizer: OffloadDevice;
  readonly offloadParam: OffloadDevice;
  readonly gradientAccumulation: number;
  readonly checkpointing: boolean;
  /** Model states that rest on a device by the plan; undefined where the file or the model is not known. */
  readonly deviceStateBytes: number | undefined;
  readonly hostStateBytes: number | undefined;
}

export function adviceOf(
  finding: OomFinding,
  job: OomJob,
  kind: CauseKind | undefined,
  change: SmallestChange | undefined,
): string[] {
  switch (finding.place) {
    case "device":
      return [
        ...fragmentation(finding),
        ...(change === undefined ? [] : [changeWords(change, job)]),
        ...(change === undefined || isAsked(change, job) ? deviceAdvice(job, kind) : []),
      ];
    case "host":
    case "killed":
      return hostAdvice(job);
    case "pinned":
      return [
        'Write "pin_memory": false in offload_optimizer and offload_param: copies are slower, and any host memory will do.',
        "Or raise the limit: ulimit -l unlimited (in a container --ulimit memlock=-1).",
        ...hostAdvice(job),
      ];
    case "disk":
      return diskAdvice(job);
    case "shared memory":
      return [
        "Give the container more: docker run --shm-size=16g (or --ipc=host).",
        "Or fewer worker processes of the data loader.",
      ];
    case "shunya":
      return [
        finding.refusal?.advice ??
          "The end of the message names what fits, or that nothing does: then a smaller micro-batch, shunya.activation_checkpointing, more ranks, or larger budgets (--device-memory, --host-memory).",
      ];
    default:
      return finding.place satisfies never;
  }
}

/** From so much of the device on, pieces between tensors matter. */
const muchUnallocated = 0.1;

function fragmentation({ tried, unallocated, free, capacity }: OomFinding): string[] {
  if (unallocated === undefined) return [];
  const isMuch = capacity !== undefined && unallocated.bytes > muchUnallocated * capacity.bytes;
  const wouldDo = tried !== undefined && unallocated.bytes + (free?.bytes ?? 0) >= tried.bytes;
  if (!isMuch && !(wouldDo && unallocated.bytes > tried.bytes / 2)) return [];
  return [
    `Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_HIP_ALLOC_CONF for HIP). PyTorch held ${unallocated.text} that no tensor used${wouldDo ? ", enough for what was asked but in pieces" : ""}: the memory is fragmented, and this costs nothing to try.`,
  ];
}

/** Kinds of bytes that do not depend on the batch. */
const ofTheModel: readonly CauseKind[] = ["optimizer states", "loading", "bucket", "gathered parameters"];

function deviceAdvice(job: OomJob, kind: CauseKind | undefined): string[] {
  const batch = kind !== undefined && ofTheModel.includes(kind) ? [] : [...batchAdvice(job), checkpointingWords];
  return [...kindAdvice(job, kind), ...batch, ...stageAdvice(job), ...offloadAdvice(job)];
}

const checkpointingWords =
  "Checkpoint activations (gradient_checkpointing of the model; the section activation_checkpointing does nothing by itself): of each layer only its input is kept, micro-batch x tokens x width, and a third more is computed.";

function batchAdvice({ microBatch, gradientAccumulation }: OomJob): string[] {
  if (microBatch === 1) return [];
  const [m, g] = [
    microBatch ?? "m",
    microBatch === undefined ? "m times as many" : formatCount(microBatch * gradientAccumulation),
  ];
  return [
    `Micro-batch 1 with more accumulation: "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": ${g}. A step trains the same samples; activations and logits shrink to 1/${m}.`,
  ];
}

function kindAdvice(
  { reduceElements, elementBytes, overlapComm, seqLength, shape }: OomJob,
  kind: CauseKind | undefined,
): string[] {
  const buckets = overlapComm ? 2 : 1;
  const smaller = 5e7;
  switch (kind) {
    case "bucket":
      return reduceElements <= smaller
        ? []
        : [
            `"reduce_bucket_size": ${formatCount(smaller).replaceAll(",", "")}: ${formatBytes(buckets * reduceElements * elementBytes)} become ${formatBytes(buckets * smaller * elementBytes)}. It costs a few more messages.`,
            ...(overlapComm
              ? ['"overlap_comm": false: one bucket in place of two, and reductions that are not hidden.']
              : []),
          ];
    case "gathered parameters":
      return [
        '"stage3_max_live_parameters" and "stage3_prefetch_bucket_size" lower (1e8 and 1e7), "stage3_max_reuse_distance": 0: fewer parameters are whole at once, and some are gathered again.',
      ];
    case "logits":
      return [
        "Make the loss in chunks (a fused linear cross entropy, as Liger's): the logits of a micro-batch, tokens x vocabulary x 4 bytes and their gradient, never exist at once.",
      ];
    case "attention":
      return [
        `Flash attention (attn_implementation "flash_attention_2" or "sdpa"): scores of heads x tokens x tokens never exist${shape === undefined || seqLength === undefined ? "" : ` (${formatBytes(shape.heads * seqLength * seqLength * elementBytes)} a sample and layer)`}, and results are the same.`,
      ];
    case "loading":
      return [
        "Load under deepspeed.zero.Init (Hugging Face: make the DeepSpeed configuration before from_pretrained) at stage 3, and leave out .cuda() or .to(device) before deepspeed.initialize: no rank then holds the whole model in fp32.",
      ];
    default:
      return [];
  }
}

/** "12 psi/N bytes (4.67 GB)", of a rank. */
function part(bytesEach: number, { parameters, ranks }: OomJob): string {
  const value =
    parameters === undefined || ranks === undefined ? "" : ` (${formatBytes((bytesEach * parameters) / ranks)})`;
  return `${bytesEach} psi/N bytes${value}`;
}

/** The same of what other ranks have then. */
function others(bytesEach: number, { parameters, ranks }: OomJob): string {
  const value =
    parameters === undefined || ranks === undefined
      ? ""
      : ` (${formatBytes(bytesEach * parameters * (1 - 1 / ranks))})`;
  return `${bytesEach} psi (N-1)/N bytes${value}`;
}

function stageAdvice(job: OomJob): string[] {
  const { stage, ranks, offloadOptimizer } = job;
  if (ranks === 1) return ["More ranks, which would share the states: on one rank a higher stage saves nothing."];
  const steps: readonly (readonly [to: Stage, what: string])[] = [
    [1, `stage 1 shares optimizer states, saves ${others(12, job)} and sends no more`],
    [2, `stage 2 shares gradients, saves ${others(2, job)} and sends no more without accumulation`],
    [3, `stage 3 shares parameters, saves ${others(2, job)} less what is gathered, and sends half as much again`],
  ];
  const next = steps.filter(([to]) => to > (stage ?? 0) && !(to === 1 && offloadOptimizer !== "none"));
  return next.length === 0 ? [] : [`The next stage: ${next.map(([, what]) => what).join("; ")}.`];
}

function offloadAdvice(job: OomJob): string[] {
  const { offloadOptimizer, offloadParam, stage } = job;
  const advice: string[] = [];
  if (offloadOptimizer === "none")
    advice.push(
      `"offload_optimizer": { "device": "cpu" } at stage 1 to 3: saves ${part(12, job)} of the device, takes 18 to 20 psi/N of host memory, and the update runs on the host's cores.`,
    );
  if (offloadParam === "none")
    advice.push(
      `"offload_param": { "device": "cpu" } at stage 3: saves ${part(2, job)} more, and parameters come up twice a micro-batch.`,
    );
  if (offloadOptimizer !== "nvme")
    advice.push(
      `"device": "nvme" in both, where host memory ends too${stage === 3 ? "" : " (in DeepSpeed at stage 3 only)"}: ${part(12, job)} are read and written in every step.`,
    );
  if (advice.length === 0)
    advice.push("Everything is offloaded already: more ranks, a shorter sequence, or a larger card.");
  return advice;
}

function hostAdvice(job: OomJob): string[] {
  const { parameters, ranks, hostStateBytes, offloadOptimizer, offloadParam, stage } = job;
  const isCounted = parameters !== undefined && ranks !== undefined;
  const loads = isCounted
    ? `Ranks of one machine that each load the whole model in fp32 take ${formatCount(ranks)} x ${formatBytes(4 * parameters)} = ${formatBytes(4 * parameters * ranks)}`
    : "Ranks of one machine that each load the whole model in fp32 take 4 psi bytes each";
  const states =
    isCounted && hostStateBytes !== undefined && hostStateBytes > 0
      ? `Offloaded states take at least ${formatBytes(hostStateBytes * ranks)} for ${formatCount(ranks)} ranks; DeepSpeed's fp32 gradients and pinned copies make that 18 to 22 psi bytes (up to ${formatBytes(22 * parameters)})`
      : "Offloaded states of all ranks take 18 to 20 psi bytes with the optimizer on the host, 18 to 22 with parameters too";
  const back =
    offloadParam !== "none"
      ? "Take offload_param back first (2 psi/N bytes of the device), then offload_optimizer."
      : offloadOptimizer !== "none"
        ? `Take offload_optimizer back if ${stage === 3 ? "the device has room" : "a higher stage fits without it"}.`
        : "More offload to the host is the wrong way.";
  return [
    `If it ended while loading: ${loads}; load under zero.Init (stage 3) or with low_cpu_mem_usage.`,
    "If it grew while training: fewer worker processes and less prefetching in the data loader.",
    `${states}. ${back}`,
    'More machines (each holds its own ranks\' part), or "device": "nvme" (stage 3).',
  ];
}

function diskAdvice({ parameters, offloadParam }: OomJob): string[] {
  const each = offloadParam === "nvme" ? 14 : 12;
  const needs =
    parameters === undefined
      ? `${each} psi bytes for all ranks of a machine together`
      : `${formatBytes(each * parameters)} for all ranks together (${each} psi)`;
  return [
    `Make room: swap files of fp32 states take ${needs} (DeepSpeed's gradients up to 4 psi more), and those of killed runs stay (for Shunya's: shunya doctor --remove-leftovers DIR).`,
    "Name a folder on a larger drive in nvme_path (in Shunya several: shunya.nvme_paths), and see that it is no tmpfs, which is memory.",
    '"device": "cpu" if host memory has room for the same bytes.',
  ];
}

const isAsked = ({ placement, microBatch, checkpointing }: SmallestChange, job: OomJob): boolean =>
  placement.stage === job.stage &&
  placement.offloadOptimizer === job.offloadOptimizer &&
  placement.offloadParam === job.offloadParam &&
  microBatch === job.microBatch &&
  checkpointing === job.checkpointing;

function changeWords(change: SmallestChange, job: OomJob): string {
  const { placement, microBatch, gradientAccumulation, checkpointing, estimate } = change;
  const parts: string[] = [];
  if (microBatch !== job.microBatch)
    parts.push(
      `"train_micro_batch_size_per_gpu": ${microBatch}, "gradient_accumulation_steps": ${gradientAccumulation} (the same samples a step)`,
    );
  if (checkpointing !== job.checkpointing) parts.push("activation checkpointing");
  if (placement.stage !== job.stage) parts.push(`"stage": ${placement.stage}`);
  if (placement.offloadOptimizer !== job.offloadOptimizer)
    parts.push(`"offload_optimizer": { "device": "${placement.offloadOptimizer}" }`);
  if (placement.offloadParam !== job.offloadParam)
    parts.push(`"offload_param": { "device": "${placement.offloadParam}" }`);
  const host = estimate.hostBytes > 0 ? ` and ${formatBytes(estimate.hostBytes)} of host memory` : "";
  return isAsked(change, job)
    ? `By the estimate of DeepSpeed on PyTorch the job fits as it is (${formatBytes(estimate.device.totalBytes)} of the device): look for other processes on it, and for sequences longer than was said.`
    : `This fits, by the estimate of DeepSpeed on PyTorch (${formatBytes(estimate.device.totalBytes)} of the device${host}): ${parts.join("; ")}.`;
}
