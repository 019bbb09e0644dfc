/** The picture of a plan as data: what each stage holds of each kind on one rank, beside what the card has. */
import type { Stage } from "../config/types.ts";
import { isSame, type Placement } from "../plan/placement.ts";
import { type Split, stageRows } from "../plan/residence.ts";
import type { DeviceBytes, Estimate } from "../planner/estimate.ts";
import { allowedBytes, mostShare, type RankRoom, type Shortage, shortagesOf } from "../planner/fit.ts";
import { commInPsi, stateKinds } from "../planner/footprint.ts";
import { formatBytes, formatCount, formatMany } from "./numbers.ts";

/** From the bottom of a bar to its top. */
export const pictureKinds = [...stateKinds, "activations", "buffers"] as const;
export type PictureKind = (typeof pictureKinds)[number];

export interface KindBytes {
  /** On the device of one rank. */
  readonly bytes: number;
  /** Activations and buffers are each rank's own, and whole. */
  readonly split: Split;
}

export interface StagePicture extends Placement {
  readonly kinds: Readonly<Record<PictureKind, KindBytes>>;
  readonly totalBytes: number;
  readonly hostBytes: number;
  readonly diskBytes: number;
  /** What there is too little of; empty where it fits. */
  readonly short: readonly Shortage[];
  readonly commElements: number;
  readonly commInPsi: 2 | 3;
  readonly isRecommended: boolean;
}

export interface FootprintPicture {
  readonly title: string;
  /** Model, ranks and card. */
  readonly subtitle: string;
  readonly parameters: number;
  readonly ranks: number;
  readonly card: string;
  readonly usableBytes: number;
  /** Of these a job may take so many, by the rule of fit. */
  readonly allowedBytes: number;
  readonly stages: readonly StagePicture[];
}

export interface PictureQuestion {
  /** One bar each, in this order; usually stages 0 to 3. */
  readonly estimates: readonly Estimate[];
  /** What the model is called. */
  readonly model: string;
  readonly parameters: number;
  readonly ranks: number;
  readonly card: string;
  readonly room: RankRoom;
  /** Undefined: nothing fits. */
  readonly recommended: Placement | undefined;
}

export function pictureOf(question: PictureQuestion): FootprintPicture {
  const { estimates, model, parameters, ranks, card, room, recommended } = question;
  const stages = estimates.map((estimate) => stagePicture(estimate, room, recommended));
  const first = estimates[0]?.stage;
  const last = estimates.at(-1)?.stage;
  return {
    title: `Memory of each rank at ZeRO ${first === last ? `stage ${first}` : `stages ${first} to ${last}`}`,
    subtitle: [
      model,
      `Ψ = ${formatCount(parameters)} parameters`,
      formatMany(ranks, "rank"),
      `${card}, ${formatBytes(room.deviceBytes)} usable`,
    ].join(" · "),
    parameters,
    ranks,
    card,
    usableBytes: room.deviceBytes,
    allowedBytes: allowedBytes(room.deviceBytes),
    stages,
  };
}

const deviceBytesOf: Readonly<Record<PictureKind, keyof DeviceBytes>> = {
  parameters: "parametersBytes",
  gradients: "gradientsBytes",
  optimizer: "optimizerBytes",
  activations: "activationsBytes",
  buffers: "buffersBytes",
};

function stagePicture(estimate: Estimate, room: RankRoom, recommended: Placement | undefined): StagePicture {
  const { stage, offloadOptimizer, offloadParam, device, hostBytes, diskBytes, commElements } = estimate;
  const row: Readonly<Partial<Record<PictureKind, Split>>> = stageRows[stage];
  const kind = (name: PictureKind): KindBytes => ({ bytes: device[deviceBytesOf[name]], split: row[name] ?? "whole" });
  return {
    stage,
    offloadOptimizer,
    offloadParam,
    kinds: {
      parameters: kind("parameters"),
      gradients: kind("gradients"),
      optimizer: kind("optimizer"),
      activations: kind("activations"),
      buffers: kind("buffers"),
    },
    totalBytes: device.totalBytes,
    hostBytes,
    diskBytes,
    short: shortagesOf(estimate, room),
    commElements,
    commInPsi: commInPsi(stage),
    isRecommended: recommended !== undefined && isSame(estimate, recommended),
  };
}

/** "nothing is divided", "optimizer, gradients ÷ 4": which model states each rank holds a part of. */
export function dividedText({ stage }: { readonly stage: Stage }, ranks: number): string {
  const row = stageRows[stage];
  const divided = [...stateKinds].reverse().filter((kind) => row[kind] === "shard");
  if (divided.length === 0) return "every rank holds all";
  const what = divided.length === stateKinds.length ? "all model states" : divided.join(", ");
  return `${what} ÷ ${formatCount(ranks)}`;
}

/** "fits", "does not fit the device and the host". */
export const fitText = ({ short }: Pick<StagePicture, "short">): string =>
  short.length === 0 ? "fits" : `does not fit ${short.map((tier) => `the ${tier}`).join(" and ")}`;

/** What the collectives of a step carry, Ψ by Ψ. */
export const commNames: Readonly<Record<2 | 3, string>> = {
  2: "reduce-scatter, all-gather",
  3: "reduce-scatter, 2 all-gathers",
};

/** Which part of the rule of fit decides: the share, or the reserve of a small card. */
export const ruleName = ({ usableBytes, allowedBytes: allowed }: FootprintPicture): string =>
  allowed === mostShare * usableBytes ? `${100 * mostShare} % rule` : "with 2 GB free";

/** All that the picture shows, for those who do not see it. */
export function describePicture(picture: FootprintPicture): string {
  const { usableBytes, allowedBytes: allowed, stages } = picture;
  const sentences = stages.map((stage) => {
    const kinds = pictureKinds
      .filter((kind) => stage.kinds[kind].bytes > 0)
      .map((kind) => {
        const { bytes, split } = stage.kinds[kind];
        return `${kind} ${formatBytes(bytes)}${split === "shard" ? ` (1/${formatCount(picture.ranks)} of them)` : ""}`;
      });
    return (
      `Stage ${stage.stage}: ${formatBytes(stage.totalBytes)} on the device, ${kinds.join(", ")}; ${fitText(stage)}` +
      `${stage.isRecommended ? ", recommended" : ""}; each rank sends ${stage.commInPsi}Ψ, ` +
      `${formatCount(stage.commElements)} elements a step.`
    );
  });
  const line = `Of ${formatBytes(usableBytes)} usable memory a job may take ${formatBytes(allowed)}.`;
  return [...sentences, line].join(" ");
}
