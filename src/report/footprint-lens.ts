/** Where the card's memory is a hair's breadth of the axis: the last bar beside it, enlarged. */
import { bar, barLabels } from "./footprint-bars.ts";
import { cardLabels, cardLines } from "./footprint-card.ts";
import { type Area, type Layout, plotOf } from "./footprint-layout.ts";
import { formatCount } from "./numbers.ts";
import { element, line, text } from "./svg.ts";

/** Of a card lower than this share of the axis nothing is to be seen. */
const leastShare = 0.1;
/** Columns that it covers. */
const columns = 2;
/** What totals and labels of the bars below it need. */
const below = 104;

/** Empty where it is not needed, or would cover a bar. */
export function lens(layout: Layout): string {
  const { picture, axis, isWide, columnX, right, top, bottom, y } = layout;
  const stage = picture.stages.at(-1);
  const first = picture.stages.length - columns;
  if (
    !isWide ||
    axis.isCardAbove ||
    stage === undefined ||
    first < 0 ||
    picture.usableBytes > leastShare * axis.topBytes
  )
    return "";
  const area: Area = { left: columnX(first) + 12, right, top: top - 8, bottom: bottom - below };
  if (picture.stages.slice(first).some(({ totalBytes }) => y(totalBytes) < area.bottom + 24)) return "";
  const plain = { ...stage, isRecommended: false };
  const inner: Area = { left: area.left + 12, right: area.right - 110, top: area.top + 48, bottom: area.bottom - 12 };
  const plot = plotOf({ ...picture, stages: [plain] }, inner, true);
  const times = (axis.topBytes / plot.axis.topBytes) * ((inner.bottom - inner.top) / (bottom - top));
  const { left, right: end } = inner;
  return element(
    "g",
    { "data-lens": formatCount(times) },
    element("rect", {
      x: area.left,
      y: area.top,
      width: area.right - area.left,
      height: area.bottom - area.top,
      rx: 8,
      class: "lens",
    }),
    text(
      `Stage ${stage.stage}, ${formatCount(times)} times enlarged`,
      { x: left + 12, y: area.top + 22 },
      "strong ink",
    ),
    line(left, inner.bottom, end, inner.bottom, "base"),
    bar(plot, plain, 0),
    cardLines(plot),
    barLabels(plot, plain, 0),
    cardLabels(plot),
  );
}
