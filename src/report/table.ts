/** Tables of text, aligned for a terminal or written as Markdown. */

export interface Column {
  readonly header: string;
  /** Numbers are easier to compare when their last digits stand below each other. */
  readonly align: "left" | "right";
}

export interface Table {
  readonly columns: readonly Column[];
  /** One cell per column. */
  readonly rows: readonly (readonly string[])[];
}

/** For a terminal: columns two spaces apart, a rule under the headers, no trailing spaces, no newline at the end. */
export function renderTable(table: Table): string {
  const widths = columnWidths(table);
  const rule = widths.map((width) => "─".repeat(width));
  return [headers(table), rule, ...table.rows]
    .map((cells) => alignCells(cells, table, widths).join("  ").trimEnd())
    .join("\n");
}

export function renderMarkdownTable(table: Table): string {
  const escaped: Table = {
    columns: table.columns,
    rows: table.rows.map((row) => row.map((cell) => cell.replaceAll("|", "\\|"))),
  };
  const widths = columnWidths(escaped).map((width) => Math.max(width, 3));
  const rule = widths.map((width, i) =>
    table.columns[i]?.align === "right" ? `${"-".repeat(width - 1)}:` : "-".repeat(width),
  );
  return [
    alignCells(headers(escaped), escaped, widths),
    rule,
    ...escaped.rows.map((r) => alignCells(r, escaped, widths)),
  ]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}

function headers(table: Table): string[] {
  return table.columns.map((column) => column.header);
}

function columnWidths(table: Table): number[] {
  return table.columns.map((column, i) =>
    Math.max(column.header.length, ...table.rows.map((row) => (row[i] ?? "").length)),
  );
}

function alignCells(cells: readonly string[], table: Table, widths: readonly number[]): string[] {
  return table.columns.map(({ align }, i) => {
    const cell = cells[i] ?? "";
    return align === "right" ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0);
  });
}
