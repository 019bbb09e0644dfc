import { expect, test } from "vitest";
import {
  arithmeticIntensity,
  bandwidthFor,
  efficiencyAt,
  type GptShape,
  gptParameters,
  infinityPeak,
  infinityRequirements,
} from "../../src/planner/infinity.ts";

const shape = (layers: number, hiddenKi: number, heads: number): GptShape => ({
  layers,
  hidden: hiddenKi * 1024,
  heads,
  sequence: 1024,
  checkpointInterval: 1,
});
const tebibyte = 2 ** 40;
const gibibyte = 2 ** 30;

// ZeRO-Infinity, Figure 2a. Activations of a node are for a batch of 64, its checkpoints for 32, working memory of a device for 4. The
// first row's model-state working memory is 1.56 by the formula; the figure is remembered to print 1.95.
test.each([
  {
    layers: 80,
    hidden: 10,
    heads: 128,
    trillions: 0.1,
    states: 1.83,
    all: 2.03,
    kept: 0.05,
    stateWork: 1.56,
    work: 1.63,
  },
  {
    layers: 100,
    hidden: 20,
    heads: 160,
    trillions: 0.5,
    states: 9.16,
    all: 3.91,
    kept: 0.12,
    stateWork: 6.25,
    work: 2.5,
  },
  {
    layers: 128,
    hidden: 25,
    heads: 256,
    trillions: 1.01,
    states: 18.31,
    all: 7.13,
    kept: 0.2,
    stateWork: 9.77,
    work: 3.56,
  },
  {
    layers: 195,
    hidden: 64,
    heads: 512,
    trillions: 10.05,
    states: 182.81,
    all: 24.38,
    kept: 0.76,
    stateWork: 64,
    work: 8,
  },
  {
    layers: 315,
    hidden: 160,
    heads: 1024,
    trillions: 101.47,
    states: 1845.7,
    all: 88.59,
    kept: 3.08,
    stateWork: 400,
    work: 18,
  },
])("a model of $trillions trillion parameters needs what the paper says", (row) => {
  const model = shape(row.layers, row.hidden, row.heads);
  const needs = (batch: number) => infinityRequirements(model, batch);
  // Two digits are printed.
  const near = (value: number, printed: number): void => expect(Math.abs(value - printed)).toBeLessThan(0.0051);
  near(gptParameters(model) / 1e12, row.trillions);
  near(needs(1).modelStates / tebibyte, row.states);
  near(needs(64).activations / tebibyte, row.all);
  near(needs(32).checkpoints / tebibyte, row.kept);
  near(needs(1).modelStateWorkingMemory / gibibyte, row.stateWork);
  near(needs(4).activationWorkingMemory / gibibyte, row.work);
});

test("checkpoints farther apart are fewer, and more is made again between them", () => {
  const model = { ...shape(100, 8, 64), checkpointInterval: 4 };
  const every = infinityRequirements(shape(100, 8, 64), 2);
  const fourth = infinityRequirements(model, 2);
  expect(fourth.checkpoints).toBe(every.checkpoints / 4);
  expect(fourth.activationWorkingMemory).toBe(4 * every.activationWorkingMemory);
  expect(fourth.activations).toBe(every.activations);
});

test.each([
  ["parametersAndGradients", 1, 8, 70e9, 0.506],
  ["optimizerStates", 1, 8, 280e9, 0.506],
  ["optimizerStates", 2, 8, 1.5e12, 0.916],
  ["checkpoints", 1, 2, 2e9, 0.584],
  ["checkpoints", 1, 8, 0.36e9, 0.503],
] as const)(
  "%s at batch %i and hidden %i Ki over %s bytes/s are %s efficient",
  (data, batch, hidden, rate, efficiency) => {
    const intensity = arithmeticIntensity[data](shape(100, hidden, 64), batch);
    expect(efficiencyAt(intensity, rate, infinityPeak)).toBeCloseTo(efficiency, 3);
  },
);

test.each([
  [0.5, 68.4],
  [0.8, 273],
  [0.9, 615],
  [0.95, 1299],
])("an efficiency of %s for parameters and gradients takes %s GB/s", (efficiency, gigabytes) => {
  const intensity = arithmeticIntensity.parametersAndGradients(shape(100, 8, 64), 1);
  const rate = bandwidthFor(efficiency, intensity, infinityPeak);
  expect(Math.abs(rate / 1e9 - gigabytes) / gigabytes).toBeLessThan(0.002);
  expect(efficiencyAt(intensity, rate, infinityPeak)).toBeCloseTo(efficiency, 12);
});

test("checkpoints of a model 8 Ki wide need 0.36 GB/s for half the peak", () => {
  const intensity = arithmeticIntensity.checkpoints(shape(100, 8, 64), 1);
  expect(bandwidthFor(0.5, intensity, infinityPeak) / 1e9).toBeCloseTo(0.36, 2);
});

test.each([0, 1, -0.5, 2, Number.NaN])("an efficiency of %s is refused", (efficiency) => {
  expect(() => bandwidthFor(efficiency, 1024, infinityPeak)).toThrow(RangeError);
});
