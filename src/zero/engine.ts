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
import { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { InterruptedError, NumericalError, UsageError } from "../errors/errors.ts";
import { aFunction, checkArgument, required } from "../errors/options.ts";
import { type DescribedModel, describeModel } from "../nn/describe.ts";
import { tuned } from "../nn/tuning.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import { createPlan, type Plan } from "../plan/plan.ts";
import { checkPieces } from "../plan/sizes.ts";
import { RandomKeys } from "../tensor/random.ts";
import { type SegmentHooks, Tape } from "../tensor/tape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { type Agreement, agree } from "./agree.ts";
import { type Base, BaseTensors } from "./base-tensors.ts";
import {
  checkBatch,
  checkForwardOptions,
  type ForwardOptions,
  type HostBatch,
  type Loss,
  LossBook,
  uploadBatch,
} from "./batch.ts";
import { Calls } from "./calls.ts";
import { culpritOf } from "./diagnose.ts";
import { bytesKind, checkEngineOptions, type EngineOptions, eventKind } from "./engine-options.ts";
import { Evaluator } from "./evaluate.ts";
import type { FlatState } from "./flat.ts";
import { type HeldModel, ModelHold } from "./hold.ts";
import { GradientNorm } from "./norm.ts";
import { OperationBook } from "./operation-book.ts";
import { PhaseClock, quiet } from "./phase-clock.ts";
import { type EngineProgress, StepCounter } from "./progress.ts";
import { exchangeReports, reportOf, type StepRecord } from "./record.ts";
import { GradientSettler } from "./reduce.ts";
import { Savings } from "./saving.ts";
import { describeNonFinite, describeStop, type Stop } from "./skip.ts";
import type { StateReader } from "./state.ts";
import { OptimizerStep } from "./step.ts";
import { StateStores } from "./stores.ts";
import { TargetBook } from "./target-book.ts";
import { trainingHooks } from "./training-hooks.ts";
import { Units } from "./unit.ts";
import { gatherPersistent, initialiseWeights, readWeights, weightsOnly } from "./weights.ts";

interface EngineEvents {
  step: [StepRecord];
  end: [];
}

export type { EngineOptions } from "./engine-options.ts";

export class Engine<B extends object> {
  // Given
  readonly plan: Plan;
  readonly device: Device;
  readonly group: ProcessGroup;
  /** What the user should be told about the tiers that were found. */
  notices: readonly string[] = [];
  /** Frozen tensors that a checkpoint does not hold, since they stay in the folder they came from. */
  base: Base | undefined;
  readonly #options: EngineOptions<B>;
  readonly #seed: number;
  // Parts
  readonly #stores: StateStores;
  readonly #units: Units;
  readonly #settler: GradientSettler;
  readonly #norm: GradientNorm;
  readonly #step: OptimizerStep;
  readonly #baseTensors: BaseTensors;
  readonly #savings: Savings;
  readonly #losses: LossBook;
  readonly #targets = new TargetBook();
  readonly #evaluator: Evaluator;
  readonly #hold: ModelHold;
  /** They share the tape, the ledger's phase and the gradients. */
  readonly #calls: Calls;
  readonly #counter: StepCounter;
  readonly #clock: PhaseClock;
  readonly #operations: OperationBook;
  readonly #hooks: SegmentHooks;
  readonly #events = new EventEmitter<EngineEvents>();
  // Where training is
  #microBatch = 0;
  #tape: Tape | undefined;
  #loss: Loss | undefined;
  /** The last micro-batch, for the diagnosis of what was not finite in it. */
  #batch: HostBatch<B> | undefined;
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
    checkPieces(config.sizes, this.plan.parameterElements);
    this.group = new ProcessGroup(device, transport);
    this.#settler = new GradientSettler(device, this.group, this.plan);
    this.#stores = new StateStores(device, this.plan, createOptimizer(config.optimizer).states);
    this.#step = new OptimizerStep(device, this.group, this.plan, this.#stores.crossing);
    this.#units = new Units(device, this.group, this.plan, model, this.#stores, (flat, parameter) =>
      this.#settler.takeGradient(flat, parameter),
    );
    const source = options.resume?.states ?? (options.weights && weightsOnly(options.weights));
    this.#baseTensors = new BaseTensors(this.#units.flats, source);
    this.#savings = new Savings(device, this.group, this.#units.all, (name) => this.#baseTensors.has(name));
    this.#norm = new GradientNorm(device, this.#units.flats);
    this.#losses = new LossBook(device);
    this.#operations = new OperationBook(device.traffic);
    const parts = { device, units: this.#units, settler: this.#settler, operations: this.#operations };
    this.#hooks = trainingHooks(parts);
    this.#evaluator = new Evaluator(device, this.#units, this.plan.residences.parameters.dtype);
    this.#hold = new ModelHold(device, this.group, this.#units);
    this.#calls = new Calls((name) => this.#hold.check(name));
    this.#clock = new PhaseClock(device, config.reporting.wallClockBreakdown);
    this.#counter = new StepCounter(config, options.resume?.progress);
  }

  /**
   * Plans, allocates and fills this rank's part. Every rank calls it with the same model and configuration. The engine owns its
   * device and transport from here on, also where this fails.
   */
  static async create<B extends object>(options: EngineOptions<B>): Promise<Engine<B>> {
    const { device, transport } = options;
    let model: DescribedModel | undefined;
    try {
      checkEngineOptions(options);
      const described = describeModel(tuned(options.model, options.config));
      model = described;
      const engine = new Engine(options, described);
      engine.notices = await engine.#stores.open(engine.group.rank);
      const { all } = engine.#units;
      const { source } = engine.#baseTensors;
      const fill = (): Promise<void> => initialiseWeights(device, all, described, engine.#seed, source);
      await (options.resume ? options.resume.filled(engine.group, fill) : fill());
      engine.base = await engine.#baseTensors.agree(engine.group);
      options.resume?.checkBase(engine.base?.digests ?? new Map());
      gatherPersistent(device, engine.group, engine.plan, engine.#units.all);
      await quiet(device);
      if (Object.values(engine.plan.residences).some(({ tier }) => tier !== "device")) device.timeline.measureOverlap();
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
    return this.#counter.attempted;
  }

  /** Of initial weights and dropout. */
  get seed(): number {
    return this.#seed;
  }

  /** What a checkpoint keeps of this engine beside its tensors. Asked for between steps. */
  get progress(): EngineProgress {
    return this.#counter.progress;
  }

  /** Floating-point operations of the last micro-batch, by unit. */
  get operationsByUnit(): OperationBook["byUnit"] {
    return this.#operations.byUnit;
  }

  /** Units of whose parameters the last backward pass used none, as below the lowest one that is trained. */
  get forwardOnly(): ReadonlySet<string> {
    return new Set(this.#units.all.filter((unit) => !unit.usedInBackward).map(({ name }) => name));
  }

  /** `engine.on("step", (record) => ...)`: called on every rank after each step; "end" once, when the engine is disposed. */
  on<K extends keyof EngineEvents>(event: K, listener: (...args: EngineEvents[K]) => void): this {
    checkArgument("engine.on", "event", event, eventKind);
    checkArgument("engine.on", "listener", listener, required(aFunction));
    this.#events.on(event, listener as never);
    return this;
  }

  /**
   * Runs the model on this rank's next micro-batch. Resolves when everything is issued; `loss.item()` waits for the value. Where
   * micro-batches have unequal numbers of targets that count, `stepTargets` makes the step's loss the mean over all of them.
   */
  forward(batch: HostBatch<B>, options: ForwardOptions = {}): Promise<Loss> {
    return this.#calls.alone("forward", () => this.#forward(batch, options));
  }

  /** Gradients of this micro-batch, settled unit by unit as the pass goes. @param loss what the last `forward` gave */
  backward(loss: Loss): Promise<void> {
    return this.#calls.alone("backward", () => this.#backward(loss));
  }

  /**
   * Updates the parameters once all micro-batches of the step have run; before that it does nothing and returns undefined, as
   * in DeepSpeed. A step with a gradient that is not finite updates nothing: it is skipped where the configuration says so.
   * @throws NumericalError, after the step's record, when too many steps in a row were not finite; UsageError, on all ranks, where the
   * micro-batches' targets are not as `forward` was told
   */
  async step(): Promise<StepRecord | undefined> {
    const outcome = await this.#calls.alone("step", () => this.#update());
    if (!outcome) return undefined;
    this.#events.emit("step", outcome.record);
    if (outcome.stop) throw outcome.stop;
    return outcome.record;
  }

  /** @internal For forecasts, which count micro-batches that are all alike instead of running them. */
  skipMicroBatches(count: number): void {
    this.#microBatch += count;
  }

  async #forward(batch: HostBatch<B>, options: ForwardOptions): Promise<Loss> {
    checkForwardOptions(options);
    const { stepTargets } = options;
    if (this.#microBatch === 0) this.#checkStop();
    if (this.#tape) throw new UsageError("engine.forward was called twice; call engine.backward(loss) in between");
    if (this.#microBatch === this.plan.config.gradientAccumulation)
      throw new UsageError(`all ${this.#microBatch} micro-batches of this step have run; call engine.step()`);
    checkBatch(batch);
    this.#targets.begin(this.#microBatch === 0, stepTargets);
    if (this.#microBatch === 0) this.#beginStep();
    this.#clock.begin("forward");
    this.#batch = batch;
    this.#operations.beginMicroBatch();
    this.#units.beginPass("train");
    this.#settler.beginMicroBatch(this.#microBatch);
    for (const unit of this.#units.all) Object.assign(unit, { openUses: 0, isSettled: false, usedInBackward: false });
    const { microBatch, trainBatch, activationCheckpointing, gradientAccumulation, worldSize } = this.plan.config;
    const firstSample = this.steps * trainBatch + (this.#microBatch * worldSize + this.group.rank) * microBatch;
    this.#tape = new Tape({
      device: this.device,
      dtype: this.plan.residences.parameters.dtype,
      training: true,
      hooks: this.#hooks,
      checkpointing: activationCheckpointing,
      lossSeed: this.#counter.lossScale,
      lossDivisor: stepTargets && stepTargets / (worldSize * gradientAccumulation),
      random: new RandomKeys(this.#seed, this.steps, firstSample),
    });
    const loss = await this.#options.model.forward(this.#tape, uploadBatch<B>(this.#tape, batch));
    this.#loss = this.#losses.note(loss, this.#microBatch === 0);
    await this.#clock.end("forward");
    return this.#loss;
  }

  async #backward(loss: Loss): Promise<void> {
    const tape = this.#tape;
    if (!tape) throw new UsageError("engine.backward was called without engine.forward before it");
    if (loss !== this.#loss)
      throw new UsageError("engine.backward was given something else than the loss of this engine's last forward");
    this.#clock.begin("backward");
    await tape.backward(loss.tensor);
    this.#targets.note(tape.lossTargets);
    this.#tape = undefined;
    for (const unit of this.#units.all) this.#settler.settle(unit);
    this.#settler.endMicroBatch();
    this.#units.endPass();
    this.#microBatch++;
    await this.#clock.end("backward");
  }

  async #update(): Promise<{ record: StepRecord; stop: NumericalError | undefined } | undefined> {
    const { config } = this.plan;
    if (this.#tape) throw new UsageError("engine.step was called before engine.backward(loss)");
    if (this.#microBatch < config.gradientAccumulation) return undefined;
    this.#clock.begin("step");
    this.#microBatch = 0; // also where the ranks do not agree: what these had is dropped
    const { loss, targets, norm: scaledNorm, nonFinite } = await this.#agree();
    const { lossScale, nextUpdate } = this.#counter;
    const norm = scaledNorm / lossScale;
    const skipped = nonFinite.length > 0 || !Number.isFinite(loss);
    const clip = config.gradientClipping;
    const clipFactor = clip > 0 ? Math.min(1, clip / (norm + 1e-6)) : 1;
    const update = skipped ? undefined : { update: nextUpdate, gradientScale: clipFactor / lossScale };
    await this.#step.run(this.#units.all, this.steps + 1, update, (unit) => this.#savings.passed(unit));
    const stop = this.#counter.finish(skipped);
    await this.#clock.end("step");
    const reports = await exchangeReports(this.group, reportOf(this.device));
    const culprits = this.#inBackwardOrder(nonFinite);
    const record: StepRecord = {
      step: this.steps,
      loss,
      targets,
      gradNorm: skipped ? null : norm,
      learningRate: this.#step.learningRateAt(nextUpdate),
      lossScale,
      skipped,
      reason: skipped ? describeNonFinite(loss, culprits) : undefined,
      ...this.#clock.times(),
      ranks: reports,
    };
    this.device.timeline.endStep(this.steps);
    return { record, stop: stop && (await this.#stopped(stop, culprits)) };
  }

  /** What the ranks know together before they update. */
  async #agree(): Promise<Agreement> {
    const { device, group } = this;
    const [norm, losses, targets] = [this.#norm, this.#losses, this.#targets];
    const microBatches = group.worldSize * this.plan.config.gradientAccumulation;
    const own = { wantsStop: this.#askedToStop, step: this.steps + 1, microBatches };
    const agreed = await agree({ device, group, norm, losses, targets }, own);
    this.#stopAgreed = agreed.stops;
    return agreed;
  }

  /** In the order in which the backward pass finished them: what comes first is nearest to the cause. */
  #inBackwardOrder(flats: readonly FlatState[]): FlatState[] {
    return this.#settler.settled.flatMap((unit) => unit.flats.filter((flat) => flats.includes(flat)));
  }

  async #stopped(why: Stop["why"], culprits: readonly FlatState[]): Promise<NumericalError> {
    await quiet(this.device);
    const forward = (tape: Tape): Promise<Tensor> =>
      this.#options.model.forward(tape, uploadBatch<B>(tape, this.#batch!));
    const output = await this.#evaluator.firstBadOutput(this.group, forward);
    const unit = this.#units.all.find(({ name }) => name === output?.unit);
    const culprit = await culpritOf(this.device, this.group, { output, flats: unit?.flats, culprits });
    const { config } = this.plan;
    return new NumericalError(describeStop({ config, progress: this.progress, why, culprit }));
  }

  /** Runs `body` without gradients and reads the fp32 values of its result. Every rank calls it, and not in the middle of a pass. */
  infer(body: (tape: Tape) => Promise<Tensor>): Promise<Float32Array> {
    return this.#calls.alone("infer", () => {
      this.#checkNoPass("infer");
      checkArgument("engine.infer", "body", body, required(aFunction));
      return this.#evaluator.infer(body);
    });
  }

  /**
   * Runs `body` while all parameters are whole on the device, gathered once for all passes in it; where some rank's device budget
   * does not hold that and `besideBytes` more, each pass gathers unit by unit as ever. Every rank calls it, between two steps.
   * Meanwhile the engine infers and evaluates, and does nothing else.
   */
  async withWhole<T>(body: (isWhole: boolean) => Promise<T>, besideBytes = 0): Promise<T> {
    checkArgument("engine.withWhole", "body", body, required(aFunction));
    using whole = await this.holdWhole(besideBytes);
    return await body(whole.isWhole);
  }

  /** The same for callers whose passes are no single function: until the answer is disposed. */
  async holdWhole(besideBytes = 0): Promise<HeldModel> {
    return await this.#calls.alone("withWhole", async () => {
      this.#checkNoPass("withWhole");
      checkArgument("engine.withWhole", "besideBytes", besideBytes, bytesKind);
      return await this.#hold.take(besideBytes);
    });
  }

  /**
   * The loss of a batch without gradients, the mean over its targets that count, or 0 where none does. Every rank calls it between two
   * steps, with rows of its own.
   */
  evaluate(batch: HostBatch<B>): Promise<number> {
    return this.#calls.alone("evaluate", async () => {
      this.#checkNoPass("evaluate");
      checkBatch(batch);
      const forward = (tape: Tape): Promise<Tensor> => this.#options.model.forward(tape, uploadBatch<B>(tape, batch));
      return (await this.#evaluator.infer(forward))[0]!;
    });
  }

  /** All weights in fp32, or those of tensors that every rank `wants`, piece by piece in plan order; every rank iterates to the end. */
  weights(wants?: (name: string) => boolean): AsyncGenerator<{ name: string; first: number; values: Float32Array }> {
    checkArgument("engine.weights", "wants", wants, aFunction);
    return readWeights(this.device, this.group, this.#units.all, wants);
  }

  /**
   * Runs `body` with what this rank must keep of the run, as it is at this call; every rank calls it, between two steps. Training may
   * go on meanwhile: an update waits until what it changes has been read. One call begins when those before have ended.
   */
  async saveStates<T>(body: (states: StateReader) => Promise<T>): Promise<T> {
    checkArgument("engine.saveStates", "body", body, required(aFunction));
    this.#calls.checkFree("saveStates");
    if (this.#microBatch > 0 || this.#tape)
      throw new UsageError("a checkpoint was asked for in the middle of a step; save it after engine.step()");
    return this.#savings.begin(body);
  }

  /** Waits for everything issued, then frees all memory and leaves the group. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#calls.isClosed) return;
    await this.#calls.close();
    await this.#savings.idle();
    this.#events.emit("end");
    const isTold = this.device.hasFailed;
    try {
      await quiet(this.device);
    } catch (error) {
      if (!isTold) throw error; // else it would hide, as a SuppressedError, what `await using` is leaving with
    } finally {
      this.#tape?.dispose();
      this.#hold.forget();
      this.#units.dispose();
      this.#stores.dispose();
      this.#norm.dispose();
      this.#losses.dispose();
      this.group.dispose();
      this.device.dispose();
    }
  }

  #checkNoPass(name: string): void {
    if (this.#tape) throw new UsageError(`engine.${name} was called between engine.forward and engine.backward`);
  }

  #beginStep(): void {
    this.#clock.beginStep();
    this.device.ledger.beginStep();
    this.device.traffic.beginStep();
    this.device.timeline.beginStep();
    this.group.beginStep(this.steps + 1);
  }

  get #askedToStop(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  /** Ranks hear of a stop at different moments, so they agree on it in the step's exchange; a world of one agrees at once. */
  #checkStop(): void {
    const alone = this.group.worldSize === 1;
    if (this.#stopAgreed || (alone && this.#askedToStop))
      throw new InterruptedError(`training was stopped after step ${this.steps}`);
  }
}
