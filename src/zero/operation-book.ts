/** Floating-point operations by unit and pass: what the flops profiler shows. */
import type { TrafficLedger } from "../device/traffic.ts";

export interface UnitOperations {
  readonly forward: number;
  /** Recomputation included. */
  readonly backward: number;
}

export class OperationBook {
  readonly #ledger: TrafficLedger;
  readonly #byUnit = new Map<string, UnitOperations>();
  #atEntry = 0;

  constructor(ledger: TrafficLedger) {
    this.#ledger = ledger;
  }

  get byUnit(): ReadonlyMap<string, UnitOperations> {
    return this.#byUnit;
  }

  beginMicroBatch(): void {
    this.#byUnit.clear();
  }

  enter(): void {
    this.#atEntry = this.#ledger.operations;
  }

  leave(unit: string, pass: keyof UnitOperations): void {
    const before = this.#byUnit.get(unit) ?? { forward: 0, backward: 0 };
    this.#byUnit.set(unit, { ...before, [pass]: before[pass] + this.#ledger.operations - this.#atEntry });
  }
}
