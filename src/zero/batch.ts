/** Batches on their way to the device, and losses on their way back. */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import type { Span } from "../device/ops.ts";
import { DTypeError, ShapeError, UsageError } from "../errors/errors.ts";
import { checkOptions, type Kinds, wholeNumber } from "../errors/options.ts";
import type { Tape } from "../tensor/tape.ts";
import { elementsOf, type Shape, type Tensor } from "../tensor/tensor.ts";

export interface HostTensor {
  readonly data: Int32Array | Float32Array;
  readonly shape: Shape;
}

/** What a model's batch looks like before it is on the device: the same fields as host arrays. */
export type HostBatch<B extends object> = { readonly [K in keyof B]: HostTensor };

export interface ForwardOptions {
  /**
   * How many targets count (are not negative) in all micro-batches of all ranks of this step: the same number in each call of it. Left
   * out: every micro-batch has equally many.
   */
  readonly stepTargets?: number;
}

const forwardKinds: Kinds<ForwardOptions> = {
  stepTargets: { ...wholeNumber(1), wanted: "the number of targets that count in all micro-batches of all ranks" },
};

/** @throws UsageError */
export const checkForwardOptions = (options: ForwardOptions): void =>
  checkOptions("engine.forward", options, forwardKinds);

/** Looks at a whole batch before anything is done with it. @throws ShapeError, DTypeError naming the field */
export function checkBatch<B extends object>(batch: HostBatch<B>): void {
  if (typeof batch !== "object" || batch === null)
    throw new ShapeError("engine.forward", `a batch that is ${batch}`, "an object of { data, shape }");
  for (const [name, given] of Object.entries<HostTensor>(batch as Record<string, HostTensor>)) {
    checkHostTensor(name, given);
    const { data, shape } = given;
    if (data.length !== elementsOf(shape))
      throw new ShapeError(
        `batch.${name}`,
        `${data.length} elements`,
        `${elementsOf(shape)}, for shape [${shape.join(", ")}]`,
      );
  }
}

/** A checked batch as tensors that live as long as the tape: indices as i32, numbers in the tape's type. */
export function uploadBatch<B extends object>(tape: Tape, batch: HostBatch<B>): B {
  const tensors: Record<string, Tensor> = {};
  for (const [name, { data, shape }] of Object.entries<HostTensor>(batch as Record<string, HostTensor>))
    tensors[name] = data instanceof Int32Array ? tape.integers(data, shape) : tape.numbers(data, shape);
  return tensors as B;
}

/** JavaScript callers have no compiler to tell them. Nothing else is converted: ids taken for numbers would train on noise. */
function checkHostTensor(name: string, given: HostTensor | undefined | null): void {
  const data: unknown = given?.data;
  if (!(data instanceof Int32Array || data instanceof Float32Array))
    throw new DTypeError(`batch.${name}.data`, describeData(data), "an Int32Array (ids) or a Float32Array (numbers)");
  const shape: unknown = given?.shape;
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size) && size > 0))
    throw new ShapeError(`batch.${name}`, `shape [${shape}]`, "positive whole numbers");
}

const describeData = (data: unknown): string =>
  typeof data === "object" && data !== null ? `a ${data.constructor?.name ?? "bare object"}` : String(data);

/** The loss of a micro-batch: a number on the device until somebody asks. */
export class Loss {
  readonly tensor: Tensor;
  readonly #read: () => Promise<number>;
  #value: Promise<number> | undefined;

  constructor(tensor: Tensor, read: () => Promise<number>) {
    this.tensor = tensor;
    this.#read = read;
  }

  /**
   * Waits for the value: the mean over this micro-batch's targets; with `stepTargets` weighed by their number, so that the mean of all
   * micro-batches' values is the mean over the step's targets. @throws UsageError when it is first asked for after the next micro-batch
   * has begun
   */
  item(): Promise<number> {
    this.#value ??= this.#read();
    return this.#value;
  }
}

/** The losses of a step: their sum and the last one, in a few bytes of the device. */
export class LossBook {
  readonly #device: Device;
  readonly #buffer: DeviceBuffer;
  #noted = 0;

  constructor(device: Device) {
    this.#device = device;
    this.#buffer = device.allocate("other", 2 * dtypeBytes.f32);
  }

  /** @param first of its step: the sum begins with it */
  note(loss: Tensor, first: boolean): Loss {
    const last = this.#buffer.at(dtypeBytes.f32);
    const one = { count: 1, x: loss.span, factor: 1 } as const;
    this.#device.issue("compute", "sum", { ...one, dst: this.#buffer.at(), accumulate: !first });
    this.#device.issue("compute", "sum", { ...one, dst: last, accumulate: false });
    const number = ++this.#noted;
    return new Loss(loss, async () => {
      if (number !== this.#noted || this.#buffer.freed)
        throw new UsageError("this loss is gone; call loss.item() before the next engine.forward(batch)");
      return this.#read(last);
    });
  }

  /** Sum over the step's micro-batches, in order. */
  sum(): Promise<number> {
    return this.#read(this.#buffer.at());
  }

  dispose(): void {
    this.#device.free(this.#buffer);
  }

  async #read(from: Span): Promise<number> {
    const bytes = await this.#device.read(from, "f32", 1, new Float32Array(1));
    return new Float32Array(bytes.buffer)[0]!;
  }
}
