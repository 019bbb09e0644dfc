// The page of the picture in a real browser: opened as a file, moved with the keyboard, on a phone, in the dark, from a link.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FootprintPicture } from "../../src/report/footprint.ts";
import { renderFootprintHtml } from "../../src/report/footprint-html.ts";
import { renderFootprintSvg } from "../../src/report/footprint-svg.ts";
import { root } from "../cli/command.ts";
import { pictureOfScene, scenes } from "../report/footprint-scenes.ts";
import { findBrowser, launchBrowser, Pages } from "./browser.ts";

const executable = findBrowser();
if (executable === undefined)
  process.stdout.write(
    "No browser: set SHUNYA_CHROMIUM or install chromium. The picture's page is not tested in one.\n",
  );

/** Gigabytes of model states on the device, by stage, as the page says them. */
const statesOf = async (page: Page): Promise<number[]> =>
  (
    await page.locator("tr.states data").evaluateAll((cells) => cells.map((cell) => Number(cell.getAttribute("value"))))
  ).map((bytes) => bytes / 1e9);

const press = async (page: Page, key: string, times: number): Promise<void> => {
  for (let i = 0; i < times; i++) await page.keyboard.press(key);
};

/** Pairs of texts of a picture that cover each other by more than what a font's box has around its letters. */
const overlaps = `(() => {
  const boxes = [...document.querySelectorAll("text")].map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
  const frame = document.querySelector("svg").getBoundingClientRect();
  const found = [];
  for (const [i, { text, box: a }] of boxes.entries()) {
    if (a.left < frame.left - 0.5 || a.right > frame.right + 0.5 || a.bottom > frame.bottom + 0.5) found.push(text + " | outside");
    for (const { text: other, box: b } of boxes.slice(i + 1)) {
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (width > 0.5 && height > 4.5) found.push(text + " | " + other);
    }
  }
  return found;
})()`;

/** Texts whose colour has less contrast with what is behind them than WCAG's AA wants. */
const faint = `(() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = parse(colour).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (parse(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const texts = [...document.querySelectorAll("h1, h2, p, label, legend, th, td, small, b, button, select, input[type=text], text")];
  for (const element of texts) {
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [high, low] = [luminance(ink), luminance(background(element))].sort((a, b) => b - a);
    if ((high + 0.05) / (low + 0.05) < 4.5) found.push(element.tagName + " " + element.textContent + " " + ink);
  }
  return { found, texts: texts.length, paper: getComputedStyle(document.body).backgroundColor };
})()`;

/** What has the focus: its name for those who do not see it, and how it is set off. */
const focused = `(() => {
  const { activeElement: element } = document;
  const text = element.labels?.[0]?.textContent || element.textContent;
  const name = element.getAttribute("aria-label") ?? text + (element.type === "radio" ? ", radio" : "");
  return { name, outline: getComputedStyle(element).outlineWidth };
})()`;

describe.skipIf(executable === undefined)("in a browser", () => {
  let pages: Pages;
  let script: string;
  const address = (name: keyof typeof scenes): string =>
    pages.write(`${name}.html`, renderFootprintHtml(scenes[name], script));

  beforeAll(async () => {
    const built = (await import(pathToFileURL(`${root}/scripts/build-page.mjs`).href)) as {
      buildPage(): Promise<boolean>;
    };
    await built.buildPage();
    script = readFileSync(`${root}/dist/footprint-page.js`, "utf8");
    pages = new Pages(await launchBrowser(executable!));
  });
  afterAll(async () => pages?.close());

  test("it shows the plan, without a word to the console or the network", async () => {
    const { page, problems } = await pages.open(address("usual"));
    expect(await statesOf(page)).toEqual([24, 10.5, 8.25, 6]);
    expect(await page.locator("tr.states data").allTextContents()).toEqual([
      "24.0 GB",
      "10.5 GB",
      "8.25 GB",
      "6.00 GB",
    ]);
    expect(await page.locator("#answer").textContent()).toMatch(
      /^Use stage 1 without offload: 13\.5 GB on each of 4 ranks/,
    );
    expect(await page.locator("figure svg [data-stage]").count()).toBe(4);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("without a script it shows the same", async () => {
    const { page } = await pages.open(address("usual"), { javaScriptEnabled: false });
    expect(await page.locator("tr.states data").allTextContents()).toEqual([
      "24.0 GB",
      "10.5 GB",
      "8.25 GB",
      "6.00 GB",
    ]);
    expect(await page.locator("form").isVisible()).toBe(false);
    expect(await page.locator("figure svg").isVisible()).toBe(true);
    await page.context().close();
  });

  test("sliders move with the keyboard, and the numbers with them", async () => {
    const { page, problems } = await pages.open(address("usual"));
    await page.locator("#ranks-slider").focus();
    await press(page, "ArrowRight", 2); // 4, 6, 8
    expect(await page.locator("#ranks").inputValue()).toBe("8");
    expect(await page.locator("#ranks-slider").getAttribute("aria-valuetext")).toBe("8");
    expect(await statesOf(page)).toEqual([24, 8.25, 5.625, 3]);
    expect(await page.locator("tr.states data").nth(2).textContent()).toBe("5.625 GB");
    await page.locator("#parameters-slider").focus();
    await press(page, "ArrowRight", 15); // 1.5e9 to 3e9
    expect(await page.locator("#parameters").inputValue()).toBe("3e9");
    expect((await statesOf(page))[2]).toBe(11.25);
    expect(await page.locator("#answer").textContent()).toContain("on each of 8 ranks");
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test("every control is reached with Tab, named, and shows that it has the focus", async () => {
    const { page } = await pages.open(address("usual"));
    const reached: string[] = [];
    for (let i = 0; i < 13; i++) {
      await page.keyboard.press("Tab");
      const { name, outline } = (await page.evaluate(focused)) as { name: string; outline: string };
      expect(outline).toBe("3px");
      reached.push(name);
    }
    expect(reached).toEqual([
      ...["Parameters Ψ", "Ranks N", "Micro-batch, sequences", "Sequence, tokens"].flatMap((name) => [
        name,
        `${name}, slider`,
      ]),
      "2, radio",
      "Offload of optimizer, parameters",
      "Card",
      "Usable memory of it, GB",
      "Back to the plan",
    ]);
    await page.context().close();
  });

  test("stage, offload, card, memory and written numbers act", async () => {
    const { page } = await pages.open(address("usual"));
    await page.locator("input[name=stage]:checked").focus();
    await press(page, "ArrowRight", 1);
    expect(await page.locator("#chosen").textContent()).toMatch(/^Stage 3, as chosen: .*3Ψ: 3,375,000,000 elements/);
    expect(await page.locator("[data-chosen]").getAttribute("data-chosen")).toBe("3");
    await page.locator("#offload").selectOption({ label: "optimizer on the host" });
    expect(await statesOf(page)).toEqual([24, 6, 3, 0.75]);
    expect(await page.locator("tbody tr", { hasText: "host" }).locator("data").allTextContents()).toEqual([
      "0 B",
      "5.25 GB", // its part of the reduced gradients crosses too
      "5.25 GB",
      "5.25 GB",
    ]);
    await page.locator("#card").selectOption("A100-80GB");
    expect(await page.locator("#memory").inputValue()).toBe("84");
    expect(await page.locator("#answer").textContent()).toMatch(/^Use stage 0 without offload/);
    await page.locator("#memory").fill("12");
    expect(await page.locator("#card").inputValue()).toBe("");
    expect(await page.locator("#answer").textContent()).toMatch(/^Use stage 3 without offload/);
    await page.locator("#parameters").fill("1.5T");
    expect(await page.locator("#answer").textContent()).toMatch(/^Nothing fits 4 ranks:/);
    await page.locator("#parameters").fill("nonsense");
    expect(await page.locator("#parameters").getAttribute("aria-invalid")).toBe("true");
    await page.keyboard.press("Tab");
    expect(await page.locator("#parameters").inputValue()).toBe("1.5e12");
    await page.getByRole("button", { name: "Back to the plan" }).press("Enter");
    expect(await statesOf(page)).toEqual([24, 10.5, 8.25, 6]);
    expect(await page.locator("#memory").inputValue()).toBe("23.6");
    await page.context().close();
  });

  test("the answer is a live region", async () => {
    const { page } = await pages.open(address("usual"));
    expect(await page.getByRole("status").getAttribute("aria-live")).toBe("polite");
    expect(await page.getByRole("status").textContent()).toMatch(/^Use stage 1/);
    await page.context().close();
  });

  test("a link shows what it was copied from", async () => {
    const first = await pages.open(address("usual"));
    await first.page.locator("#ranks").fill("400");
    await first.page.locator("#offload").selectOption("cpu-none");
    await first.page.locator("input[name=stage][value='1']").check();
    const url = first.page.url();
    expect(url).toContain("#params=1500000000&ranks=400");
    const second = await pages.open(url);
    expect(await statesOf(second.page)).toEqual(await statesOf(first.page));
    expect(await second.page.locator("#ranks").inputValue()).toBe("400");
    expect(await second.page.locator("#offload").inputValue()).toBe("cpu-none");
    expect(await second.page.locator("#chosen").textContent()).toMatch(
      /^Stage 1 with optimizer states on the host, as chosen/,
    );
    // Another link, opened in the same window.
    await second.page.evaluate("location.hash = '#ranks=8'");
    await second.page.waitForFunction("document.querySelector('#ranks').value === '8'");
    expect(await statesOf(second.page)).toEqual([24, 8.25, 5.625, 3]);
    expect(second.problems).toEqual([]);
    await first.page.context().close();
    await second.page.context().close();
  });

  test.each(Object.keys(scenes) as (keyof typeof scenes)[])("%s: 320 pixels are wide enough", async (name) => {
    const { page, problems } = await pages.open(address(name), { viewport: { width: 320, height: 640 } });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(320);
    expect(
      await page.evaluate("document.querySelector('figure svg').getBoundingClientRect().right"),
    ).toBeLessThanOrEqual(320);
    expect(await page.evaluate(overlaps)).toEqual([]);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  test.each(["light", "dark"] as const)("%s: all text has contrast", async (colorScheme) => {
    const { page } = await pages.open(address("usual"), { colorScheme });
    const { found, texts, paper } = (await page.evaluate(faint)) as { found: string[]; texts: number; paper: string };
    expect(found).toEqual([]);
    expect(texts).toBeGreaterThan(100);
    expect(paper).toBe(colorScheme === "dark" ? "rgb(20, 23, 28)" : "rgb(255, 255, 255)");
    await page.context().close();
  });

  test("paper is white, also from the dark, and has no controls", async () => {
    const { page } = await pages.open(address("usual"), { colorScheme: "dark" });
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    expect(await page.locator("form").isVisible()).toBe(false);
    expect(((await page.evaluate(faint)) as { paper: string }).paper).toBe("rgb(255, 255, 255)");
    expect(await page.evaluate("getComputedStyle(document.querySelector('figure svg > rect.paper')).fill")).toBe(
      "rgb(255, 255, 255)",
    );
    await page.context().close();
  });

  const offloaded = (picture: FootprintPicture): FootprintPicture => ({
    ...picture,
    stages: picture.stages.map((stage) => ({
      ...stage,
      hostBytes: 123e9,
      diskBytes: 456e9,
      short: ["device", "host"],
    })),
  });
  const drawn = Object.entries(scenes).flatMap(([name, data]): [string, FootprintPicture][] => [
    [name, pictureOfScene(data)],
    [`${name} on one rank`, pictureOfScene(data, { ranks: 1 })],
    [`${name} on 16,384 ranks, with offload`, offloaded(pictureOfScene(data, { ranks: 16384 }))],
  ]);

  test.each(drawn)("%s: no text of the picture covers another", async (_, picture) => {
    const { page } = await pages.open("about:blank");
    for (const width of [1000, 979, 600, 320]) {
      await page.setViewportSize({ width: width + 40, height: 900 });
      await page.setContent(renderFootprintSvg(picture, { width, chosen: 2 }));
      expect({ width, found: await page.evaluate(overlaps) }).toEqual({ width, found: [] });
    }
    await page.context().close();
  });
});
