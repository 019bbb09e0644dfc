/** The picture of a plan as one SVG: bars to scale, the card's memory as a line, and what is sent. No script, no fonts of its own. */
import type { Stage } from "../config/types.ts";
import { describePicture, type FootprintPicture, pictureKinds } from "./footprint.ts";
import { bar, barLabels, hatch } from "./footprint-bars.ts";
import { caption, communication, narrowBelow } from "./footprint-captions.ts";
import { cardKey, cardLabels, cardLines } from "./footprint-card.ts";
import { type Layout, layOut, lineHeight } from "./footprint-layout.ts";
import { lens } from "./footprint-lens.ts";
import { footprintStyle } from "./footprint-style.ts";
import { element, escapeMarkup, line, text } from "./svg.ts";

export interface SvgOptions {
  /** In CSS pixels, at least 300. Bars have their labels beside them where there is room, else there is a legend. */
  readonly width?: number;
  /** A stage to point out, beside the recommended one. */
  readonly chosen?: Stage;
}

export function renderFootprintSvg(picture: FootprintPicture, { width = 1000, chosen }: SvgOptions = {}): string {
  const layout = layOut(picture, width);
  const below = layout.isWide ? communication(layout) : narrowBelow(layout);
  const height = below.endY + 12;
  return element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      class: "shunya-footprint",
      viewBox: `0 0 ${width} ${Math.ceil(height)}`,
      width,
      height: Math.ceil(height),
      role: "img",
      "aria-labelledby": "shunya-footprint-title shunya-footprint-desc",
    },
    element("title", { id: "shunya-footprint-title" }, escapeMarkup(picture.title)),
    element("desc", { id: "shunya-footprint-desc" }, escapeMarkup(`${picture.subtitle}. ${describePicture(picture)}`)),
    element("style", {}, footprintStyle),
    element("defs", {}, ...pictureKinds.map(hatch)),
    element("rect", { width, height: Math.ceil(height), class: "paper" }),
    header(layout),
    grid(layout),
    frames(layout),
    ...picture.stages.map((stage, i) => bar(layout, stage, i)),
    cardLines(layout),
    ...picture.stages.map((stage, i) => barLabels(layout, stage, i)),
    layout.isWide ? cardLabels(layout) : cardKey(layout),
    lens(layout),
    ...picture.stages.map((stage, i) => caption(layout, stage, i, stage.stage === chosen)),
    below.markup,
  );
}

function header({ width, margin: x, isWide, picture, subtitleLines }: Layout): string {
  const lines = subtitleLines.map((part, i) =>
    text(part, { x, y: (isWide ? 54 : 42) + lineHeight * i }, isWide ? "subtitle muted" : "muted"),
  );
  if (!isWide) return text(picture.title, { x, y: 24 }, "total ink") + lines.join("");
  const at = { x: width - x, y: 32, class: "mark muted", "text-anchor": "end", lang: "sa" };
  return text(picture.title, { x, y: 32 }, "title ink") + lines.join("") + element("text", at, "शून्य");
}

/** Around all that is said of the recommended stage. */
function frames({ picture, columnX, columnWidth, top, bottom, captionHeight }: Layout): string {
  return picture.stages
    .map(({ isRecommended }, i) =>
      isRecommended
        ? element("rect", {
            x: columnX(i) + 2,
            y: top - 22,
            width: columnWidth - 4,
            height: bottom - top + 22 + captionHeight,
            rx: 8,
            class: "frame",
          })
        : "",
    )
    .join("");
}

function grid({ axis, left, right, y }: Layout): string {
  return axis.ticks
    .map(
      ({ bytes, label }) =>
        line(left, y(bytes), right, y(bytes), bytes === 0 ? "base" : "grid") +
        text(label, { x: left - 7, y: y(bytes) + 4, anchor: "end" }, "small muted"),
    )
    .join("");
}
