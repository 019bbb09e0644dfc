/** Where the parts of a footprint's picture stand, in CSS pixels. */
import type { FootprintPicture } from "./footprint.ts";
import { type Axis, axisOf } from "./footprint-scale.ts";
import { wrap } from "./wrap.ts";

/** Bars have their labels beside them where there is room, else there is a legend. */
export const wideFrom = 980;

export interface Area {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Bars over an axis. */
export interface Plot extends Area {
  readonly isWide: boolean;
  readonly columnWidth: number;
  readonly barWidth: number;
  readonly axis: Axis;
  readonly picture: FootprintPicture;
  /** Where so many bytes are on the axis. */
  readonly y: (bytes: number) => number;
  /** Left edge of a stage's column. */
  readonly columnX: (index: number) => number;
  /** Left edge of its bar. */
  readonly barX: (index: number) => number;
}

export interface Layout extends Plot {
  readonly width: number;
  /** Of all text. */
  readonly margin: number;
  readonly subtitleLines: readonly string[];
  /** Between the plot and what stands below its captions. */
  readonly captionHeight: number;
}

export function plotOf(picture: FootprintPicture, area: Area, isWide: boolean): Plot {
  const { left, right, top, bottom } = area;
  const axis = axisOf(picture);
  const columnWidth = (right - left) / picture.stages.length;
  const barWidth = isWide ? 60 : columnWidth * 0.52;
  const columnX = (index: number): number => left + index * columnWidth;
  return {
    ...area,
    isWide,
    columnWidth,
    barWidth,
    axis,
    picture,
    y: (bytes) => bottom - (bytes / axis.topBytes) * (bottom - top),
    columnX,
    barX: (index) => columnX(index) + (isWide ? 12 : (columnWidth - barWidth) / 2),
  };
}

const plotHeight = 320;
/** Of a line of the subtitle. */
export const lineHeight = 15;
/** Of the subtitle's text, on average, with something to spare. */
const characterWidth = { wide: 6.5, narrow: 6.4 };

export function layOut(picture: FootprintPicture, width: number): Layout {
  const isWide = width >= wideFrom;
  const margin = isWide ? 20 : 6;
  const subtitleLines = wrap(picture.subtitle, {
    width: Math.floor((width - 2 * margin) / characterWidth[isWide ? "wide" : "narrow"]),
  }).split("\n");
  const top = isWide ? 112 : 84 + lineHeight * subtitleLines.length;
  const left = isWide ? 58 : 50;
  const right = isWide ? width - 108 : width - 4;
  const isOffloaded = picture.stages.some(({ hostBytes, diskBytes }) => hostBytes + diskBytes > 0);
  return {
    ...plotOf(picture, { left, right, top, bottom: top + plotHeight }, isWide),
    width,
    margin,
    subtitleLines,
    captionHeight: isWide ? (isOffloaded ? 84 : 68) : 44,
  };
}
