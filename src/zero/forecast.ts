/**
 * A forecast: some steps of this very engine on the simulated device, which keeps the ledger and computes nothing. So what will
 * be allocated and sent is known to the byte before anything is. (The second step looks ahead like all later ones.) With the costs of
 * a machine it has a clock too, and tells how long a step takes there.
 */
import { SimulatedTransport } from "../comm/simulated.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { Device } from "../device/device.ts";
import type { HighWater, Tier } from "../device/ledger.ts";
import type { Event } from "../device/queue.ts";
import { type Costs, SimulatedBackend } from "../device/simulated.ts";
import type { TimelineSink } from "../device/timeline.ts";
import type { TrafficLedger } from "../device/traffic.ts";
import type { VirtualClock } from "../device/virtual-clock.ts";
import { MemoryBudgetError } from "../errors/errors.ts";
import { anObject, checkOptions, type Kinds, required, wholeNumber } from "../errors/options.ts";
import type { Plan } from "../plan/plan.ts";
import type { SplitRow } from "../plan/residence.ts";
import type { HostBatch } from "./batch.ts";
import { Engine, type EngineOptions } from "./engine.ts";
import { modelKind } from "./engine-options.ts";
import { BusyCompute, type StepTimes, secondsBetween, timesOfAll } from "./forecast-time.ts";
import type { UnitOperations } from "./operation-book.ts";
import type { RankReport, StepRecord } from "./record.ts";

export interface ForecastOptions<B extends object> {
  readonly model: EngineOptions<B>["model"];
  readonly config: ResolvedConfig;
  /** A micro-batch of one rank; only its shapes matter. */
  readonly batch: HostBatch<B>;
  /** Threads of a rank's compute queue: kernels' scratch depends on them. */
  readonly threads: number;
  /** Defaults to 0; ranks differ in ranges, not in sizes. */
  readonly rank?: number;
  readonly row?: SplitRow;
  /** Undefined: nothing takes time. */
  readonly costs?: Costs;
  /** Of the last step, with costs; without micro-batches that are only counted. */
  readonly sink?: TimelineSink;
}

export interface Forecast {
  readonly plan: Plan;
  /** A rank's ledgers over one step, as every step from the second on will show them. */
  readonly report: RankReport;
  /** The most that a rank holds at once in each tier, from the start on, and what it is. */
  readonly highest: Readonly<Record<Tier, HighWater>>;
  /** The most bytes that a rank holds at once in device and host memory together. */
  readonly highestInMemory: number;
  /** Floating-point operations of a micro-batch, by unit. */
  readonly operationsByUnit: ReadonlyMap<string, UnitOperations>;
  /** Units that are gathered for the forward pass alone. */
  readonly forwardOnly: ReadonlySet<string>;
  /** Of a step, one following another; 0 without costs. How much of its transfers was hidden is in the report. */
  readonly seconds: number;
  /** Of those, in which the compute queue worked. */
  readonly computeSeconds: number;
}

/** Address space without end: only sizes count here. */
const arenaBytes = 2 ** 52;

const kinds: Kinds<ForecastOptions<object>> = {
  model: modelKind,
  config: required(anObject),
  batch: required(anObject),
  threads: required(wholeNumber(1)),
  rank: wholeNumber(0),
  row: anObject,
  costs: anObject,
  sink: anObject,
};

/** @throws MemoryBudgetError for a job that no device could hold, UsageError */
export async function forecast<B extends object>(options: ForecastOptions<B>): Promise<Forecast> {
  checkOptions<ForecastOptions<object>>("forecast", options as unknown as ForecastOptions<object>, kinds);
  try {
    return await forecastSteps(options);
  } catch (error) {
    if (!(error instanceof MemoryBudgetError)) throw error;
    // The address space of sizes alone has no budget, so it is a number that names no machine's memory.
    const { tier, neededBytes, budgetBytes } = error;
    const message = `this model takes over ${Math.floor(budgetBytes / 1e15)} PB (10^15 bytes) of ${tier} memory on a rank: no device holds that; check its sizes`;
    throw new MemoryBudgetError(tier, neededBytes, budgetBytes, message);
  }
}

/** A step that follows another one is like all later ones; its time is that once what it hides behind it has begun as well. */
const stepsWithoutClock = 2;
const stepsWithClock = 3;
/** The first, the second and the last; those between are like the second, and are only counted. */
const mostRun = 3;

/** How many micro-batches of each step are run, with a clock one more in the last but one, and in the first where one is measured. */
function runsOf(count: number, isTimed: boolean, measuresOne: boolean): readonly number[] {
  if (!isTimed || count <= mostRun)
    return new Array<number>(isTimed ? stepsWithClock : stepsWithoutClock).fill(Math.min(count, mostRun));
  return measuresOne ? [mostRun + 1, mostRun, mostRun + 1, mostRun] : [mostRun, mostRun + 1, mostRun];
}

/** Updates that are delayed from some step on are so in the few steps that are run here. */
const likeLaterSteps = (config: ResolvedConfig): ResolvedConfig =>
  config.delayedUpdateFrom === undefined ? config : { ...config, delayedUpdateFrom: 1 };

async function forecastSteps<B extends object>(options: ForecastOptions<B>): Promise<Forecast> {
  const { model, batch, row, costs, sink } = options;
  const config = likeLaterSteps(options.config);
  const backend = new SimulatedBackend(options.threads, costs);
  const device = new Device({ backend, arenaBytes });
  const transport = new SimulatedTransport(options.rank ?? 0, config.worldSize);
  await using engine = await Engine.create({ model, config, device, transport, ...(row && { row }) });
  const busy = new BusyCompute();
  if (costs) {
    device.timeline.measureOverlap();
    device.timeline.record(busy);
  }
  const count = config.gradientAccumulation;
  const microBatches = new MicroBatches(engine, batch, backend.clock);
  const steps = runsOf(count, costs !== undefined, microBatches.pauses);
  const times: StepTimes[] = [];
  let record: StepRecord | undefined;
  for (const [i, runs] of steps.entries()) {
    if (i === steps.length - 1) busy.next = sink;
    const pauseSeconds = await microBatches.run(runs);
    record = (await engine.step())!;
    device.timeline.drain();
    const { overlap } = record.ranks[0]!;
    times.push({ seconds: record.seconds, computeSeconds: busy.take() - pauseSeconds, overlap });
  }
  device.timeline.record(undefined);
  const { ledger } = device;
  const last = times.at(-1)!;
  const counted = count - steps.at(-1)!;
  const { overlap, ...time } =
    costs && counted > 0 ? timesOfAll(times.at(-2)!, last, counted, microBatches.pauses) : last;
  return {
    plan: { ...engine.plan, config: options.config },
    report: { ...record!.ranks[0]!, overlap },
    highest: { device: ledger.highest("device"), host: ledger.highest("host"), disk: ledger.highest("disk") },
    highestInMemory: ledger.highestInMemory,
    operationsByUnit: new Map(engine.operationsByUnit),
    forwardOnly: engine.forwardOnly,
    ...time,
  };
}

/** Those of a step: some are run, the others counted. */
class MicroBatches<B extends object> {
  readonly #engine: Engine<B>;
  readonly #batch: HostBatch<B>;
  readonly #clock: VirtualClock;
  /** Whether compute pauses for what is counted. */
  readonly pauses: boolean;
  /** Of one that is like the second; undefined: not known yet, and the first step shows it. */
  #seconds: number | undefined;

  constructor(engine: Engine<B>, batch: HostBatch<B>, clock: VirtualClock) {
    this.#engine = engine;
    this.#batch = batch;
    this.#clock = clock;
    this.pauses = engine.plan.config.delayedUpdateFrom !== undefined;
  }

  /** @returns seconds for which compute pauses meanwhile */
  async run(runs: number): Promise<number> {
    const { device, plan } = this.#engine;
    const counted = plan.config.gradientAccumulation - runs;
    const pauseSeconds = counted * (this.#seconds ?? 0);
    const ends: Event[] = [];
    let before = countsOf(device.traffic);
    for (let i = 0; i < runs; i++) {
      if (i === 1) before = countsOf(device.traffic);
      if (i === 2 && counted > 0) {
        device.traffic.repeatSince(before, counted);
        this.#engine.skipMicroBatches(counted);
        this.#clock.lengthenNext("compute", pauseSeconds);
      }
      await this.#engine.backward(await this.#engine.forward(this.#batch));
      ends.push(device.mark("compute"));
    }
    if (this.pauses && runs > mostRun) this.#seconds ??= await secondsBetween(device, ends[1], ends[2]);
    return pauseSeconds;
  }
}

const countsOf = (traffic: TrafficLedger): Parameters<TrafficLedger["repeatSince"]>[0] => ({
  traffic: traffic.snapshot(),
  operations: traffic.operations,
});
