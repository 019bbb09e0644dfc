/** Batches on their way to the device, and losses on their way back. */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { dtypeBytes } from "../device/dtype.ts";
import { DTypeError, ShapeError } from "../errors/errors.ts";
import type { Tape } from "../tensor/tape.ts";
import { elementsOf, type Shape, type Tensor } from "../tensor/tensor.ts";

export interface HostTensor {
  readonly data: Int32Array | Float32Array;
  readonly shape: Shape;
}

/** What a model's batch looks like before it is on the device: the same fields as host arrays. */
export type HostBatch<B extends object> = { readonly [K in keyof B]: HostTensor };

/** The batch as tensors that live as long as the tape: indices as i32, numbers in the tape's type. */
export function uploadBatch<B extends object>(tape: Tape, batch: HostBatch<B>): B {
  const tensors: Record<string, Tensor> = {};
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
    tensors[name] = data instanceof Int32Array ? tape.integers(data, shape) : tape.numbers(data, shape);
  }
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

  constructor(tensor: Tensor, read: () => Promise<number>) {
    this.tensor = tensor;
    this.#read = read;
  }

  /** Waits for the value: the mean over this micro-batch's targets. */
  item(): Promise<number> {
    return this.#read();
  }
}

/** The losses of a step's micro-batches, kept in a few bytes of the device until the step reads them together. */
export class LossBook {
  readonly #device: Device;
  readonly #buffer: DeviceBuffer;
  readonly #count: number;

  constructor(device: Device, microBatches: number) {
    this.#device = device;
    this.#count = microBatches;
    this.#buffer = device.allocate("other", microBatches * dtypeBytes.f32);
  }

  note(microBatch: number, loss: Tensor): Loss {
    const slot = this.#buffer.at(microBatch * dtypeBytes.f32);
    this.#device.issue("compute", "copy", { bytes: dtypeBytes.f32, src: loss.span, dst: slot });
    const read = async (): Promise<number> =>
      new Float32Array((await this.#device.read(slot, "f32", 1, new Float32Array(1))).buffer)[0]!;
    return new Loss(loss, read);
  }

  /** Sum over the step's micro-batches, in order. */
  async sum(): Promise<number> {
    const bytes = await this.#device.read(this.#buffer.at(), "f32", this.#count, new Float32Array(this.#count));
    return new Float32Array(bytes.buffer).reduce((sum, loss) => sum + loss, 0);
  }

  dispose(): void {
    this.#device.free(this.#buffer);
  }
}
