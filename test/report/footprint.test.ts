// The picture of a plan as data and as SVG, read back from its markup.
import { describe, expect, test } from "vitest";
import { describePicture, type FootprintPicture, pictureKinds } from "../../src/report/footprint.ts";
import { axisOf, spread } from "../../src/report/footprint-scale.ts";
import { dark, light } from "../../src/report/footprint-style.ts";
import { renderFootprintSvg } from "../../src/report/footprint-svg.ts";
import { pictureOfScene, scenes } from "./footprint-scenes.ts";

type Attributes = Readonly<Record<string, string>>;

/** Attributes of all elements of a name, in order. */
function elements(markup: string, name: string): Attributes[] {
  return [...markup.matchAll(new RegExp(`<${name}( [^>]*)?>`, "g"))].map(([, written = ""]) =>
    Object.fromEntries([...written.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, key, value]) => [key!, value!])),
  );
}

const texts = (markup: string): string[] => [...markup.matchAll(/<text[^>]*>([^<]*)</g)].map(([, content]) => content!);

/** Segments of one stage's bar, from the bottom; the enlarged one is not among them. */
function segments(svg: string, stage: number): Attributes[] {
  const [group = ""] = new RegExp(`<g data-stage="${stage}">.*?</g>`).exec(svg) ?? [];
  return elements(group, "rect").filter((rect) => rect["data-kind"] !== undefined);
}

const withClass = (all: readonly Attributes[], name: string): Attributes[] =>
  all.filter(({ class: classes = "" }) => classes.split(" ").includes(name));

/** Where the axis begins and how many pixels a byte has, from the grid that is drawn: ticks are where their labels say. */
function scaleOf(svg: string, picture: FootprintPicture): { base: number; perByte: number } {
  const base = Number(withClass(elements(svg, "line"), "base")[0]!.y1);
  const { ticks } = axisOf(picture);
  const grid = withClass(elements(svg, "line"), "grid").filter(({ y1, y2 }) => y1 === y2);
  return { base, perByte: (base - Number(grid[ticks.length - 2]!.y1)) / ticks.at(-1)!.bytes };
}

describe.each([1000, 320])("%d pixels wide", (width) => {
  test.each(Object.entries(scenes))("%s: bars are to scale and stand on each other", (_, data) => {
    const picture = pictureOfScene(data);
    const svg = renderFootprintSvg(picture, { width });
    const { base, perByte } = scaleOf(svg, picture);
    for (const stage of picture.stages) {
      const rects = segments(svg, stage.stage);
      expect(rects.map((rect) => rect["data-kind"])).toEqual([...pictureKinds]);
      let y = base;
      for (const rect of rects) {
        const { bytes } = stage.kinds[rect["data-kind"] as (typeof pictureKinds)[number]];
        expect(Math.abs(Number(rect.height) - bytes * perByte)).toBeLessThan(1);
        expect(Math.abs(Number(rect.y) + Number(rect.height) - y)).toBeLessThan(0.1);
        y = Number(rect.y);
      }
      expect(Math.abs(base - y - stage.totalBytes * perByte)).toBeLessThan(1);
    }
  });

  test("the card's memory and the rule are lines at their bytes", () => {
    const picture = pictureOfScene(scenes.usual);
    const svg = renderFootprintSvg(picture, { width });
    const { base, perByte } = scaleOf(svg, picture);
    const lines = elements(svg, "line").filter((line) => line["data-bytes"] !== undefined);
    expect(lines.map((line) => Number(line["data-bytes"]))).toEqual([23.6e9, 0.85 * 23.6e9]);
    for (const { y1, y2, "data-bytes": bytes } of lines) {
      expect(y1).toBe(y2);
      expect(Math.abs(base - Number(y1) - Number(bytes) * perByte)).toBeLessThan(1);
    }
    expect(texts(svg).join(" ")).toMatch(/usable 23\.6 GB.*85 % rule 20\.1 GB/);
  });
});

test("what is whole is solid, and what is 1/N of it is hatched", () => {
  const svg = renderFootprintSvg(pictureOfScene(scenes.usual));
  const hatched = [0, 1, 2, 3].map((stage) =>
    segments(svg, stage)
      .filter(({ fill }) => fill?.startsWith("url(#shunya-hatch-"))
      .map((rect) => rect["data-kind"]),
  );
  expect(hatched).toEqual([[], ["optimizer"], ["gradients", "optimizer"], ["parameters", "gradients", "optimizer"]]);
  for (const rect of [0, 1, 2, 3].flatMap((stage) => segments(svg, stage)))
    expect(rect.class).toBe(`bar ${rect["data-kind"]}-${rect.fill === undefined ? "whole" : "shard"}`);
  expect(elements(svg, "pattern").map(({ id }) => id)).toEqual(pictureKinds.map((kind) => `shunya-hatch-${kind}`));
});

test("every kind, total, verdict and what is sent is written", () => {
  const written = texts(renderFootprintSvg(pictureOfScene(scenes.usual)));
  // 24.0, 10.5, 8.25 and 6.0 GB of model states, and 3 GB beside them.
  for (const label of [
    "27.0 GB",
    "13.5 GB",
    "11.3 GB",
    "9.00 GB",
    "optimizer 18.0 GB",
    "gradients 750 MB",
    "3,375,000,000",
  ])
    expect(written).toContain(label);
  expect(written.filter((label) => /^[✓✗]/.test(label))).toEqual([
    "✗ does not fit the device",
    "✓ fits",
    "✓ fits",
    "✓ fits",
  ]);
  expect(written.filter((label) => label === "recommended")).toHaveLength(1);
  expect(written.filter((label) => label === "Ψ")).toHaveLength(2 + 2 + 2 + 3);
  expect(written).toContain("शून्य");
});

test("a small bar beside a giant has its label, and is shown enlarged", () => {
  const svg = renderFootprintSvg(pictureOfScene(scenes.giant));
  expect(texts(svg)).toContain("54.6 GB");
  const [, times] = /data-lens="([\d,]+)"/.exec(svg)!;
  expect(texts(svg)).toContain(`Stage 3, ${times} times enlarged`);
  expect(renderFootprintSvg(pictureOfScene(scenes.usual))).not.toContain("data-lens");
});

test("a card far above all bars is named and not drawn", () => {
  const svg = renderFootprintSvg(pictureOfScene(scenes.dwarf));
  expect(elements(svg, "line").filter((line) => line["data-bytes"] !== undefined)).toEqual([]);
  expect(texts(svg).join("\n")).toMatch(/↑ usable 23\.6 GB: 1,\d{3} times this axis/);
});

test("it is one image with a name and a description, and asks nothing of anyone", () => {
  const picture = pictureOfScene(scenes.usual);
  const svg = renderFootprintSvg(picture);
  expect(elements(svg, "svg")).toMatchObject([
    { role: "img", "aria-labelledby": "shunya-footprint-title shunya-footprint-desc" },
  ]);
  expect(svg).toContain(`<title id="shunya-footprint-title">${picture.title}</title>`);
  expect(svg).toContain("Stage 3: 9.00 GB on the device, parameters 750 MB (1/4 of them)");
  expect(describePicture(picture)).toContain("each rank sends 3Ψ, 3,375,000,000 elements a step");
  expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(/https?:|<script|@import|@font-face|href=/);
});

test("a name is text, whatever it holds", () => {
  const picture = { ...pictureOfScene(scenes.usual), subtitle: '<script>"&"</script>' };
  expect(renderFootprintSvg(picture)).toContain("&lt;script&gt;&quot;&amp;&quot;&lt;/script&gt;");
});

test("labels are moved apart as little as needed, and keep their order and bounds", () => {
  expect(spread([10, 50, 90], 15, { low: 0, high: 100 })).toEqual([10, 50, 90]);
  expect(spread([50, 49, 52], 10, { low: 0, high: 100 })).toEqual([59, 49, 69]);
  expect(spread([98, 99, 100], 10, { low: 0, high: 100 })).toEqual([80, 90, 100]);
  expect(spread([1, 1, 1], 60, { low: 0, high: 100 })).toEqual([0, 50, 100]);
});

/** WCAG's contrast of two colours, "#rrggbb". */
function contrast(a: string, b: string): number {
  const luminance = (colour: string): number => {
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

test.each([
  ["light", light],
  ["dark", dark],
])("%s: text and bars stand out from the paper", (_, { paper, ink, muted, good, bad, kinds }) => {
  for (const colour of [ink, muted, good, bad]) expect(contrast(colour, paper)).toBeGreaterThanOrEqual(4.5);
  for (const colour of Object.values(kinds)) expect(contrast(colour, paper)).toBeGreaterThanOrEqual(3);
});
