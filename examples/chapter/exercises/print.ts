/** How answers are printed. */
import type { Stage } from "../../../src/config/types.ts";
import { renderTable } from "../../../src/report/table.ts";

export const stages = [0, 1, 2, 3] as const satisfies readonly Stage[];

/** GB without zeros that say nothing: "24.0", "8.25", "5.625". */
export const gigabytes = (value: number): string =>
  Number.isInteger(value) ? value.toFixed(1) : String(Number(value.toFixed(4)));

/** Seconds to the millisecond: "0.12", "0.123". */
export const seconds = (value: number): string => String(Number(value.toFixed(3)));

/** @param headers those that begin with ">" are of numbers */
export const table = (headers: readonly string[], rows: readonly (readonly string[])[]): string =>
  renderTable({
    columns: headers.map((header) => ({
      header: header.replace(/^>/, ""),
      align: header.startsWith(">") ? "right" : "left",
    })),
    rows,
  });
