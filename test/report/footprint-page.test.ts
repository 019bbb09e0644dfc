// The page of the picture without a browser: what its controls take, what a link keeps, what it says, and that its text is only text.
import { describe, expect, test } from "vitest";
import { renderFootprintHtml } from "../../src/report/footprint-html.ts";
import {
  countControls,
  type FootprintPageData,
  nearestStep,
  parseControl,
  parseGigabytes,
  parseNumber,
  plannedState,
  readHash,
  writeCount,
  writeHash,
} from "../../src/report/footprint-state.ts";
import { renderFootprintTable, viewOf } from "../../src/report/footprint-view.ts";
import { scenes } from "./footprint-scenes.ts";

const data = scenes.usual;

test.each([
  ["1.5e9", 1.5e9],
  ["1.5B", 1.5e9],
  ["1,500,000,000", 1.5e9],
  [" 350m ", 3.5e8],
  ["1T", 1e12],
  [".5", 0.5],
  ["", undefined],
  ["1,5", undefined],
  ["-4", undefined],
  ["1e9x", undefined],
  ["Infinity", undefined],
])("%j is the number %s", (written, value) => expect(parseNumber(written)).toBe(value));

test("a control refuses what it cannot be", () => {
  expect(["0", "1", "400", "16384", "16385", "many"].map((text) => parseControl("ranks", text))).toEqual([
    undefined,
    1,
    400,
    16384,
    undefined,
    undefined,
  ]);
  expect(["0", "22.3", "1e9"].map(parseGigabytes)).toEqual([undefined, 22.3e9, undefined]);
});

test("a slider stops at every number of two digits, or at every doubling and half-way", () => {
  const { parameters, ranks } = countControls;
  expect(parameters.steps[nearestStep(parameters, 1.5e9)]).toBe(1.5e9);
  expect(parameters.steps[nearestStep(parameters, 1_557_611_200)]).toBe(1.6e9);
  expect(ranks.steps.slice(0, 8)).toEqual([1, 2, 3, 4, 6, 8, 12, 16]);
  for (const { steps, least, most } of Object.values(countControls)) {
    expect([steps[0], steps.at(-1)]).toEqual([least, most]);
    expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b));
  }
  expect([1.5e9, 1_557_611_200, 4, 1e12].map(writeCount)).toEqual(["1.5e9", "1557611200", "4", "1e12"]);
});

describe("a link", () => {
  test("keeps the state", () => {
    const state = {
      ...plannedState(data),
      parameters: 7e9,
      ranks: 400,
      stage: 3,
      card: undefined,
      usableBytes: 40.5e9,
    } as const;
    expect(readHash(`#${writeHash(state)}`, data)).toEqual(state);
    const offloaded = { ...plannedState(data), offload: { offloadOptimizer: "nvme", offloadParam: "nvme" } } as const;
    expect(readHash(`#${writeHash(offloaded)}`, data)).toEqual(offloaded);
  });

  test("that says nothing, or nonsense, is the plan", () => {
    expect(readHash("", data)).toEqual(plannedState(data));
    expect(readHash("#params=-1&ranks=x&stage=4&offload=gpu&card=none&memory=0&batch=1e99&seq=", data)).toEqual(
      plannedState(data),
    );
  });
});

describe("the answer", () => {
  const answer = (change: object): string => viewOf(data, { ...plannedState(data), ...change }).answer;

  test("is the plan's at first", () => {
    expect(answer({})).toBe("Use stage 1 without offload: 13.5 GB on each of 4 ranks, of 20.1 GB that a job may take.");
  });

  test("names the tier and what it takes there", () => {
    expect(answer({ ranks: 1 })).toBe(
      "Use stage 1 with optimizer states on the host: 9.00 GB on the rank, of 20.1 GB that a job may take, and 21.0 GB of host memory.",
    );
  });

  test("says how many ranks would do where nothing fits", () => {
    const alone = { ...data, room: { ...data.room, hostBytes: 0, diskBytes: 0 } };
    // 20 GB of states and 6.7 GB beside them on 4 ranks at stage 3.
    const view = viewOf(alone, { ...plannedState(alone), parameters: 5e9 });
    expect(view.answer).toBe(
      "Nothing fits 4 ranks: without offload the least is 26.7 GB at stage 3, of 20.1 GB that a job may take.",
    );
    expect(view.advice).toBe(
      "Stage 2 with optimizer states on the host would fit the device, but wants 17.5 GB of host memory for a rank, which has 0 B of " +
        "it. On 8 ranks stage 3 without offload would fit.",
    );
    expect(viewOf(data, { ...plannedState(data), sequenceLength: 131072 }).advice).toMatch(
      /^With all offload it is still \d+ GB\. More ranks alone do not help/,
    );
  });

  test("of the chosen stage speaks of what it sends", () => {
    expect(viewOf(data, { ...plannedState(data), stage: 3 }).chosen).toBe(
      "Stage 3, as chosen: 9.00 GB on the device; fits, with 11.1 GB to spare. It sends 3Ψ: 3,375,000,000 elements from each rank a step.",
    );
  });
});

test("the table says every number with its digits, and where a kind is divided", () => {
  const { picture } = viewOf(data, { ...plannedState(data), ranks: 400 });
  const [row = ""] = /<tr class="sum states">.*?<\/tr>/.exec(renderFootprintTable(picture)) ?? [];
  expect([...row.matchAll(/<data value="(\d+)">([^<]*)/g)].map(([, value, text]) => [value, text])).toEqual([
    ["24000000000", "24.0 GB"],
    ["6045000000", "6.045 GB"],
    ["3052500000", "3.0525 GB"],
    ["60000000", "60.0 MB"],
  ]);
  expect(renderFootprintTable(picture).match(/<small>÷ 400/g)).toHaveLength(1 + 2 + 3);
});

describe("the file", () => {
  const page = (change: Partial<FootprintPageData> = {}, script = "void 0"): string =>
    renderFootprintHtml({ ...data, ...change }, script);

  test("fetches nothing, and says so to the browser", () => {
    expect(page()).toContain("default-src 'none'");
    const addresses = page().match(/\b(?:src|href|action)="[^"]*"|https?:[^"' ]*/g);
    expect(new Set(addresses)).toEqual(new Set(['href="data:,"', "http://www.w3.org/2000/svg"]));
  });

  test("is not ended by what stands in it", () => {
    const evil = "</script><script>alert(1)</script><!--";
    const made = page({ model: evil }, 'x = "</script>";');
    expect(made.match(/<script/g)).toHaveLength(2);
    expect(made.match(/<\/script/g)).toHaveLength(2);
    const [, json = ""] = /id="data">(.*?)<\/script>/.exec(made) ?? [];
    expect((JSON.parse(json) as FootprintPageData).model).toBe(evil);
  });

  test("says what is exact, what is a model and whose", () => {
    expect(page()).toMatch(
      /2 bytes of parameters, 2 of gradients and 12 of optimizer states per parameter \(AdamW in bf16\)/,
    );
    // 2.6e9 bytes / (1024 tokens x 48 layers x 1600)
    expect(page()).toContain("33.06 bytes of activations per token, layer and element of its width");
    expect(page()).toContain("Shunya&#39;s own engine".replace("&#39;", "'"));
    expect(page({ engine: "deepspeed" })).toContain("formulas for DeepSpeed under PyTorch");
  });

  test("shows a planned card that is none of the known ones", () => {
    expect(page({ card: "my own" })).toContain('<option value="my own" selected>my own: 23.6 GB usable</option>');
  });
});
