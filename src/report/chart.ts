/** A curve for the terminal, drawn in braille dots: two by four to a character, no colour. */
import { formatReal } from "./numbers.ts";

export interface ChartOptions {
  /** Characters, axis labels included. */
  readonly width?: number;
  /** Lines of the drawing; the title and the lower axis come on top. */
  readonly height?: number;
  /** The step of the first value. Defaults to 1. */
  readonly firstStep?: number;
}

const blank = 0x2800;
/** Bits of a braille character's dots by row and column. */
const dotBits = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80],
] as const;

/**
 * Draws `values` (one per step) as a curve of `width` by `height` characters under a title. Where there are more
 * values than dots, a dot shows the mean of its steps; where there are fewer, straight lines join them. Values that are not
 * finite leave a gap.
 */
export function renderChart(title: string, values: readonly number[], options: ChartOptions = {}): string {
  const { width = 72, height = 10, firstStep = 1 } = options;
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return `${title}: nothing to draw`;
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  const labels = Array.from({ length: height }, () => "");
  labels[height - 1] = formatReal(low);
  labels[0] = formatReal(high);
  if (low === high) labels[height - 1] = "";
  const margin = Math.max(...labels.map((label) => label.length));
  const columns = Math.max(16, width - margin - 2);
  const points = resample(values, columns * 2);
  const lines = drawCurve(points, low, high, columns, height).map((line, i) =>
    `${(labels[i] ?? "").padStart(margin)} ┤${String.fromCharCode(...line)}`.replace(/\u2800+$/, ""),
  );
  const [left, right] = [`step ${firstStep}`, `step ${firstStep + values.length - 1}`];
  const axis = `${" ".repeat(margin + 2)}${left}${right.padStart(columns - left.length)}`;
  return [title, ...lines, axis].join("\n");
}

/** `count` values, evenly spaced: means of pieces or points on the lines between values. */
function resample(values: readonly number[], count: number): number[] {
  if (values.length === 1) return [values[0]!];
  return Array.from({ length: count }, (_, i) => {
    if (values.length > count) return meanOfFinite(values.slice(bound(i), bound(i + 1)));
    const at = (i * (values.length - 1)) / (count - 1);
    const left = values[Math.floor(at)]!;
    return Number.isInteger(at) ? left : left + (values[Math.ceil(at)]! - left) * (at - Math.floor(at));
  });

  function bound(i: number): number {
    return Math.floor((i * values.length) / count);
  }
}

/** NaN where there is none. */
function meanOfFinite(values: readonly number[]): number {
  const finite = values.filter(Number.isFinite);
  return finite.reduce((a, b) => a + b, 0) / finite.length;
}

/** Character codes by line and column, a point to each column of dots. Neighbours are joined by vertical runs of dots. */
function drawCurve(points: readonly number[], low: number, high: number, columns: number, height: number): number[][] {
  const cells = Array.from({ length: height }, () => new Array<number>(columns).fill(blank));
  const lastDot = height * 4 - 1;
  const dotOf = (value: number): number =>
    high === low ? Math.floor(lastDot / 2) : Math.round(((high - value) / (high - low)) * lastDot);
  let previous: number | undefined;
  points.forEach((value, x) => {
    if (!Number.isFinite(value)) {
      previous = undefined;
      return;
    }
    const dot = dotOf(value);
    const from = previous ?? dot;
    for (let y = Math.min(from, dot); y <= Math.max(from, dot); y++) {
      cells[y >> 2]![x >> 1]! |= dotBits[(y & 3) as 0 | 1 | 2 | 3][(x & 1) as 0 | 1];
    }
    previous = dot;
  });
  return cells;
}
