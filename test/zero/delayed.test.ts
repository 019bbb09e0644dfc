// The one-step delayed update against its definition, in a few lines of plain arithmetic: the gradient that step i computed at
// parameters theta(i - 1) is applied to theta(i). Gradients of the reference come from an engine without offload, step by step.
import { describe, expect, test } from "vitest";
import { initializeIn } from "../../src/launch/initialize.ts";
import { joinWorld } from "../../src/launch/world.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import { expectedStates } from "../../src/plan/expected.ts";
import type { Engine } from "../../src/zero/engine.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import { configOf, type Job } from "../laws/jobs.ts";
import { buildModel, gpt2 } from "../laws/models.ts";
import { smallJob, trainStep } from "./support.ts";

type Weights = Map<string, Float32Array>;

const steps = 6;
const lr = 0.02;
const momentum = 0.9;
const sgd = { type: "SGD", params: { lr, momentum } };

interface Variant {
  readonly stage?: number;
  readonly accumulation?: number;
  readonly clip?: number;
  readonly more?: object;
  readonly startStep?: number;
  readonly device?: "cpu" | "nvme";
  readonly parameters?: "none" | "cpu" | "nvme";
}

const configFor = (v: Variant, optimizer: object, offload: boolean): object => {
  const nvme_path = process.cwd();
  return {
    train_micro_batch_size_per_gpu: 2,
    gradient_accumulation_steps: v.accumulation ?? 1,
    gradient_clipping: v.clip ?? 0,
    optimizer,
    ...v.more,
    zero_optimization: {
      stage: v.stage ?? 2,
      ...(offload && { offload_optimizer: { device: v.device ?? "cpu", nvme_path } }),
      ...(offload && v.parameters && { offload_param: { device: v.parameters, nvme_path } }),
    },
    ...(offload && { shunya: { delayed_update: v.startStep === undefined ? true : { start_step: v.startStep } } }),
  };
};

const start = (job: Job, weights?: Weights): Promise<Engine<LanguageBatch>> =>
  initializeIn<LanguageBatch>(joinWorld({ threads: 1 }), configOf(job.config, 1), {
    model: buildModel(job.model, 0),
    ...(weights && {
      weights: {
        has: (name: string) => weights.has(name),
        read: async (name: string, first: number, count: number) => weights.get(name)!.slice(first, first + count),
      },
    }),
  });

async function weightsOf(engine: Engine<LanguageBatch>): Promise<Weights> {
  const all: Weights = new Map();
  for await (const { name, values } of engine.weights()) all.set(name, values);
  return all;
}

const jobWith = (config: object): Job => smallJob({ config, model: gpt2({ layers: 1 }) });

/** The gradient at `weights` of this step's batch, as the difference that plain descent makes, and what the step recorded. */
async function gradientAt(
  weights: Weights,
  step: number,
  v: Variant,
): Promise<{ gradient: Weights; record: StepRecord }> {
  const job = jobWith(configFor({ ...v, clip: 0 }, { type: "SGD", params: { lr: 1 } }, false));
  await using engine = await start(job, weights);
  const record = await trainStep(engine, job, step);
  const after = await weightsOf(engine);
  return { gradient: map(weights, (w, name, i) => w - after.get(name)![i]!), record };
}

const map = (weights: Weights, to: (value: number, name: string, i: number) => number): Weights =>
  new Map([...weights].map(([name, values]) => [name, values.map((value, i) => to(value, name, i))]));

/** Momentum SGD with the gradients of the step before, from `startStep` on. */
async function reference(first: Weights, v: Variant): Promise<{ weights: Weights; losses: number[] }> {
  let theta = first; // what updates have made
  let visible = first; // what passes see
  let moment: Weights | undefined;
  const losses: number[] = [];
  for (let step = 1; step <= steps; step++) {
    const { gradient, record } = await gradientAt(visible, step - 1, v);
    losses.push(record.loss);
    const factor = v.clip ? Math.min(1, v.clip / (record.gradNorm! + 1e-6)) : 1;
    const before = moment;
    moment = map(gradient, (g, name, i) => factor * g + (before ? momentum * before.get(name)![i]! : 0));
    const isDelayed = step >= (v.startStep ?? 1);
    const updated = map(theta, (w, name, i) => w - lr * moment!.get(name)![i]!);
    visible = isDelayed ? theta : updated;
    theta = updated;
  }
  return { weights: theta, losses };
}

const largestDifference = (a: Weights, b: Weights): number =>
  Math.max(...[...a].flatMap(([name, values]) => [...values].map((w, i) => Math.abs(w - b.get(name)![i]!))));

async function run(v: Variant, offload: boolean) {
  const job = jobWith(configFor(v, sgd, offload));
  await using engine = await start(job);
  const first = await weightsOf(engine);
  const records: StepRecord[] = [];
  for (let step = 0; step < steps; step++) records.push(await trainStep(engine, job, step));
  return { first, records, last: await weightsOf(engine), losses: records.map((r) => r.loss) };
}

describe("the trajectory of delayed updates is its definition", () => {
  test.each<[string, Variant]>([
    ["stage 1", { stage: 1 }],
    ["stage 2, clipped", { stage: 2, clip: 0.1 }],
    ["stage 3, three micro-batches", { stage: 3, accumulation: 3 }],
    ["stage 3, parameters in host memory", { stage: 3, parameters: "cpu" }],
    ["states and parameters on disk", { stage: 3, device: "nvme", parameters: "nvme" }],
    ["from step 4 on", { stage: 2, startStep: 4 }],
  ])("%s", async (_name, v) => {
    const delayed = await run(v, true);
    const wanted = await reference(delayed.first, v);
    const moved = largestDifference(delayed.first, wanted.weights);
    delayed.losses.forEach((loss, i) => {
      expect(Math.abs(loss / wanted.losses[i]! - 1)).toBeLessThan(1e-5);
    });
    expect(largestDifference(delayed.last, wanted.weights) / moved).toBeLessThan(1e-4);
    // The comparison could tell: without the delay the weights are others.
    const plain = await run(v, false);
    expect(largestDifference(plain.last, wanted.weights) / moved).toBeGreaterThan(2e-3);
  });

  test("an overflow leaves out its own gradients only", async () => {
    const fp16 = { fp16: { enabled: true, initial_scale_power: 21, hysteresis: 1 } };
    const { records, first, last } = await run({ more: fp16 }, true);
    const skips = records.map((r) => r.skipped);
    const applied = skips.indexOf(false);
    expect(applied).toBeGreaterThan(0);
    expect(skips.slice(applied)).toEqual(Array(steps - applied).fill(false));
    // As if the run had begun with the first step that was applied.
    let theta = first;
    let visible = first;
    let moment: Weights | undefined;
    for (let step = applied; step < steps; step++) {
      const { gradient } = await gradientAt(visible, step, {});
      const before = moment;
      moment = map(gradient, (g, name, i) => g + (before ? momentum * before.get(name)![i]! : 0));
      visible = theta;
      theta = map(theta, (w, name, i) => w - lr * moment!.get(name)![i]!);
    }
    expect(largestDifference(last, theta) / largestDifference(first, theta)).toBeLessThan(0.02);
  });
});

test("memory: a second gradient and the parameters that are not yet to be seen", async () => {
  const hostOf = async (delayed: boolean) => {
    const job = jobWith({
      train_micro_batch_size_per_gpu: 2,
      bf16: { enabled: true },
      zero_optimization: { stage: 2, offload_optimizer: { device: "cpu" } },
      ...(delayed && { shunya: { delayed_update: true } }),
    });
    await using engine = await start(job);
    return { plan: engine.plan, host: (await trainStep(engine, job, 0)).ranks[0]!.memory.host };
  };
  const { host: without } = await hostOf(false);
  const { host: withDelay, plan: withPlan } = await hostOf(true);
  expect(withDelay.gradients.current).toBe(2 * without.gradients.current);
  expect(withDelay.parameters.current).toBe(without.gradients.current);
  expect(withDelay.optimizer.current).toBe(without.optimizer.current);
  const foretold = expectedStates(withPlan, "host");
  expect(withDelay.gradients.current).toBe(foretold.gradients.bytes);
  expect(withDelay.parameters.current).toBe(foretold.parameters.bytes);
});
