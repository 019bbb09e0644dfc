/**
 * The engine: one training step, told from top to bottom.
 *
 *   forward   each segment of the model enters its unit (gather, wait), issues its ops, leaves it (release when the next comes)
 *   backward  the same in reverse; a unit whose last use is over settles its gradients
 *   step      the ranks agree on the global norm; the optimizer updates what it holds; publish
 *
 * What each verb does, and whether it does anything, follows from the plan's residences; see unit.ts, reduce.ts, step.ts.
 */
import { EventEmitter } from "node:events";
import { ProcessGroup, type Transport } from "../comm/group.ts";
import type { ResolvedConfig } from "../config/types.ts";
import type { Device } from "../device/device.ts";
import { DisposedError, InternalError, InterruptedError, NumericalError, UsageError } from "../errors/errors.ts";
import { type DescribedModel, describeModel } from "../nn/describe.ts";
import type { Module } from "../nn/module.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import { createPlan, type Plan } from "../plan/plan.ts";
import type { SplitRow } from "../plan/residence.ts";
import { RandomKeys } from "../tensor/random.ts";
import { type SegmentHooks, Tape } from "../tensor/tape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkBatch, type HostBatch, type Loss, LossBook, uploadBatch } from "./batch.ts";
import { GradientNorm } from "./norm.ts";
import { exchangeReports, reportOf, type StepRecord } from "./record.ts";
import { GradientSettler } from "./reduce.ts";
import { OptimizerStep } from "./step.ts";
import { type UnitState, Units } from "./unit.ts";
import { gatherPersistent, initialiseWeights, readWeights, type WeightSource, weightsOnly } from "./weights.ts";

export interface EngineOptions<B extends object> {
  /** Its forward makes one number, the loss, from a batch on the device. */
  readonly model: Module & { forward(tape: Tape, batch: B): Promise<Tensor> };
  readonly config: ResolvedConfig;
  readonly device: Device;
  readonly transport: Transport;
  /** Defaults to 42. */
  readonly seed?: number;
  readonly weights?: WeightSource;
  /** Stops training cleanly: all ranks finish the step that is running, and the next `forward` throws InterruptedError. */
  readonly signal?: AbortSignal;
  /** A row of the residence table other than the configured stage's. */
  readonly row?: SplitRow;
}

interface EngineEvents {
  step: [StepRecord];
}

export class Engine<B extends object> {
  // Given
  readonly plan: Plan;
  readonly device: Device;
  readonly group: ProcessGroup;
  readonly #options: EngineOptions<B>;
  readonly #seed: number;
  // Parts
  readonly #units: Units;
  readonly #settler: GradientSettler;
  readonly #norm: GradientNorm;
  readonly #step: OptimizerStep;
  readonly #losses: LossBook;
  readonly #events = new EventEmitter<EngineEvents>();
  // Where training is
  #attempted = 0;
  #updates = 0;
  #microBatch = 0;
  #tape: Tape | undefined;
  #loss: Loss | undefined;
  /** The call that is running; calls share the tape, the ledger's phase and the gradients. */
  #running: { readonly name: string; readonly done: Promise<unknown> } | undefined;
  #isDisposed = false;
  #startedMs = 0;
  /** Some rank was asked to stop; all of them know since the same step. */
  #stopAgreed = false;

  private constructor(options: EngineOptions<B>, model: DescribedModel) {
    const { config, device, transport } = options;
    this.#options = options;
    this.#seed = options.seed ?? 42;
    this.device = device;
    this.plan = createPlan({
      model: model.description,
      config,
      alignmentBytes: device.alignmentBytes,
      ...(options.row && { row: options.row }),
    });
    this.group = new ProcessGroup(device, transport);
    this.#settler = new GradientSettler(device, this.group, this.plan);
    this.#step = new OptimizerStep(device, this.group, this.plan);
    const { states } = createOptimizer(config.optimizer);
    this.#units = new Units(device, this.group, this.plan, model, states, (flat, parameter) =>
      this.#settler.takeGradient(flat, parameter),
    );
    this.#norm = new GradientNorm(device, this.#units.flats);
    this.#losses = new LossBook(device);
  }

  /**
   * Plans, allocates and fills this rank's part. Every rank calls it with the same model and configuration. The engine owns its
   * device and transport from here on, also where this fails.
   */
  static async create<B extends object>(options: EngineOptions<B>): Promise<Engine<B>> {
    const { device, transport } = options;
    let model: DescribedModel | undefined;
    try {
      checkOptions(options);
      model = describeModel(options.model);
      const engine = new Engine(options, model);
      const states = options.weights && weightsOnly(options.weights);
      await initialiseWeights(device, engine.#units.all, model, engine.#seed, states);
      gatherPersistent(device, engine.group, engine.plan, engine.#units.all);
      await engine.#quiet();
      return engine;
    } catch (error) {
      for (const parameter of model?.parameters.values() ?? []) parameter.bind(undefined);
      transport.dispose();
      device.dispose();
      throw error;
    }
  }

  /** Attempted steps so far. */
  get steps(): number {
    return this.#attempted;
  }

  /** `engine.on("step", (record) => ...)`: called on every rank after each step. */
  on<K extends keyof EngineEvents>(event: K, listener: (...args: EngineEvents[K]) => void): this {
    this.#events.on(event, listener as never);
    return this;
  }

  /** Runs the model on this rank's next micro-batch. Resolves when everything is issued; `loss.item()` waits for the value. */
  forward(batch: HostBatch<B>): Promise<Loss> {
    return this.#alone("forward", () => this.#forward(batch));
  }

  /** Gradients of this micro-batch, settled unit by unit as the pass goes. @param loss what the last `forward` gave */
  backward(loss: Loss): Promise<void> {
    return this.#alone("backward", () => this.#backward(loss));
  }

  /**
   * Updates the parameters once all micro-batches of the step have run; before that it does nothing and returns undefined, as
   * in DeepSpeed. @throws NumericalError, with nothing updated, when a gradient is not finite
   */
  async step(): Promise<StepRecord | undefined> {
    const record = await this.#alone("step", () => this.#update());
    if (record) this.#events.emit("step", record);
    return record;
  }

  /** @internal For forecasts, which count micro-batches that are all alike instead of running them. */
  skipMicroBatches(count: number): void {
    this.#microBatch += count;
  }

  async #forward(batch: HostBatch<B>): Promise<Loss> {
    this.#checkStop();
    if (this.#tape) throw new UsageError("engine.forward was called twice; call engine.backward(loss) in between");
    if (this.#microBatch === this.plan.config.gradientAccumulation)
      throw new UsageError(`all ${this.#microBatch} micro-batches of this step have run; call engine.step()`);
    checkBatch(batch);
    if (this.#microBatch === 0) this.#beginStep();
    this.device.ledger.beginPhase("forward");
    this.#units.beginPass("train");
    this.#settler.beginMicroBatch(this.#microBatch);
    for (const unit of this.#units.all) Object.assign(unit, { openUses: 0, isSettled: false });
    const { microBatch, trainBatch, activationCheckpointing, worldSize } = this.plan.config;
    const firstSample = this.#attempted * trainBatch + (this.#microBatch * worldSize + this.group.rank) * microBatch;
    this.#tape = new Tape({
      device: this.device,
      dtype: this.plan.residences.parameters.dtype,
      training: true,
      hooks: this.#trainingHooks(),
      checkpointing: activationCheckpointing,
      random: new RandomKeys(this.#seed, this.#attempted, firstSample),
    });
    const loss = await this.#options.model.forward(this.#tape, uploadBatch<B>(this.#tape, batch));
    this.#loss = this.#losses.note(loss, this.#microBatch === 0);
    return this.#loss;
  }

  async #backward(loss: Loss): Promise<void> {
    const tape = this.#tape;
    if (!tape) throw new UsageError("engine.backward was called without engine.forward before it");
    if (loss !== this.#loss)
      throw new UsageError("engine.backward was given something else than the loss of this engine's last forward");
    this.device.ledger.beginPhase("backward");
    await tape.backward(loss.tensor);
    this.#tape = undefined;
    for (const unit of this.#units.all) this.#settler.settle(unit);
    this.#settler.endMicroBatch();
    this.#units.endPass();
    this.#microBatch++;
  }

  async #update(): Promise<StepRecord | undefined> {
    const { config } = this.plan;
    if (this.#tape) throw new UsageError("engine.step was called before engine.backward(loss)");
    if (this.#microBatch < config.gradientAccumulation) return undefined;
    this.device.ledger.beginPhase("step");
    const partials = await this.#norm.partials();
    const lossSum = await this.#losses.sum();
    const own = Float64Array.of(lossSum, Number(this.#askedToStop), ...partials);
    const ranks = await this.group.exchange(own, "losses and gradient norms");
    this.#stopAgreed = ranks.some((r) => r[1] !== 0);
    const { norm, firstNonFinite } = this.#norm.combine(ranks.map((r) => r.subarray(2)));
    const loss = ranks.reduce((sum, r) => sum + r[0]!, 0) / (this.group.worldSize * config.gradientAccumulation);
    if (firstNonFinite !== undefined || !Number.isFinite(loss)) throw this.#notFinite(firstNonFinite, loss);
    const clip = config.gradientClipping;
    const gradientScale = clip > 0 ? Math.min(1, clip / (norm + 1e-6)) : 1;
    const update = ++this.#updates;
    this.#step.run(this.#units.all, update, gradientScale);
    this.#microBatch = 0;
    this.#attempted++;
    const reports = await exchangeReports(this.group, reportOf(this.device));
    return {
      step: this.#attempted,
      loss,
      gradNorm: norm,
      learningRate: this.#step.learningRateAt(update),
      lossScale: 1,
      skipped: false,
      seconds: (performance.now() - this.#startedMs) / 1000,
      ranks: reports,
    };
  }

  /** Runs `body` without gradients and reads the fp32 values of its result. */
  infer(body: (tape: Tape) => Promise<Tensor>): Promise<Float32Array> {
    return this.#alone("infer", () => this.#infer(body));
  }

  async #infer(body: (tape: Tape) => Promise<Tensor>): Promise<Float32Array> {
    const hooks: SegmentHooks = {
      enter: async (owner) => this.#units.enter(this.#units.unitOf(owner), true),
      leave: (owner) => this.#units.leave(this.#units.unitOf(owner)),
    };
    this.#units.beginPass("evaluate");
    const dtype = this.plan.residences.parameters.dtype;
    using tape = new Tape({ device: this.device, dtype, training: false, hooks, random: new RandomKeys(this.#seed) });
    const result = await body(tape);
    const values = tape.make(result.shape, "f32");
    const args = {
      count: result.elements,
      srcType: result.dtype,
      dstType: "f32",
      src: result.span,
      dst: values.span,
    } as const;
    this.device.issue("compute", "cast", args);
    const bytes = await this.device.read(values.span, "f32", result.elements, new Float32Array(result.elements));
    this.#units.endPass();
    return new Float32Array(bytes.buffer);
  }

  /** All weights in fp32, piece by piece in plan order; every rank must iterate to the end. */
  weights(): AsyncGenerator<{ name: string; first: number; values: Float32Array }> {
    return readWeights(this.device, this.group, this.#units.all);
  }

  /** Waits for everything issued, then frees all memory and leaves the group. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    await this.#running?.done.catch(() => undefined); // its error is its caller's
    const isTold = this.device.hasFailed;
    try {
      await this.#quiet();
    } catch (error) {
      if (!isTold) throw error; // else it would hide, as a SuppressedError, what `await using` is leaving with
    } finally {
      this.#tape?.dispose();
      this.#units.dispose();
      this.#norm.dispose();
      this.#losses.dispose();
      this.group.dispose();
      this.device.dispose();
    }
  }

  /** Calls come one after the other: a second step beside the first would update twice from the same gradients. */
  async #alone<T>(name: string, body: () => Promise<T>): Promise<T> {
    if (this.#isDisposed) throw new DisposedError("the engine", `call engine.${name} before it is disposed`);
    if (this.#running)
      throw new UsageError(
        `engine.${name} was called while engine.${this.#running.name} is running; await each call before the next`,
      );
    const done = body();
    this.#running = { name, done };
    try {
      return await done;
    } finally {
      this.#running = undefined;
    }
  }

  #beginStep(): void {
    this.#startedMs = performance.now();
    this.device.ledger.beginStep();
    this.device.traffic.beginStep();
    this.group.beginStep(this.#attempted + 1);
  }

  #trainingHooks(): SegmentHooks {
    const finished = (unit: UnitState): void => {
      if (--unit.openUses < 0) throw new InternalError(`unit ${unit.name} ran backward more often than forward`);
      if (unit.openUses === 0) this.#settler.settle(unit);
    };
    return {
      enter: async (owner, pass, needsValues) => {
        const unit = this.#units.unitOf(owner);
        this.#units.enter(unit, needsValues);
        if (pass === "forward") unit.openUses++;
      },
      leave: (owner, pass) => {
        const unit = this.#units.unitOf(owner);
        this.#units.leave(unit);
        if (pass === "backward") finished(unit);
      },
    };
  }

  #notFinite(flat: string | undefined, loss: number): NumericalError {
    const where =
      flat === undefined ? `the loss is ${loss}` : `the gradients of unit ${flat} are not finite (loss ${loss})`;
    return new NumericalError(
      `step ${this.#attempted + 1}: ${where}; no parameter was changed. A lower learning rate, gradient clipping or fp32 usually helps`,
    );
  }

  get #askedToStop(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  /** Ranks hear of a stop at different moments, so they agree on it in the step's exchange; a world of one agrees at once. */
  #checkStop(): void {
    const alone = this.group.worldSize === 1;
    if (this.#stopAgreed || (alone && this.#askedToStop))
      throw new InterruptedError(`training was stopped after step ${this.#attempted}`);
  }

  async #quiet(): Promise<void> {
    for (const queue of ["compute", "collective"] as const) await this.device.reached(this.device.mark(queue));
  }
}

/** @throws UsageError for what no engine can be made from */
function checkOptions<B extends object>(options: EngineOptions<B>): void {
  const { model, seed = 42 } = options;
  if (typeof (model as Partial<EngineOptions<B>["model"]> | undefined)?.forward !== "function")
    throw new UsageError(
      "found a model without forward(tape, batch); wanted a Module whose forward resolves to the loss",
    );
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new UsageError(`found seed ${seed}; wanted a whole number from 0 to 2^53 - 1`);
  const taken = model.namedParameters().find(([, parameter]) => parameter.isBound);
  if (taken)
    throw new UsageError(
      `the model's parameter ${taken[0]} belongs to an engine that is still open; dispose that engine first, or make another model`,
    );
}
