/** Bars of a footprint, to scale, and each kind named and measured beside them. */
import { type PictureKind, pictureKinds, type StagePicture } from "./footprint.ts";
import type { Plot } from "./footprint-layout.ts";
import { spread } from "./footprint-scale.ts";
import { formatBytes } from "./numbers.ts";
import { element, leader, line, text } from "./svg.ts";

/** Kinds differ in the direction of their hatching too. */
const hatchAngles: Readonly<Record<PictureKind, number>> = {
  parameters: 45,
  gradients: 135,
  optimizer: 90,
  activations: 20,
  buffers: 160,
};

/** What a part of a whole is filled with. */
export const hatch = (kind: PictureKind): string =>
  element(
    "pattern",
    {
      id: `shunya-hatch-${kind}`,
      width: 7,
      height: 7,
      patternUnits: "userSpaceOnUse",
      patternTransform: `rotate(${hatchAngles[kind]})`,
    },
    element("rect", { width: 7, height: 7, class: "paper" }),
    element("rect", { width: 7, height: 7, class: `${kind}-tint` }),
    line(0, 0, 0, 7, `hatch ${kind}-hatch`),
  );

interface Segment {
  readonly kind: PictureKind;
  readonly bytes: number;
  readonly isShard: boolean;
  /** Of its upper edge. */
  readonly y: number;
  readonly height: number;
}

function segmentsOf(plot: Plot, stage: StagePicture): Segment[] {
  let below = 0;
  const segments: Segment[] = [];
  for (const kind of pictureKinds) {
    const { bytes, split } = stage.kinds[kind];
    if (bytes <= 0) continue;
    const lower = plot.y(below);
    below += bytes;
    const upper = plot.y(below);
    segments.push({ kind, bytes, isShard: split === "shard", y: upper, height: lower - upper });
  }
  return segments;
}

export function bar(plot: Plot, stage: StagePicture, index: number): string {
  const x = plot.barX(index);
  const rects = segmentsOf(plot, stage).map(({ kind, bytes, isShard, y, height }) =>
    element("rect", {
      x,
      y,
      width: plot.barWidth,
      height,
      class: `bar ${kind}-${isShard ? "shard" : "whole"}`,
      fill: isShard ? `url(#shunya-hatch-${kind})` : undefined,
      "data-kind": kind,
      "data-bytes": Math.round(bytes),
    }),
  );
  return element("g", { "data-stage": stage.stage }, ...rects);
}

/** Of a label's character, on average, with something to spare. */
const labelWidth = 6;

export function barLabels(plot: Plot, stage: StagePicture, index: number): string {
  const x = plot.barX(index);
  const { barWidth, bottom, top, y } = plot;
  const total = text(
    formatBytes(stage.totalBytes),
    { x: x + barWidth / 2, y: y(stage.totalBytes) - 6, anchor: "middle" },
    "total ink halo",
  );
  if (!plot.isWide) return total;
  const segments = segmentsOf(plot, stage);
  const centres = segments.map((segment) => segment.y + segment.height / 2);
  const places = spread(centres, 15, { low: top + 8, high: bottom - 12 });
  const labels = segments.map(({ kind, bytes }, i) => {
    const [from, to] = [centres[i]!, places[i]!];
    const name = `${kind} ${formatBytes(bytes)}`;
    const at = x + barWidth + 17;
    // What lies behind words makes them hard to read: here that may be any line.
    const paper = element("rect", {
      x: at - 2,
      y: to - 6.5,
      width: name.length * labelWidth,
      height: 13,
      class: "paper",
    });
    return leader(x + barWidth + 1, from, to, 13) + paper + text(name, { x: at, y: to + 4 }, "small ink");
  });
  return total + labels.join("");
}
