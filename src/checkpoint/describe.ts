/** A JSON value in few words, for messages. Looks no deeper than two levels: a hostile file may nest without end. */
export function describeJson(value: unknown, depth = 0): string {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) {
    if (depth === 2 || value.length > 8) return `a list of ${value.length}`;
    return `[${value.map((item) => describeJson(item, depth + 1)).join(", ")}]`;
  }
  if (typeof value === "object" && value !== null) return "an object { ... }";
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
