/** Time of a step's phases by the device's clock, and the ledger's phase with it. */
import type { Device } from "../device/device.ts";
import { queueNames } from "../device/queue.ts";
import type { TrainingPhase } from "./record.ts";

/** Resolves when everything issued so far has happened. */
export async function quiet(device: Device): Promise<void> {
  const marks = queueNames.map((queue) => device.mark(queue));
  for (const mark of marks) await device.reached(mark);
}

export class PhaseClock {
  readonly #device: Device;
  /** Whether the end of a phase waits for its work: true times, but phases no longer overlap. */
  readonly #waits: boolean;
  #stepStarted = 0;
  #phaseStarted = 0;
  #micros: Record<TrainingPhase, number> = { forward: 0, backward: 0, step: 0 };

  constructor(device: Device, waits: boolean) {
    this.#device = device;
    this.#waits = waits;
  }

  beginStep(): void {
    this.#stepStarted = this.#now();
    this.#micros = { forward: 0, backward: 0, step: 0 };
  }

  begin(phase: TrainingPhase): void {
    this.#device.ledger.beginPhase(phase);
    this.#phaseStarted = this.#now();
  }

  async end(phase: TrainingPhase): Promise<void> {
    if (this.#waits) await quiet(this.#device);
    this.#micros[phase] += this.#now() - this.#phaseStarted;
    this.#device.timeline.noteProgram(phase, this.#phaseStarted);
  }

  /** Of the step so far, and of its phases (all micro-batches together). */
  times(): { seconds: number; phaseSeconds: Readonly<Record<TrainingPhase, number>> } {
    const { forward, backward, step } = this.#micros;
    return {
      seconds: (this.#now() - this.#stepStarted) / 1e6,
      phaseSeconds: { forward: forward / 1e6, backward: backward / 1e6, step: step / 1e6 },
    };
  }

  #now(): number {
    return this.#device.timeline.now();
  }
}
