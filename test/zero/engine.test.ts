// The engine's calls in a world of one: their order, what they answer, and what bad input is told.
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { DisposedError, NumericalError, ShapeError, UsageError } from "../../src/errors/errors.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { HostBatch } from "../../src/zero/batch.ts";
import type { Engine } from "../../src/zero/engine.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import { batchOf } from "../laws/jobs.ts";
import { engineOf, smallJob, trainStep } from "./support.ts";

const job = smallJob();
const batch = (): HostBatch<LanguageBatch> => batchOf(job, 0, 2);

async function weightsOf(engine: Engine<LanguageBatch>): Promise<Map<string, Float32Array>> {
  const weights = new Map<string, Float32Array>();
  for await (const { name, values } of engine.weights()) weights.set(name, values);
  return weights;
}

describe("forward, backward, step", () => {
  test("a step answers once all its micro-batches have run", async () => {
    const config = { train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 2 };
    await using engine = await engineOf({ job: { ...job, config } });
    const heard: StepRecord[] = [];
    engine.on("step", (record) => heard.push(record));
    const losses: number[] = [];
    for (let a = 0; a < 2; a++) {
      const loss = await engine.forward(batch());
      losses.push(await loss.item());
      await engine.backward(loss);
      if (a === 0) expect(await engine.step()).toBeUndefined();
    }
    const record = (await engine.step())!;
    expect(heard).toEqual([record]);
    expect(record.step).toBe(1);
    expect(record.loss).toBeCloseTo((losses[0]! + losses[1]!) / 2, 6);
    expect(record.skipped).toBe(false);
    expect(record.ranks).toHaveLength(1);
    expect(engine.steps).toBe(1);
  });

  test("calls out of order are refused, and training goes on", async () => {
    await using engine = await engineOf({ job });
    const loss = await engine.forward(batch());
    await expect(engine.forward(batch())).rejects.toThrow(UsageError);
    await expect(engine.step()).rejects.toThrow(/before engine.backward/);
    await engine.backward(loss);
    await expect(engine.backward(loss)).rejects.toThrow(UsageError);
    await expect(engine.forward(batch())).rejects.toThrow(/call engine.step\(\)/);
    expect((await engine.step())!.step).toBe(1);
    expect((await trainStep(engine, job, 1)).step).toBe(2);
  });

  test("calls that overlap are refused: a step updates once", async () => {
    await using engine = await engineOf({ job });
    const loss = await engine.forward(batch());
    await engine.backward(loss);
    const first = engine.step();
    await expect(engine.step()).rejects.toThrow(/while engine.step is running; await each call/);
    await expect(engine.forward(batch())).rejects.toThrow(UsageError);
    expect((await first)!.step).toBe(1);
    expect((await trainStep(engine, job, 1)).step).toBe(2);
  });

  test("only the loss of this engine's last forward goes backward", async () => {
    await using engine = await engineOf({ job });
    await using other = await engineOf({ job });
    const foreign = await other.forward(batch());
    const loss = await engine.forward(batch());
    await expect(engine.backward(foreign)).rejects.toThrow(/this engine's last forward/);
    await engine.backward(loss);
    expect((await engine.step())!.step).toBe(1);
  });

  test("an engine is disposed after the call that runs, and then says so", async () => {
    const engine = await engineOf({ job });
    await engine.backward(await engine.forward(batch()));
    const step = engine.step();
    await engine[Symbol.asyncDispose]();
    expect((await step)!.step).toBe(1);
    await engine[Symbol.asyncDispose]();
    await expect(engine.forward(batch())).rejects.toThrow(DisposedError);
  });

  test.each([
    ["no batch", null, /engine.forward/],
    [
      "an array of numbers",
      { inputs: { data: [1, 2], shape: [1, 2] } },
      /batch.inputs.data: found a Array; wanted an Int32/,
    ],
    ["bytes", { inputs: { data: new Uint8Array(2), shape: [1, 2] } }, /found a Uint8Array/],
    ["a field without data", { inputs: undefined }, /batch.inputs.data: found undefined/],
    ["no window", { inputs: { data: new Int32Array(0), shape: [0, 16] } }, /wanted positive whole numbers/],
    ["a shape in fractions", { inputs: { data: new Int32Array(32), shape: [2.5, 12.8] } }, /shape \[2.5,12.8\]/],
  ])("a batch that is %s is named", async (_what, wrong, message) => {
    await using engine = await engineOf({ job });
    await expect(engine.forward(wrong as never)).rejects.toThrow(message);
  });

  test("leaving with an error shows that error, not one about disposal", async () => {
    const train = async (): Promise<void> => {
      await using engine = await engineOf({ job });
      const { inputs, targets } = batch();
      const wrong = { data: Int32Array.from(inputs.data, () => 999_999), shape: inputs.shape };
      await engine.backward(await engine.forward({ inputs: wrong, targets: targets! }));
      await engine.step();
    };
    await expect(train()).rejects.toThrow(/999999/);
  });

  test("a batch whose data does not fill its shape is named", async () => {
    await using engine = await engineOf({ job });
    const { inputs, targets } = batch();
    const short = { inputs: { ...inputs, shape: [2, 15] }, targets };
    await expect(engine.forward(short as HostBatch<LanguageBatch>)).rejects.toThrow(ShapeError);
  });

  test("the loss that was answered is the one that the record holds", async () => {
    await using engine = await engineOf({ job });
    const loss = await engine.forward(batch());
    await engine.backward(loss);
    const { loss: recorded } = (await engine.step())!;
    expect(await loss.item()).toBe(recorded);
  });
});

describe("targets that do not count", () => {
  const config = { train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 2 };
  /** A micro-batch of which only the first so many targets count. */
  const counting = (count: number): HostBatch<LanguageBatch> => {
    const { inputs, targets } = batch();
    const data = Int32Array.from(targets!.data, (target, i) => (i < count ? target : -1));
    return { inputs, targets: { data, shape: targets!.shape } };
  };
  const step = async (engine: Engine<LanguageBatch>, counts: readonly number[], stepTargets?: number) => {
    const losses: number[] = [];
    for (const count of counts) {
      const loss = await engine.forward(counting(count), stepTargets === undefined ? {} : { stepTargets });
      losses.push(await loss.item());
      await engine.backward(loss);
    }
    return { losses, record: (await engine.step())! };
  };

  test("the step's loss is the mean over those that count, and a micro-batch may have none", async () => {
    await using engine = await engineOf({ job: { ...job, config } });
    const wanted = (await engine.evaluate(counting(7))) * 7;
    const { losses, record } = await step(engine, [7, 0], 7);
    expect(record.loss).toBeCloseTo(wanted / 7, 6);
    expect(record.targets).toBe(7);
    expect(losses).toEqual([2 * record.loss, 0]);
    expect(await engine.evaluate(counting(0))).toBe(0);
  });

  test("a step of which nothing counts changes nothing by its gradient", async () => {
    await using engine = await engineOf({ job: { ...job, config } });
    const { record } = await step(engine, [0, 0]);
    expect(record).toMatchObject({ loss: 0, gradNorm: 0, skipped: false });
  });

  test("equal numbers need not be told, and telling them changes no bit", async () => {
    await using told = await engineOf({ job: { ...job, config } });
    await using untold = await engineOf({ job: { ...job, config } });
    const [{ record: one }, { record: other }] = [await step(told, [32, 32], 64), await step(untold, [32, 32])];
    expect([one.loss, one.gradNorm]).toEqual([other.loss, other.gradNorm]);
  });

  test.each([
    ["unequal ones that nobody told of", [7, 9], undefined, /7 to 9 targets that count.*\{ stepTargets \}/],
    ["another number than there are", [7, 9], 15, /told of 15 stepTargets, and the micro-batches of all ranks held 16/],
    ["no number", [7, 9], Number.NaN, /stepTargets: found NaN; wanted the number of targets/],
    ["none at all", [7, 9], 0, /stepTargets: found 0/],
    ["half a target", [7, 9], 1.5, /stepTargets: found 1.5/],
  ] as const)("refused: %s", async (_what, counts, stepTargets, message) => {
    await using engine = await engineOf({ job: { ...job, config } });
    const failing = step(engine, counts, stepTargets);
    await expect(failing).rejects.toThrow(UsageError);
    await expect(failing).rejects.toThrow(message);
  });

  test("what is refused at the end of a step is dropped with it, and the next one is as if it had not been", async () => {
    await using engine = await engineOf({ job: { ...job, config } });
    await using other = await engineOf({ job: { ...job, config } });
    await expect(step(engine, [7, 9], 15)).rejects.toThrow(UsageError);
    const [{ record: found }, { record: wanted }] = [await step(engine, [7, 9], 16), await step(other, [7, 9], 16)];
    expect([found.step, found.loss, found.gradNorm]).toEqual([1, wanted.loss, wanted.gradNorm]);
  });

  test("refused: another number in the same step", async () => {
    await using engine = await engineOf({ job: { ...job, config } });
    await engine.backward(await engine.forward(counting(7), { stepTargets: 16 }));
    await expect(engine.forward(counting(9))).rejects.toThrow(/found stepTargets undefined after 16/);
  });
});

describe("clipping", () => {
  const lastWeights = async (gradient_clipping: number) => {
    const config = {
      train_micro_batch_size_per_gpu: 2,
      gradient_clipping,
      // A large epsilon makes Adam feel the size of its gradients.
      optimizer: { type: "Adam", params: { lr: 0.1, eps: 1 } },
    };
    await using engine = await engineOf({ job: { ...job, config } });
    const norms: number[] = [];
    for (let step = 0; step < 3; step++) norms.push((await trainStep(engine, job, step)).gradNorm!);
    const hash = createHash("sha256");
    for (const values of (await weightsOf(engine)).values()) hash.update(values);
    return { norms, weights: hash.digest("hex") };
  };

  test("a norm that is not reached changes nothing, and the logged norm is the one before clipping", async () => {
    const none = await lastWeights(0);
    const far = await lastWeights(1e6);
    const tight = await lastWeights(0.01);
    expect(far).toEqual(none);
    expect(tight.norms[0]).toBe(none.norms[0]);
    expect(tight.norms[0]).toBeGreaterThan(0.1);
    expect(tight.weights).not.toEqual(none.weights);
  });
});

describe("numbers that are not finite", () => {
  test("stop training before anything is updated, and say where", async () => {
    const config = { train_micro_batch_size_per_gpu: 2, optimizer: { type: "Adam", params: { lr: 1e30 } } };
    await using engine = await engineOf({ job: { ...job, config } });
    await trainStep(engine, job, 0);
    const before = await weightsOf(engine);
    const failing = (async () => {
      for (let step = 1; step < 6; step++) await trainStep(engine, job, step);
    })();
    await expect(failing).rejects.toThrow(NumericalError);
    await expect(failing).rejects.toThrow(/step \d: .*no parameter was changed/);
    expect(engine.progress).toMatchObject({ attempted: 2, updates: 1 });
    expect(await weightsOf(engine)).toEqual(before);
  });
});
