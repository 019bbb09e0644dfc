/**
 * Whole trajectories against PyTorch 1.13's own: five weights, gradients that are exact in fp32, the same order of operations.
 * The numbers are what torch.optim left after the last update.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { OptimizerConfig, ScheduleConfig } from "../../src/config/types.ts";
import type { Device, DeviceBuffer } from "../../src/device/device.ts";
import { type OptimizerPart, optimizerParts } from "../../src/device/ledger.ts";
import { ParameterGroups } from "../../src/optim/groups.ts";
import { createOptimizer, type UpdateStep } from "../../src/optim/optimizer.ts";
import { learningRateOf, momentumOf } from "../../src/optim/schedules.ts";
import { expectClose } from "../kits/support.ts";
import { cpuDevice } from "../tensor/support.ts";

const start = Float32Array.of(0.5, -1.25, 2, -0.03125, 0.75);
const gradientOf = (update: number): Float32Array =>
  start.map((_, i) => ((((i * 7 + update * 5) % 11) - 5) / 64) * ((i + update) % 3 ? 1 : 4));

let device: Device;
beforeAll(() => {
  device = cpuDevice();
});
afterAll(() => device.dispose());

function place(values: Float32Array): DeviceBuffer {
  const buffer = device.allocate("other", values.byteLength);
  device.upload(buffer.at(0), new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  return buffer;
}

/** The weights after `updates` updates with the numbers that `stepOf` gives for each. */
async function train(config: OptimizerConfig, updates: number, stepOf: (update: number) => Partial<UpdateStep>) {
  const optimizer = createOptimizer(config);
  const { learningRate, weightDecay } = config;
  const master = place(start);
  const states = new Map(optimizerParts.map((part) => [part, place(new Float32Array(5))]));
  for (let update = 1; update <= updates; update++) {
    const range = {
      count: 5,
      master: master.at(0),
      gradient: place(gradientOf(update)).at(0),
      gradientType: "f32",
      parameter: null,
      parameterType: "f32",
      state: (part: OptimizerPart) => states.get(part)!.at(0),
    } as const;
    const own = { update, learningRate, weightDecay, momentum: undefined, gradientScale: 1 };
    optimizer.issue(device, "compute", range, { ...own, ...stepOf(update) });
  }
  const bytes = await device.read(master.at(0), "f32", 5, new Float32Array(5));
  return new Float32Array(bytes.buffer);
}

const plain = { learningRate: 0.1, weightDecay: 0 };
const sgd = { type: "SGD", ...plain, momentum: 0, dampening: 0, nesterov: false } as const;
const adagrad = { type: "Adagrad", ...plain, epsilon: 1e-10, learningRateDecay: 0, initialAccumulator: 0 } as const;
const adam = { ...plain, weightDecay: 0.05, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, biasCorrection: true } as const;

const afterSixUpdates: readonly (readonly [string, OptimizerConfig, readonly number[]])[] = [
  ["SGD", sgd, [0.4765625, -1.271875023841858, 2.0140626430511475, -0.03593749925494194, 0.729687511920929]],
  [
    "SGD with decay",
    { ...sgd, weightDecay: 0.05 },
    [0.46185728907585144, -1.2348315715789795, 1.9549835920333862, -0.03508949279785156, 0.7074995040893555],
  ],
  [
    "SGD with momentum and decay",
    { ...sgd, momentum: 0.9, weightDecay: 0.05 },
    [0.4164060056209564, -1.1682183742523193, 1.8197858333587646, -0.02027778886258602, 0.6531867980957031],
  ],
  [
    "SGD with dampened momentum",
    { ...sgd, momentum: 0.9, dampening: 0.3 },
    [0.4718255400657654, -1.260292887687683, 1.9688750505447388, -0.02316139079630375, 0.7397006750106812],
  ],
  [
    "SGD with Nesterov's momentum and decay",
    { ...sgd, momentum: 0.9, nesterov: true, weightDecay: 0.05 },
    [0.38765960931777954, -1.163093090057373, 1.7964597940444946, -0.02546236850321293, 0.6210520267486572],
  ],
  [
    "Adagrad",
    adagrad,
    [0.3512839674949646, -1.2433674335479736, 2.005971670150757, -0.0035078413784503937, 0.7133163213729858],
  ],
  [
    "Adagrad with decays, an initial accumulator and epsilon",
    { ...adagrad, weightDecay: 0.05, learningRateDecay: 0.2, initialAccumulator: 0.5, epsilon: 1e-6 },
    [0.467238187789917, -1.2269327640533447, 1.9478424787521362, -0.03210635483264923, 0.7170520424842834],
  ],
  [
    "Adam with decay in the gradient",
    { type: "Adam", ...adam },
    [0.12109354138374329, -0.9264428615570068, 1.6271116733551025, 0.0614040270447731, 0.598318874835968],
  ],
  [
    "AdamW",
    { type: "AdamW", ...adam },
    [0.31226634979248047, -1.1218637228012085, 1.815151333808899, 0.067689910531044, 0.8016862869262695],
  ],
];

test.each(afterSixUpdates)("%s", async (_, config, wanted) => {
  expectClose(await train(config, 6, () => ({})), wanted, "f32", 8, 1);
});

// torch with DeepSpeed's WarmupLR: rates from 0.01, over four steps, to each group's own.
const warmup: ScheduleConfig = {
  type: "WarmupLR",
  warmupType: "linear",
  warmupSteps: 4,
  minLearningRate: 0.01,
  maxLearningRate: undefined,
};

test.each([
  [
    { type: "AdamW", ...adam },
    [
      [0.3360293209552765, -1.2942320108413696, 2.0049421787261963, -0.006255141459405422, 0.6342575550079346],
      [0.059567391872406006, -1.499212622642517, 2.1927638053894043, 0.02665729820728302, 0.4244932234287262],
    ],
  ],
  [
    { ...sgd, momentum: 0.9, weightDecay: 0.05 },
    [
      [0.38701024651527405, -1.1852473020553589, 1.8278850317001343, -0.025254899635910988, 0.6099745035171509],
      [0.322653204202652, -1.4621853828430176, 2.135776996612549, -0.023714059963822365, 0.5677042603492737],
    ],
  ],
] as const)("two groups that warm up, %o", async (config, wanted) => {
  const parameters = ["a", "b"].map((name) => ({ name, trainable: true }));
  const second = { match: ["b"], learningRate: 0.3, weightDecay: 0 };
  const groups = new ParameterGroups(config, [second], parameters);
  for (const [i, { name }] of parameters.entries()) {
    const { learningRate, weightDecay } = groups.numbers[groups.of(name)]!;
    const rateAt = (update: number) => learningRateOf(warmup, learningRate, update);
    const found = await train(config, 8, (update) => ({ learningRate: rateAt(update), weightDecay }));
    expectClose(found, wanted[i]!, "f32", 8, 1);
  }
});

// torch with the momentum of each update written into its group: 0.8, 0.875, 0.85, 0.825, 0.8, 0.825, 0.85, 0.9.
const cycle: ScheduleConfig = {
  type: "OneCycle",
  minLearningRate: 0.1,
  maxLearningRate: 0.1,
  decayRate: 0,
  firstStepSize: 4,
  secondStepSize: 4,
  decayStepSize: 0,
  momentum: { minMomentum: 0.8, maxMomentum: 0.9, decayRate: 0 },
};

test.each([
  [
    { type: "AdamW", ...adam },
    [0.2397751361131668, -1.171976923942566, 1.7872122526168823, 0.07361289858818054, 0.7627995610237122],
  ],
  [
    { ...sgd, momentum: 0.9 },
    [0.4352405071258545, -1.3105461597442627, 2.0142111778259277, -0.026035260409116745, 0.7014135718345642],
  ],
] as const)("a cycled momentum acts on beta1 and on SGD's momentum, %o", async (config, wanted) => {
  const momentumAt = (update: number) => momentumOf(cycle, update);
  expect(momentumAt(9)).toBeCloseTo(0.9, 12);
  const found = await train(config, 8, (update) => ({ momentum: update === 8 ? 0.9 : momentumAt(update) }));
  expectClose(found, wanted, "f32", 8, 1);
});

test("Lion, against its paper's formula in fp64, momentum cycled", async () => {
  const config = { type: "Lion", learningRate: 0.01, weightDecay: 0.1, beta1: 0.9, beta2: 0.99 } as const;
  const elements = Array.from(start, (w) => ({ w, m: 0 }));
  for (let update = 1; update <= 8; update++) {
    const beta1 = momentumOf(cycle, update)!;
    for (const [i, e] of elements.entries()) {
      const g = gradientOf(update)[i]!;
      e.w = e.w * (1 - 0.01 * 0.1) - 0.01 * Math.sign(beta1 * e.m + (1 - beta1) * g);
      e.m = 0.99 * e.m + 0.01 * g;
    }
  }
  const found = await train(config, 8, (update) => ({ momentum: momentumOf(cycle, update) }));
  const wanted = elements.map((e) => e.w);
  expectClose(found, wanted, "f32", 8, 1);
});
