/**
 * A forecast: some steps of this very engine on the simulated device, which keeps the ledger and computes nothing. So what will
 * be allocated and sent is known to the byte before anything is. (The second step looks ahead like all later ones.) With the costs of
 * a machine it has a clock too, and tells how long a step takes there.
 */
import { SimulatedTransport } from "../comm/simulated.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { Device } from "../device/device.ts";
import type { HighWater, Tier } from "../device/ledger.ts";
import { type Costs, SimulatedBackend } from "../device/simulated.ts";
import type { TimelineSink } from "../device/timeline.ts";
import type { VirtualClock } from "../device/virtual-clock.ts";
import { MemoryBudgetError } from "../errors/errors.ts";
import type { Plan } from "../plan/plan.ts";
import type { SplitRow } from "../plan/residence.ts";
import type { HostBatch } from "./batch.ts";
import { Engine, type EngineOptions } from "./engine.ts";
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
  /** Of the last step, with costs. */
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
  /** Of a step, one following another; 0 without costs. How much of its transfers was hidden is in the report. */
  readonly seconds: number;
}

/** Address space without end: only sizes count here. */
const arenaBytes = 2 ** 52;

/** @throws MemoryBudgetError for a job that no device could hold */
export async function forecast<B extends object>(options: ForecastOptions<B>): Promise<Forecast> {
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

async function forecastSteps<B extends object>(options: ForecastOptions<B>): Promise<Forecast> {
  const { model, config, batch, row, costs, sink } = options;
  const backend = new SimulatedBackend(options.threads, costs);
  const device = new Device({ backend, arenaBytes });
  const transport = new SimulatedTransport(options.rank ?? 0, config.worldSize);
  await using engine = await Engine.create({ model, config, device, transport, ...(row && { row }) });
  if (costs) device.timeline.measureOverlap();
  const steps = costs ? stepsWithClock : stepsWithoutClock;
  let record: StepRecord | undefined;
  for (let step = 1; step <= steps; step++) {
    if (step === steps && sink) device.timeline.record(sink);
    await forecastMicroBatches(engine, batch, backend.clock);
    record = (await engine.step())!;
  }
  if (sink) device.timeline.record(undefined);
  const { ledger } = device;
  return {
    plan: engine.plan,
    report: record!.ranks[0]!,
    highest: { device: ledger.highest("device"), host: ledger.highest("host"), disk: ledger.highest("disk") },
    highestInMemory: ledger.highestInMemory,
    operationsByUnit: new Map(engine.operationsByUnit),
    seconds: record!.seconds,
  };
}

/** The first, the second and the last; those between are like the second, and are only counted. */
async function forecastMicroBatches<B extends object>(
  engine: Engine<B>,
  batch: HostBatch<B>,
  clock: VirtualClock,
): Promise<void> {
  const count = engine.plan.config.gradientAccumulation;
  const { traffic } = engine.device;
  const run = async (): Promise<void> => engine.backward(await engine.forward(batch));
  await run();
  if (count === 1) return;
  const before = { traffic: traffic.snapshot(), operations: traffic.operations };
  const started = clock.now;
  if (count > 2) await run();
  if (count > 3) {
    traffic.repeatSince(before, count - 3);
    engine.skipMicroBatches(count - 3);
    clock.advance(((count - 3) * (clock.now - started)) / 1e6);
  }
  await run();
}
