// What of Llama's family needs no files and no training: angles of positions by hand, and shapes that cannot be.
import { expect, test } from "vitest";
import { ShapeError } from "../../src/errors/errors.ts";
import { Llama } from "../../src/nn/models/llama.ts";
import { type LlamaConfig, type RopeScaling, windowOf } from "../../src/nn/models/llama-config.ts";
import { llamaConfigs } from "../../src/nn/models/llama-published.ts";
import { createModel, publishedConfig } from "../../src/nn/models/models.ts";
import { ropeAngles } from "../../src/nn/models/rope-angles.ts";
import { cpuDevice, tapeOn } from "../tensor/support.ts";

const config: LlamaConfig = {
  ...llamaConfigs["smollm-135m"]!,
  ...{ hidden: 16, heads: 2, keyValueHeads: 1, headWidth: 4, feedForward: 8, layers: 1, vocabularySize: 5 },
  ropeTheta: 100,
};

/** Radians per place of each pair of a head of four: from the second place's sines and cosines. */
function frequencies(
  ropeScaling: RopeScaling | undefined,
  changes: Partial<LlamaConfig> = {},
  textTokens = 2,
): number[] {
  const [cos0, cos1, sin0, sin1] = ropeAngles({ ...config, ...changes, ropeScaling }, 2, textTokens).subarray(4);
  return [Math.atan2(sin0!, cos0!), Math.atan2(sin1!, cos1!)];
}

const expectNear = (found: readonly number[], wanted: readonly number[]): void => {
  expect(found).toHaveLength(wanted.length);
  for (const [i, value] of wanted.entries()) expect(found[i]).toBeCloseTo(value, 6);
};

test("pairs turn by theta^(-2i / width) a place, and the first place not at all", () => {
  expect([...ropeAngles(config, 1, 1)]).toEqual([1, 1, 0, 0]);
  expectNear(frequencies(undefined), [1, 0.1]);
  expectNear(frequencies(undefined, { ropeTheta: 10000 }), [1, 0.01]);
  const far = ropeAngles(config, 4, 4).subarray(12);
  expectNear([...far], [Math.cos(3), Math.cos(0.3), Math.sin(3), Math.sin(0.3)]);
});

test("the rules for longer positions, by hand", () => {
  expectNear(frequencies({ type: "linear", factor: 4 }), [0.25, 0.025]);
  // theta grows by (factor x length / positions - factor + 1), which is 1 up to the model's positions.
  expectNear(frequencies({ type: "dynamic", factor: 4 }), [1, 0.1]);
  const llama3 = { type: "llama3", factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4 } as const;
  // 100 places: the pairs go round 15.9 and 1.59 times. The first stays, the second is (1.59 - 1) / 3 of the way there.
  const smooth = (10 / (2 * Math.PI) - 1) / 3;
  expectNear(frequencies({ ...llama3, originalPositions: 100 }), [1, (0.1 * (1 - smooth)) / 8 + 0.1 * smooth]);
  // 6 places: less than once, both.
  expectNear(frequencies({ ...llama3, originalPositions: 6 }), [0.125, 0.0125]);
  const yarn = { type: "yarn", factor: 4, betaFast: 32, betaSlow: 1, attentionFactor: 1 } as const;
  // The ramp goes from pair 0 to pair 2: the second is half its own and half a quarter of it.
  expectNear(frequencies({ ...yarn, originalPositions: 100 }), [1, 0.05 + 0.0125]);
  const louder = ropeAngles(
    { ...config, ropeScaling: { ...yarn, originalPositions: 100, attentionFactor: 1.5 } },
    1,
    1,
  );
  expect([...louder]).toEqual([1.5, 1.5, 0, 0]);
});

test("longrope divides by other factors where the text is longer than the original positions", () => {
  const ropeScaling: RopeScaling = {
    type: "longrope",
    ...{ factor: 4, originalPositions: 10, attentionFactor: 1 },
    ...{ shortFactors: [1, 2], longFactors: [4, 5] },
  };
  expectNear(frequencies(ropeScaling, {}, 10), [1, 0.05]);
  expectNear(frequencies(ropeScaling, {}, 11), [0.25, 0.02]);
  const louder = { ...config, ropeScaling: { ...ropeScaling, attentionFactor: 1.5 } };
  expect([...ropeAngles(louder, 1, 11)]).toEqual([1.5, 1.5, 0, 0]);
  expect(createModel(louder).shortTextTokens).toBe(10);
  expect(createModel(config).shortTextTokens).toBeUndefined();
});

test("the longest sequence is the positions', whatever the window; and a window is that of the layers from one on", () => {
  expect(createModel(publishedConfig("gpt2")!).longestSequence).toBe(1024);
  const slidingWindow = { tokens: 3, fromLayer: 2 };
  expect(createModel({ ...config, slidingWindow }).longestSequence).toBe(2048);
  expect([0, 1, 2, 3].map((layer) => windowOf({ ...config, slidingWindow }, layer))).toEqual([
    undefined,
    undefined,
    3,
    3,
  ]);
  expect(windowOf(config, 0)).toBeUndefined();
  expect(publishedConfig("no-such-model")).toBeUndefined();
  expect(publishedConfig("constructor")).toBeUndefined();
});

test("a sequence beyond the positions is a named error before anything is computed", async () => {
  const device = cpuDevice();
  {
    using tape = tapeOn(device);
    const inputs = tape.integers(Int32Array.from([0, 1, 2, 3]), [1, 4]);
    const wanted = /4 tokens.*at most 3, the model's positions/;
    await expect(createModel({ ...config, positions: 3 }).nextLogits(tape, inputs)).rejects.toThrow(wanted);
  }
  device.dispose();
});

test("heads that do not go together are refused", () => {
  expect(() => new Llama({ ...config, heads: 3, keyValueHeads: 2 })).toThrow(ShapeError);
  expect(() => new Llama({ ...config, headWidth: 5 })).toThrow(/heads of an even width/);
});
