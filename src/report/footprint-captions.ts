/** What is said below the bars of a footprint: the verdict of each stage, what it sends, and how to read the picture. */
import {
  commNames,
  dividedText,
  type FootprintPicture,
  fitText,
  type PictureKind,
  pictureKinds,
  type StagePicture,
} from "./footprint.ts";
import type { Layout } from "./footprint-layout.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { element, line, text } from "./svg.ts";

/** @param isChosen pointed out with a bar below it */
export function caption(layout: Layout, stage: StagePicture, index: number, isChosen: boolean): string {
  const { isWide, columnX, columnWidth, bottom, captionHeight } = layout;
  const mark = {
    x: columnX(index) + 12,
    y: bottom + captionHeight - 7,
    width: columnWidth - 24,
    height: 3,
    class: "ink",
  };
  return (
    (isWide ? wideCaption(layout, stage, index, isChosen) : narrowCaption(layout, stage, index)) +
    (isChosen ? element("rect", { ...mark, "data-chosen": stage.stage }) : "")
  );
}

const verdictClass = ({ short }: StagePicture): string => (short.length === 0 ? "good" : "bad");

function narrowCaption({ columnX, columnWidth, bottom }: Layout, stage: StagePicture, index: number): string {
  const middle = { x: columnX(index) + columnWidth / 2, anchor: "middle" as const };
  const name = columnWidth < 70 ? String(stage.stage) : `Stage ${stage.stage}`;
  const fits = stage.isRecommended ? "✓ best" : "✓ fits";
  return (
    text(name, { ...middle, y: bottom + 18 }, "total ink") +
    text(stage.short.length === 0 ? fits : "✗ no", { ...middle, y: bottom + 34 }, `small strong ${verdictClass(stage)}`)
  );
}

function wideCaption(layout: Layout, stage: StagePicture, index: number, isChosen: boolean): string {
  const { columnX, columnWidth, bottom, top, picture } = layout;
  const x = layout.barX(index);
  const end = { x: columnX(index) + columnWidth - 12, anchor: "end" as const };
  const away = [
    stage.hostBytes > 0 ? `host ${formatBytes(stage.hostBytes)}` : "",
    stage.diskBytes > 0 ? `disk ${formatBytes(stage.diskBytes)}` : "",
  ].filter((part) => part !== "");
  const verdict = `${stage.short.length === 0 ? "✓" : "✗"} ${fitText(stage)}`;
  return (
    (stage.isRecommended ? text("recommended", { ...end, y: top - 6 }, "small strong good") : "") +
    text(`Stage ${stage.stage}`, { x, y: bottom + 22 }, "stage ink") +
    (isChosen ? text("chosen", { ...end, y: bottom + 22 }, "small strong ink") : "") +
    text(dividedText(stage, picture.ranks), { x, y: bottom + 39 }, "small muted") +
    text(verdict, { x, y: bottom + 56 }, `small strong ${verdictClass(stage)}`) +
    (away.length > 0 ? text(`+ ${away.join(", ")}`, { x, y: bottom + 72 }, "small ink") : "")
  );
}

export interface Below {
  readonly markup: string;
  /** Where it ends. */
  readonly endY: number;
}

const box = 24;

/** Ψ by Ψ: what each rank sends in a step. */
export function communication(layout: Layout): Below {
  const { left, right, bottom, captionHeight, picture, columnX, columnWidth } = layout;
  const from = bottom + captionHeight + 34;
  const title =
    text("Sent by each rank in a step", { x: layout.barX(0), y: from }, "strong ink") +
    text(
      `in elements, one micro-batch; Ψ = ${formatCount(picture.parameters)} parameters, of each Ψ the (N−1)/N that others own, N = ${formatCount(picture.ranks)}`,
      { x: layout.barX(0) + 172, y: from },
      "small muted",
    );
  const stages = picture.stages.map((stage, i) => {
    const x = layout.barX(i);
    const boxes = Array.from({ length: stage.commInPsi }, (_, n) => psiBox(x + n * (box + 3), from + 14));
    return (
      boxes.join("") +
      text(`${stage.commInPsi}Ψ`, { x: x + stage.commInPsi * (box + 3) + 6, y: from + 14 + 17 }, "total ink") +
      text(formatCount(stage.commElements), { x, y: from + 14 + box + 17 }, "small strong ink") +
      text(commNames[stage.commInPsi], { x, y: from + 14 + box + 32 }, "small muted")
    );
  });
  const rules = picture.stages
    .slice(1)
    .map((_, i) => line(columnX(i + 1), from + 14, columnX(i + 1), from + 74, "grid"));
  const ruleY = from + 94;
  const legend = wideLegend(layout, ruleY + 20);
  const markup = [
    title,
    ...stages,
    ...rules,
    line(left, from - 20, left + 4 * columnWidth, from - 20, "grid"),
    line(left, ruleY, right, ruleY, "grid"),
    legend,
  ].join("");
  return { markup, endY: ruleY + 28 };
}

const psiBox = (x: number, y: number): string =>
  element("rect", { x, y, width: box, height: box, rx: 3, class: "psi" }) +
  text("Ψ", { x: x + box / 2, y: y + 16.5, anchor: "middle" }, "ink");

const swatch = (x: number, y: number, kind: PictureKind, split: "whole" | "shard"): string =>
  element("rect", {
    x,
    y: y - 10,
    width: 16,
    height: 12,
    class: `bar ${kind}-${split}`,
    fill: split === "shard" ? `url(#shunya-hatch-${kind})` : undefined,
  });

function wideLegend(layout: Layout, y: number): string {
  const { picture } = layout;
  const x = layout.barX(0);
  return (
    swatch(x, y, "optimizer", "whole") +
    text("solid: every rank holds all of it", { x: x + 22, y }, "small ink") +
    swatch(x + 216, y, "optimizer", "shard") +
    text(shardText(picture), { x: x + 238, y }, "small ink") +
    line(x + 480, y - 4, x + 506, y - 4, "card") +
    text(`what training can use of ${picture.card}`, { x: x + 512, y }, "small ink")
  );
}

/** On a narrow page: what is sent in a line below each bar, and which colour is which kind. */
export function narrowBelow(layout: Layout): Below {
  const { bottom, captionHeight, picture, columnX, columnWidth, left, width, margin } = layout;
  const from = bottom + captionHeight + 22;
  const sent = picture.stages.map((stage, i) =>
    text(`${stage.commInPsi}Ψ`, { x: columnX(i) + columnWidth / 2, y: from, anchor: "middle" }, "total ink"),
  );
  const kinds = pictureKinds.map((kind, i) => {
    const at = { x: margin + (i % 3) * ((width - 2 * margin) / 3), y: from + 28 + Math.floor(i / 3) * 20 };
    return swatch(at.x, at.y, kind, "whole") + text(kind, { x: at.x + 21, y: at.y }, "small ink");
  });
  const y = from + 68;
  const divided =
    swatch(margin, y, "optimizer", "shard") + text(shardText(picture), { x: margin + 21, y }, "small ink");
  const row = text("sends", { x: left - 7, y: from, anchor: "end" }, "small muted");
  return { markup: [row, ...sent, ...kinds, divided].join(""), endY: y + 4 };
}

const shardText = ({ ranks }: FootprintPicture): string =>
  ranks > 1 ? `lighter, hatched: 1/${formatCount(ranks)} of it on each rank` : "lighter, hatched: divided among 1 rank";
