/** The whole model on the device for as long as several passes need it, where there is room for it. */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import { UsageError } from "../errors/errors.ts";
import type { Units } from "./unit.ts";

/** Until it is disposed the engine only infers and evaluates. */
export interface HeldModel extends Disposable {
  /** Whether all parameters are gathered; else each pass gathers them unit by unit. */
  readonly isWhole: boolean;
}

/** What may be called meanwhile. */
const heldCalls: readonly string[] = ["infer", "evaluate"];

export class ModelHold {
  readonly #device: Device;
  readonly #group: ProcessGroup;
  readonly #units: Units;
  #held: HeldModel | undefined;

  constructor(device: Device, group: ProcessGroup, units: Units) {
    this.#device = device;
    this.#group = group;
    this.#units = units;
  }

  /** @throws UsageError where a call must wait for the end of what is held */
  check(name: string): void {
    if (!this.#held || heldCalls.includes(name)) return;
    throw new UsageError(
      `engine.${name} was called inside engine.withWhole, or while a text is generated; let that end before it (leaving the loop over ` +
        "a text ends it)",
    );
  }

  async take(besideBytes: number): Promise<HeldModel> {
    const isWhole = await this.#agree(besideBytes);
    if (isWhole) this.#units.gatherAll();
    const held = { isWhole, [Symbol.dispose]: () => this.#end(held) };
    this.#held = held;
    return held;
  }

  /** The engine is gone, and its units with it. */
  forget(): void {
    this.#held = undefined;
  }

  #end(held: HeldModel): void {
    if (this.#held !== held) return;
    this.#held = undefined;
    this.#units.releaseAll();
  }

  /**
   * Whether every rank's device budget holds all gathers together and `besideBytes` more. Ranks differ in what they hold, and all must
   * gather, or none.
   */
  async #agree(besideBytes: number): Promise<boolean> {
    const { wholeBytes } = this.#units;
    if (wholeBytes === 0) return true;
    const fits = wholeBytes + besideBytes <= this.#device.ledger.room("device");
    const answers = await this.#group.exchange(Float64Array.of(Number(fits)), "room for the whole model");
    return answers.every(([answer]) => answer === 1);
  }
}
