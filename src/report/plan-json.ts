/** The answer of `shunya plan` as data. Bytes are of one rank, elements those that it sends in a step. */
import type { PlanAnswer, PlanRow } from "../planner/answer.ts";
import { modelStatesBytes } from "../planner/estimate.ts";
import { deviceAllowance } from "../planner/fit.ts";
import { recommendationReason } from "./plan-report.ts";

export function planJson(answer: PlanAnswer, model: { name: string; parameters: number }): Record<string, unknown> {
  const { asked } = answer.subject;
  const { recommended, room } = answer;
  return {
    model,
    ranks: asked.ranks,
    seqLength: asked.seqLength,
    checkpointing: asked.checkpointing,
    usableBytes: room.deviceBytes,
    allowedBytes: deviceAllowance(room),
    stages: answer.stages.map(rowJson),
    splits: answer.splits.map(rowJson),
    tried: answer.tried.map(({ placement, estimate, fits }) => ({
      ...placement,
      totalBytes: estimate.device.totalBytes,
      hostBytes: estimate.hostBytes,
      diskBytes: estimate.diskBytes,
      fits,
    })),
    recommendation: recommended
      ? {
          ...recommended.placement,
          ...recommended.batch,
          trainBatch: recommended.batch.microBatch * recommended.batch.gradientAccumulation * asked.ranks,
          why: recommendationReason(answer, recommended),
          ...numbersOf(recommended),
        }
      : null,
    remedies: answer.remedies.map(({ change, variant, placement }) => ({ change, ...variant, ...placement })),
  };
}

function rowJson(row: PlanRow): object {
  return { ...row.placement, ...row.batch, ...numbersOf(row) };
}

function numbersOf({ estimate, short, headroomBytes, time }: PlanRow): object {
  const { device, hostBytes, diskBytes, commElements } = estimate;
  return {
    modelStatesBytes: modelStatesBytes(device),
    ...device,
    hostBytes,
    diskBytes,
    headroomBytes,
    fits: short.length === 0,
    short,
    commElements,
    stepSeconds: time?.seconds ?? null,
    boundBy: time?.boundBy ?? null,
    tokensPerSecond: time?.tokensPerSecond ?? null,
    transfers: time?.transfers ?? null,
  };
}
