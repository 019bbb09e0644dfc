/**
 * The one-step delayed parameter update (ZeRO-Offload, Ren et al., ATC21, section 5.2): while a step computes, the host still
 * applies the gradients of the step before, and parameters that an update made are used from the step after the next one on. So an
 * update writes its fresh parameters into host memory of their own, from where they are delivered when their time has come.
 */
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Tier } from "../device/ledger.ts";
import type { Event, QueueName } from "../device/queue.ts";
import { type Elements, FlatBuffer, type Range } from "./elements.ts";
import type { RestingParameters } from "./parameters.ts";

export class DelayedParameters implements RestingParameters {
  readonly start: number;
  readonly end: number;
  readonly dtype: DType;
  readonly tier: Tier;
  /** An update must not write where passes still read: so these are nobody's master. */
  readonly isMaster = false;
  readonly #device: Device;
  readonly #resting: RestingParameters;
  readonly #fresh: FlatBuffer;
  /** When what was delivered last has been read. */
  #delivered: readonly Event[] = [];

  /** @param resting parameters as passes see them @param updated the elements that this rank updates */
  constructor(device: Device, resting: RestingParameters, updated: Range) {
    this.#device = device;
    this.#resting = resting;
    this.start = resting.start;
    this.end = resting.end;
    this.dtype = resting.dtype;
    this.tier = resting.tier;
    this.#fresh = new FlatBuffer(device, "parameters", updated, resting.dtype, "update");
  }

  get buffer(): FlatBuffer | undefined {
    return this.#resting.buffer;
  }

  get fetchQueue(): QueueName {
    return this.#resting.fetchQueue;
  }

  fetch(own: Range, whole: FlatBuffer, ready: readonly Event[]): Elements {
    return this.#resting.fetch(own, whole, ready);
  }

  /** Only writes; what is at rest stays until it is delivered. */
  refresh(_range: Range, _master: Elements, write: (copy: Elements | undefined) => void): readonly Event[] {
    for (const event of this.#delivered) this.#device.wait("update", event);
    write(this.#fresh);
    return [];
  }

  /** Brings what the last update wrote to where parameters rest. @returns when it is there */
  deliver(range: Range): readonly Event[] {
    this.#delivered = this.#resting.refresh(range, this.#fresh, (copy) => {
      if (!copy) return;
      const bytes = (range.end - range.start) * dtypeBytes[this.dtype];
      const args = { bytes, src: this.#fresh.at(range.start), dst: copy.at(range.start) };
      this.#device.issue("update", "copy", args);
    });
    return this.#delivered;
  }

  fill(range: Range, write: (to: Elements) => Promise<void>): Promise<void> {
    return this.#resting.fill(range, write);
  }

  /** First values of what will be delivered: those of the master. */
  fillFresh(write: (to: Elements) => Promise<void>): Promise<void> {
    return write(this.#fresh);
  }

  read(offset: number, into: Float32Array<ArrayBuffer>): Promise<void> {
    return this.#resting.read(offset, into);
  }

  dispose(): void {
    this.#fresh.free();
    this.#resting.dispose();
  }
}
