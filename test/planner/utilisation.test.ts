import { describe, expect, test } from "vitest";
import { type ActivationScheme, layerActivationBytes } from "../../src/planner/activation-formulas.ts";
import { stepOperations, tokenOperations, trainingDays, utilisation } from "../../src/planner/utilisation.ts";

const a100 = 312e12;
const h100 = 989.5e12;

describe("activations of a layer (Korthikanti et al. 2022)", () => {
  const schemes: readonly (readonly [ActivationScheme, number])[] = [
    ["tensor", 1],
    ["tensor", 8],
    ["tensorAndSequence", 8],
    ["tensorAndSequenceSelective", 8],
    ["fullRecompute", 1],
  ];
  test.each([
    ["22B", 6144, 64, [1.648, 0.309, 0.206, 0.05, 0.023]],
    ["175B", 12_288, 96, [2.672, 0.539, 0.334, 0.1, 0.047]],
    ["530B", 20_480, 128, [3.828, 0.82, 0.479, 0.166, 0.078]],
    ["1T", 25_600, 160, [4.785, 1.025, 0.598, 0.208, 0.098]],
  ])("%s at 2,048 tokens, in GiB", (_, hidden, heads, wanted) => {
    for (const [i, [scheme, tensorParallel]] of schemes.entries()) {
      const bytes = layerActivationBytes(scheme, { sequence: 2048, microBatch: 1, hidden, heads, tensorParallel });
      expect(Math.abs(bytes / 2 ** 30 - wanted[i]!), scheme).toBeLessThan(0.0006);
    }
  });

  test("split products with recomputed attention keep 13 bytes of each element on each of 8 devices", () => {
    const layer = { sequence: 1000, microBatch: 2, hidden: 1000, heads: 10, tensorParallel: 8 };
    expect(layerActivationBytes("tensorSelective", layer)).toBe(26_000_000);
  });
});

describe("Megatron's runs", () => {
  const runs = [
    { name: "22B", layers: 48, hidden: 6144, batch: 4, ranks: 8, seconds: 1.1, mfu: 41.7, hfu: 43.8 },
    { name: "175B", layers: 96, hidden: 12_288, batch: 64, ranks: 64, seconds: 13.75, mfu: 51.4, hfu: 52.8 },
    { name: "530B", layers: 105, hidden: 20_480, batch: 280, ranks: 280, seconds: 37.83, mfu: 56.0, hfu: 57.0 },
    { name: "1T", layers: 128, hidden: 25_600, batch: 512, ranks: 512, seconds: 71.49, mfu: 56.3, hfu: 57.0 },
  ];
  test.each(runs)("$name has an MFU of $mfu % and an HFU of $hfu %", (run) => {
    const work = { ...run, sequence: 2048, vocabulary: 51_200 };
    const percent = (again: "none" | "selective"): number =>
      100 * utilisation(stepOperations(work, again) / run.seconds, run.ranks, a100);
    expect(Math.abs(percent("none") - run.mfu)).toBeLessThan(0.051);
    expect(Math.abs(percent("selective") - run.hfu)).toBeLessThan(0.051);
  });

  test("BLOOM's shape with every layer computed twice is 16,121 TFLOP a rank and step", () => {
    const work = { layers: 72, hidden: 14_336, sequence: 2048, vocabulary: 250_880, batch: 2048 };
    expect(Math.abs(stepOperations(work, "full") / 384 / 1e12 - 16_121)).toBeLessThan(1);
  });

  // Narayanan et al. 2021, Table 2: the rows of ZeRO-3, 300e9 tokens.
  test.each([
    [96, 12_288, 384, 144, 90],
    [96, 12_288, 768, 88, 74],
    [96, 12_288, 1536, 44, 74],
    [105, 20_480, 640, 138, 169],
    [105, 20_480, 1120, 98, 137],
    [105, 20_480, 2240, 48, 140],
  ])("%i layers of %i on %i ranks at %i TFLOP/s take %i days", (layers, hidden, ranks, teraflops, days) => {
    const step = stepOperations({ layers, hidden, sequence: 2048, vocabulary: 51_200, batch: 1 }, "full");
    expect(Math.abs(trainingDays(300e9, step / 2048, ranks, teraflops * 1e12) - days)).toBeLessThan(1);
  });
});

// llm-foundry's benchmarks: tokens per second and device, TFLOP/s and MFU.
test.each([
  ["7b on H100", 6_658_859_008, 32, 4096, 10_643, h100, 459.5, 46.44],
  ["7b on A100", 6_658_859_008, 32, 4096, 4641, a100, 200.4, 64.22],
  ["13b on H100", 12_853_954_560, 40, 5120, 4792, h100, 393.7, 39.79],
  ["30b on H100", 29_975_214_080, 48, 7168, 2002, h100, 377, 38.1],
  ["70b on H100", 64_862_437_376, 80, 8192, 1007, h100, 408.1, 41.24],
])("MPT %s", (_, parameters, layers, hidden, tokensPerSecond, peak, teraflops, mfu) => {
  const work = { parameters, layers, hidden, sequence: 2048, attention: "whole" } as const;
  const reached = tokensPerSecond * tokenOperations(work);
  expect(Math.abs(reached / 1e12 - teraflops)).toBeLessThan(0.1);
  expect(Math.abs(100 * utilisation(reached, 1, peak) - mfu)).toBeLessThan(0.05);
});

test("PaLM's 238,300 tokens a second on 6,144 chips of 275 TFLOP/s are an MFU of 46.2 %, and 45.7 % without attention", () => {
  const work = { parameters: 540.35e9, layers: 118, hidden: 48 * 256, sequence: 2048, attention: "whole" } as const;
  const percent = (operations: number): number => 100 * utilisation(238_300 * operations, 6144, 275e12);
  expect(percent(tokenOperations(work))).toBeCloseTo(46.2, 1);
  expect(percent(6 * work.parameters)).toBeCloseTo(45.7, 1);
});

test("half of causal attention is a switch", () => {
  const work = { parameters: 1e9, layers: 10, hidden: 1000, sequence: 1000 };
  expect(tokenOperations({ ...work, attention: "whole" })).toBe(6.12e9);
  expect(tokenOperations({ ...work, attention: "causalHalf" })).toBe(6.06e9);
});
