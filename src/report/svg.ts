/** SVG as text: elements, escaped, with numbers as short as a hundredth of a unit allows. */

export type Attributes = Readonly<Record<string, string | number | undefined>>;

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export const escapeMarkup = (text: string): string => text.replace(/[&<>"]/g, (character) => escapes[character]!);

const short = (value: number): string => String(Math.round(value * 100) / 100);

/** @param children markup; use `text` for text */
export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? short(value) : escapeMarkup(String(value))}"`)
    .join("");
  return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join("")}</${name}>`;
}

/** A line of text; `anchor` says which point of it is at x. */
export function text(
  content: string,
  at: { readonly x: number; readonly y: number; readonly anchor?: "start" | "middle" | "end" },
  className: string,
): string {
  const { x, y, anchor = "start" } = at;
  return element(
    "text",
    { x, y, class: className, "text-anchor": anchor === "start" ? undefined : anchor },
    escapeMarkup(content),
  );
}

export const line = (x1: number, y1: number, x2: number, y2: number, className: string): string =>
  element("line", { x1, y1, x2, y2, class: className });

/** From a thing at (x, from) to the label that stands for it at another height: straight, slanting, straight. */
export function leader(x: number, from: number, to: number, length: number): string {
  const points = [x, from, x + 0.4 * length, from, x + 0.75 * length, to, x + length, to].map(short).join(" ");
  return element("polyline", { points, class: "lead" });
}
