/** What runs beside what: which transfers a step waits for, and which are hidden behind computation. */
import { bytesIn } from "../planner/buckets.ts";
import type { Subject } from "../planner/explained.ts";
import { placeText } from "./explain-text.ts";
import { formatBytes, formatCount } from "./numbers.ts";

/** Sentences, in the order of a step. */
export function hiddenNotes(subject: Subject): string[] {
  return [
    ...overlapNotes(subject),
    ...publishNotes(subject),
    ...offloadNotes(subject),
    ...diskNotes(subject),
    ...checkpointingNotes(subject),
  ];
}

const overlapPath = "zero_optimization.overlap_comm";

function overlapNotes(subject: Subject): string[] {
  const { config, plan } = subject;
  const isWritten = placeText(config, overlapPath) !== "";
  const origin = isWritten
    ? `is ${config.overlapComm}${placeText(config, overlapPath)}; DeepSpeed's default is true at stage 3 and false below`
    : config.overlapComm
      ? "is left out: DeepSpeed's default at stage 3 is true"
      : `is left out: it is off by default at stage ${config.stage} (at stage 2 and below), and on at stage 3`;
  if (config.worldSize === 1)
    return [`overlap_comm ${origin}. One rank sends nothing to others, so it and the buckets cost no time here.`];
  const bucket = config.sizes.reduceBucketSize ?? 5e8;
  const doubled = formatBytes(bytesIn(bucket, plan.residences.parameters.dtype));
  return [
    `overlap_comm ${origin}.`,
    config.stage === 0
      ? config.overlapComm
        ? "So in Shunya gradients are reduced beside the backward pass of the layers before."
        : "So in Shunya the backward pass stops at every full bucket until the ranks have added it up."
      : config.overlapComm
        ? "So gradients are reduced beside the backward pass of the layers before: hidden, as long as the links keep up."
        : "So the backward pass stops at every full bucket until the ranks have added it up: nothing of the reduction is hidden.",
    config.stage === 0
      ? "DeepSpeed has the key from stage 1 on; at stage 0 it adds the gradients up after the backward pass."
      : config.overlapComm
        ? `It takes a second bucket: one fills while the other travels (in DeepSpeed ${doubled} more; in Shunya as much as travels).`
        : `Written true it hides that, for a second bucket: ${doubled} more in DeepSpeed, in Shunya as much as travels.`,
  ];
}

function publishNotes({ config, plan }: Subject): string[] {
  const { optimizer, parameters } = plan.residences;
  if (config.worldSize === 1) return [];
  if (parameters.split === "shard")
    return [
      "A layer's parameters are gathered just before their use, in forward and again in backward, beside the computation of the layers before it (the prefetch bucket says how far ahead); in the first step the order is not known yet, and nothing is gathered ahead.",
    ];
  if (optimizer.split === "whole") return [];
  return [
    "After the step updated parameters are gathered. In DeepSpeed everything waits for that; in Shunya the next forward pass waits at each layer for that layer's own.",
  ];
}

function offloadNotes({ config, plan }: Subject): string[] {
  const { offloadOptimizer, offloadParam, gradientClipping, lossScale, delayedUpdateFrom, offloadRatio } = config;
  const notes: string[] = [];
  if (offloadOptimizer !== "none") {
    const isShard = plan.residences.gradients.split === "shard";
    const why = [
      ...(gradientClipping > 0 ? [`clipping at ${gradientClipping}`] : []),
      ...(lossScale === undefined ? [] : ["the overflow check of fp16"]),
    ];
    notes.push(
      `Gradients go down to the host ${isShard ? "during the backward pass, each layer's part as soon as it is reduced" : "as they are reduced, in the backward pass of the last micro-batch"}.`,
      `No update starts before the norm of all gradients is known${why.length === 0 ? "" : `: ${why.join(" and ")} ${why.length === 1 ? "needs" : "need"} the last one`}.`,
      delayedUpdateFrom === undefined
        ? "Then the host updates layer by layer and fresh parameters go up. In Shunya the next forward pass waits at each layer for that layer alone, so most of update and upload is hidden behind it; in DeepSpeed the update is not hidden: the next step waits for all of it."
        : `From step ${formatCount(delayedUpdateFrom)} on the update is delayed: the host applies a step's gradients while the next step computes, and parameters are one step late. DeepSpeed has no such key and ignores it.`,
    );
    if (offloadRatio < 1)
      notes.push(
        `ratio ${offloadRatio}: the first ${100 - Math.round(100 * offloadRatio)} % of the sub-groups keep their states on the device and are updated there; the others on the host.`,
      );
  }
  if (offloadParam !== "none")
    notes.push(
      `Parameters come up from ${offloadParam === "cpu" ? "the host" : "disk, by way of the host,"} before each gather, in forward and in backward, ahead of their use as far as the prefetch bucket reaches. With small micro-batches this is what a pass waits for.`,
    );
  return notes;
}

function diskNotes({ config }: Subject): string[] {
  const { disk, offloadOptimizer } = config;
  if (offloadOptimizer !== "nvme") return [];
  const yes = (is: boolean): string => (is ? "on" : "off");
  return [
    `Optimizer states are read from disk and written back in the step, a sub-group at a time, ${disk.stateBuffers} in memory at once. With pipeline_read (${yes(disk.pipelineRead)} here) the next are read during an update, with pipeline_write (${yes(disk.pipelineWrite)} here) the last are written during the next; left out, both are on in Shunya and off in DeepSpeed.`,
  ];
}

function checkpointingNotes({ config }: Subject): string[] {
  return config.activationCheckpointing
    ? [
        "Activation checkpointing (shunya.activation_checkpointing): a layer's forward pass runs again in backward, for a third more computation.",
      ]
    : [
        "Activations are all kept from forward to backward: no key of DeepSpeed's file turns activation checkpointing on, the model's code does; in Shunya it is shunya.activation_checkpointing.",
      ];
}
