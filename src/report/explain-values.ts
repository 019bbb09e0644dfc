/** A list of values with where each is from; the last column wraps. */
import { wrap } from "./wrap.ts";

export interface ValueLine {
  /** DeepSpeed's dotted path. */
  readonly path: string;
  readonly value: string;
  readonly from: string;
}

/** Longer values push what follows to the right. */
const widestValue = 16;

export function renderValueLines(lines: readonly ValueLine[], width: number): string {
  const shown = lines.map((line) => ({
    ...line,
    name: line.path.replace("zero_optimization.", "").replace("stage3_", ""),
  }));
  const nameWidth = Math.max(...shown.map(({ name }) => name.length));
  const valueWidth = Math.min(widestValue, Math.max(...shown.map(({ value }) => value.length)));
  const indent = nameWidth + 2 + valueWidth + 2;
  return shown
    .map(({ name, value, from }) => {
      const head = `${name.padEnd(nameWidth)}  ${value.padEnd(valueWidth)}  `;
      return (head + wrap(from, { indent, first: head.length, width })).trimEnd();
    })
    .join("\n");
}
