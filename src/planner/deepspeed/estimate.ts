/** The estimate: every moment of a job in which memory could be fullest, and the fullest of them. */
import { keptActivations, logits, workingSet } from "./activations.ts";
import { passBuffers, restingBuffers, updateBuffers } from "./buffers.ts";
import { diskBytes, hostBytes } from "./host.ts";
import type {
  DeepSpeedEstimate,
  DeepSpeedKind,
  DeepSpeedMoment,
  DeepSpeedPart,
  DeepSpeedQuestion,
} from "./question.ts";
import {
  checkPlacement,
  countText,
  elementBytes,
  gradientStates,
  optimizerStates,
  parameterStates,
  splitsOf,
} from "./states.ts";
import { commElements } from "./traffic.ts";

/**
 * Reserved over allocated at the peak: blocks that PyTorch's allocator keeps and cannot use for the next request. Measured pairs: without
 * sharded parameters 1.01 to 1.02 (six runs of OpenTau PR 273) and 1.09 (DeepSpeed issue 3734); with sharded parameters, whose gathers
 * come in many sizes, 1.07 and 1.12 (llama-cookbook issue 120) and 1.23 (issue 3734). About the middle of each.
 */
const reservedShare = { whole: 1.05, shard: 1.15 } as const;

/** CUDA's context with its loaded kernels: 1271 MiB on a V100 (BigScience's chronicle of its 104B model). */
const cudaContextBytes = 1271 * 2 ** 20;
/** Buffers of NCCL's channels: what the model and the context leave of nvidia-smi's figure after loading in DeepSpeed issue 4527. */
const ncclBytes = 0.4e9;

type Moments = Readonly<Partial<Record<DeepSpeedMoment, readonly DeepSpeedPart[]>>>;

/** Errors: UsageError where DeepSpeed has no such placement. How near it comes to measured jobs: docs/deepspeed-estimates.md. */
export function estimateDeepSpeed(question: DeepSpeedQuestion): DeepSpeedEstimate {
  checkPlacement(question.placement);
  const moments = Object.entries(momentsOf(question)) as [DeepSpeedMoment, readonly DeepSpeedPart[]][];
  const [fullestMoment, parts] = moments.reduce((fullest, moment) =>
    sum(moment[1]) > sum(fullest[1]) ? moment : fullest,
  );
  const peakBytes = sum(parts);
  const of = (kind: DeepSpeedKind): number => sum(parts.filter((part) => part.kind === kind));
  const { stage, offloadOptimizer, offloadParam } = question.placement;
  return {
    stage,
    offloadOptimizer,
    offloadParam,
    microBatch: question.microBatch,
    device: {
      parametersBytes: of("parameters"),
      gradientsBytes: of("gradients"),
      optimizerBytes: of("optimizer"),
      activationsBytes: of("activations"),
      buffersBytes: of("buffers"),
      totalBytes: peakBytes,
    },
    hostBytes: hostBytes(question),
    diskBytes: diskBytes(question),
    commElements: commElements(question),
    allocatedBytes: sum(atRest(question)),
    peakBytes,
    reservedBytes: reservedBytes(question, moments),
    contextBytes: cudaContextBytes + (question.ranks > 1 ? ncclBytes : 0),
    fullestMoment,
    moments: Object.fromEntries(moments.map(([moment, list]) => [moment, sum(list)])),
    parts: parts.filter(({ bytes }) => bytes > 0),
  };
}

const sum = (parts: readonly DeepSpeedPart[]): number => parts.reduce((bytes, part) => bytes + part.bytes, 0);

const withoutGradients = (question: DeepSpeedQuestion): DeepSpeedPart[] => [
  parameterStates(question),
  optimizerStates(question),
  ...restingBuffers(question),
];

const atRest = (question: DeepSpeedQuestion): DeepSpeedPart[] => [
  ...withoutGradients(question),
  gradientStates(question),
];

function momentsOf(question: DeepSpeedQuestion): Moments {
  const resting = atRest(question);
  const buffers = passBuffers(question);
  const kept = keptActivations(question);
  // Whole gradients of the first micro-batch come one by one, as the activations that they are made from go; a shard's buffer is
  // allocated with its first gradient, beside all activations.
  const comesSlowly = splitsOf(question).gradients === "whole" && question.gradientAccumulation === 1;
  const before = comesSlowly ? withoutGradients(question) : resting;
  return {
    ...startMoment(question),
    loss: [...before, ...buffers, kept, logits(question)],
    backward: [...resting, ...buffers, ...(comesSlowly ? [] : [kept]), workingSet(question)],
    update: [...resting, ...updateBuffers(question)],
  };
}

/** Without zero.Init, stage 3 moves the whole model to the card before it cuts it up. */
function startMoment(question: DeepSpeedQuestion): Moments {
  if (question.zeroInit || splitsOf(question).parameters === "whole") return {};
  const bytes = elementBytes(question);
  return {
    start: [
      {
        kind: "parameters",
        name: "the whole model while it is cut up",
        bytes: bytes * question.shape.parameters,
        why: `${bytes} bytes x ${countText(question.shape.parameters)} parameters`,
      },
    ],
  };
}

/** Loading leaves no gaps: what is allocated then is what is reserved. */
function reservedBytes(
  question: DeepSpeedQuestion,
  moments: readonly [DeepSpeedMoment, readonly DeepSpeedPart[]][],
): number {
  const share = reservedShare[splitsOf(question).parameters];
  return Math.max(...moments.map(([moment, parts]) => (moment === "start" ? 1 : share) * sum(parts)));
}
