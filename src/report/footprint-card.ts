/** The card's memory as lines through all bars of a footprint, and what of it the rule of fit lets a job take. */
import { type FootprintPicture, ruleName } from "./footprint.ts";
import type { Layout, Plot } from "./footprint-layout.ts";
import { spread } from "./footprint-scale.ts";
import { formatBytes, formatCount } from "./numbers.ts";
import { element, leader, line, text } from "./svg.ts";

interface Mark {
  readonly bytes: number;
  readonly name: string;
  readonly className: string;
}

/** None where the axis does not reach so far. */
function marksOf({ axis, picture }: Plot): Mark[] {
  const { usableBytes, allowedBytes } = picture;
  if (axis.isCardAbove) return [];
  return [
    { bytes: usableBytes, name: "usable", className: "card" },
    { bytes: allowedBytes, name: ruleName(picture), className: "rule" },
  ];
}

/** A line so low would wipe out the bars with what sets it off from them. */
const leastRise = 8;

export function cardLines(plot: Plot): string {
  const { left, right, bottom, y } = plot;
  return marksOf(plot)
    .map(
      ({ bytes, className }) =>
        (bottom - y(bytes) > leastRise ? line(left, y(bytes), right, y(bytes), "under") : "") +
        element("line", { x1: left, y1: y(bytes), x2: right, y2: y(bytes), class: className, "data-bytes": bytes }),
    )
    .join("");
}

/** Beside the plot, at the ends of the lines. */
export function cardLabels(plot: Plot): string {
  const { axis, picture, right, top, bottom, y } = plot;
  if (axis.isCardAbove)
    return text(aboveText(picture, axis.topBytes), { x: right, y: top - 28, anchor: "end" }, "small ink");
  const marks = marksOf(plot);
  const centres = marks.map(({ bytes }) => y(bytes));
  const places = spread(centres, 34, { low: top - 2, high: bottom - 12 });
  return marks
    .map(({ bytes, name }, i) => {
      const to = places[i]!;
      return (
        leader(right, centres[i]!, to, 17) +
        text(name, { x: right + 20, y: to - 2 }, "small ink") +
        text(formatBytes(bytes), { x: right + 20, y: to + 12 }, "small strong ink")
      );
    })
    .join("");
}

/** Above the plot, as a key to the lines: for where there is no room beside it. */
export function cardKey(layout: Layout): string {
  const { axis, picture, margin, top, width } = layout;
  const y = top - 34;
  if (axis.isCardAbove) return text(aboveText(picture, axis.topBytes), { x: margin, y }, "small ink");
  return marksOf(layout)
    .map(({ bytes, name, className }, i) => {
      const x = margin + i * Math.min(160, (width - 2 * margin) * 0.46);
      return (
        line(x, y - 4, x + 22, y - 4, className) + text(`${name} ${formatBytes(bytes)}`, { x: x + 27, y }, "small ink")
      );
    })
    .join("");
}

function aboveText({ usableBytes }: FootprintPicture, topBytes: number): string {
  const times = usableBytes / topBytes;
  return `↑ usable ${formatBytes(usableBytes)}: ${times < 10 ? times.toFixed(1) : formatCount(times)} times this axis`;
}
