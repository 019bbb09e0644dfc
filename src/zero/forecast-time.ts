/**
 * The time of a step of many micro-batches, of which a forecast runs a few: what one more of them adds is known from two steps that
 * run one more and one less. Beside a delayed update they do not all add the same, since compute waits for it at the step's end:
 * there the others are a pause of compute, as long as one of them takes, and the update goes on meanwhile.
 */
import type { Device } from "../device/device.ts";
import { type OverlapTimes, overlappedQueues } from "../device/overlap.ts";
import type { Event } from "../device/queue.ts";
import type { QueueSpan, TimelineSink } from "../device/timeline.ts";
import { InternalError } from "../errors/errors.ts";

export interface StepTimes {
  readonly seconds: number;
  /** In which the compute queue worked. */
  readonly computeSeconds: number;
  readonly overlap: OverlapTimes;
}

/**
 * Of a step with `counted` micro-batches more than `less` ran, where `more` ran one more.
 * @param paused both steps paused for what they did not run
 */
export function timesOfAll(more: StepTimes, less: StepTimes, counted: number, paused: boolean): StepTimes {
  const all = (of: (times: StepTimes) => number): number => of(less) + counted * Math.max(0, of(more) - of(less));
  const overlap = Object.fromEntries(
    overlappedQueues.map((queue) => {
      const seconds = all((times) => times.overlap[queue].seconds);
      return [
        queue,
        {
          seconds,
          waitedSeconds: Math.min(
            seconds,
            all((times) => times.overlap[queue].waitedSeconds),
          ),
        },
      ];
    }),
  ) as unknown as OverlapTimes;
  const seconds = paused ? less.seconds : all((times) => times.seconds);
  return { seconds, computeSeconds: all((times) => times.computeSeconds), overlap };
}

/** How long compute takes from one event of its queue to another; both were given to it before the program waits for them. */
export async function secondsBetween(device: Device, from: Event | undefined, to: Event | undefined): Promise<number> {
  if (!from || !to) throw new InternalError("a micro-batch to measure was not run");
  await device.reached(from);
  const started = device.timeline.now();
  await device.reached(to);
  return (device.timeline.now() - started) / 1e6;
}

/** Adds up what the compute queue did, and hands everything on. */
export class BusyCompute implements TimelineSink {
  /** Where spans go on to; undefined: nowhere. */
  next: TimelineSink | undefined;
  #micros = 0;

  queues(spans: readonly QueueSpan[]): void {
    for (const { queue, start, end, awaited } of spans)
      if (queue === "compute" && !awaited) this.#micros += end - start;
    this.next?.queues(spans);
  }

  program(spans: Parameters<TimelineSink["program"]>[0]): void {
    this.next?.program(spans);
  }

  /** Seconds since the last call. */
  take(): number {
    const micros = this.#micros;
    this.#micros = 0;
    return micros / 1e6;
  }
}
