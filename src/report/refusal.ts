/** The answer to a job that does not fit: where the bytes would go, and what would fit. */
import { type MemoryKind, memoryKinds } from "../device/ledger.ts";
import { formatBytes, formatShare } from "./numbers.ts";
import { renderTable } from "./table.ts";

export interface StagePeak {
  readonly stage: number;
  /** Most device bytes of any rank at any moment. */
  readonly peakBytes: number;
}

export interface Refusal {
  readonly stage: number;
  readonly budgetBytes: number;
  /** Device bytes by kind at the fullest moment of the fullest rank: they add up to the peak. */
  readonly atPeak: Readonly<Record<MemoryKind, number>>;
  /** The same job at every stage, this one included, lowest stage first. */
  readonly stages: readonly StagePeak[];
}

/** The lowest stage whose peak the budget holds; undefined if none does. */
export function stageThatFits(stages: readonly StagePeak[], budgetBytes: number): StagePeak | undefined {
  return stages.find((s) => s.peakBytes <= budgetBytes);
}

export function renderRefusal(refusal: Refusal): string {
  const { stage, budgetBytes, atPeak, stages } = refusal;
  const peakBytes = memoryKinds.reduce((sum, kind) => sum + atPeak[kind], 0);
  const kinds = memoryKinds.filter((kind) => atPeak[kind] > 0).sort((a, b) => atPeak[b] - atPeak[a]);
  const where = renderTable({
    columns: [
      { header: "kind", align: "left" },
      { header: "at the peak", align: "right" },
      { header: "share", align: "right" },
    ],
    rows: [
      ...kinds.map((kind) => [kind, formatBytes(atPeak[kind]), formatShare(atPeak[kind], peakBytes)]),
      ["total", formatBytes(peakBytes), ""],
      ["budget", formatBytes(budgetBytes), formatShare(budgetBytes, peakBytes)],
    ],
  });
  const perStage = renderTable({
    columns: [
      { header: "stage", align: "left" },
      { header: "peak", align: "right" },
      { header: "fits", align: "left" },
    ],
    rows: stages.map((s) => [String(s.stage), formatBytes(s.peakBytes), s.peakBytes <= budgetBytes ? "yes" : "no"]),
  });
  return [
    `ZeRO stage ${stage} needs ${formatBytes(peakBytes)} of device memory on a rank, and the budget is ` +
      `${formatBytes(budgetBytes)}. Nothing was allocated.`,
    where,
    perStage,
    advice(stages, budgetBytes),
  ].join("\n\n");
}

function advice(stages: readonly StagePeak[], budgetBytes: number): string {
  const fits = stageThatFits(stages, budgetBytes);
  if (fits) return `Stage ${fits.stage} fits: set "zero_optimization.stage" to ${fits.stage} (--stage ${fits.stage}).`;
  const least = Math.min(...stages.map((s) => s.peakBytes));
  return (
    `No stage fits; the least is ${formatBytes(least)}. Use a smaller micro-batch or sequence length, activation ` +
    "checkpointing, more ranks, or a larger budget (--device-memory)."
  );
}
