/** Wall time of a step's phases, and the ledger's phase with it. */
import type { Device } from "../device/device.ts";
import { queueNames } from "../device/queue.ts";
import { nowMicroseconds } from "../device/timeline.ts";
import type { TrainingPhase } from "./record.ts";

/** Resolves when everything issued so far has happened. */
export async function quiet(device: Device): Promise<void> {
  for (const queue of queueNames) await device.reached(device.mark(queue));
}

export class PhaseClock {
  readonly #device: Device;
  /** Whether the end of a phase waits for its work: true times, but phases no longer overlap. */
  readonly #waits: boolean;
  #stepStartedMs = 0;
  #startedMs = 0;
  #startedMicros = 0;
  #seconds: Record<TrainingPhase, number> = { forward: 0, backward: 0, step: 0 };

  constructor(device: Device, waits: boolean) {
    this.#device = device;
    this.#waits = waits;
  }

  beginStep(): void {
    this.#stepStartedMs = performance.now();
    this.#seconds = { forward: 0, backward: 0, step: 0 };
  }

  begin(phase: TrainingPhase): void {
    this.#device.ledger.beginPhase(phase);
    this.#startedMs = performance.now();
    this.#startedMicros = nowMicroseconds();
  }

  async end(phase: TrainingPhase): Promise<void> {
    if (this.#waits) await quiet(this.#device);
    this.#seconds[phase] += (performance.now() - this.#startedMs) / 1000;
    this.#device.timeline.noteProgram(phase, this.#startedMicros);
  }

  /** Of the step so far, and of its phases (all micro-batches together). */
  times(): { seconds: number; phaseSeconds: Readonly<Record<TrainingPhase, number>> } {
    return { seconds: (performance.now() - this.#stepStartedMs) / 1000, phaseSeconds: { ...this.#seconds } };
  }
}
