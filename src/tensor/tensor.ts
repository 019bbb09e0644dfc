/** Tensors: a shape and a type over device memory that is counted by its references. */
import type { Device, DeviceBuffer } from "../device/device.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import type { MemoryLabel } from "../device/ledger.ts";
import type { Span } from "../device/ops.ts";
import { DisposedError, InternalError, ShapeError } from "../errors/errors.ts";

export type Shape = readonly number[];

export const elementsOf = (shape: Shape): number => shape.reduce((a, b) => a * b, 1);

/** Memory of one or more tensors. The last reference to go frees it, in the order of the compute queue. */
class Storage {
  readonly device: Device;
  readonly buffer: DeviceBuffer;
  references = 1;
  /** Borrowed memory (a unit's flat buffer) is freed by its owner. */
  readonly borrowed: boolean;

  constructor(device: Device, buffer: DeviceBuffer, borrowed: boolean) {
    this.device = device;
    this.buffer = buffer;
    this.borrowed = borrowed;
  }

  release(): void {
    if (--this.references < 0) throw new InternalError("a tensor was released more often than retained");
    if (this.references === 0 && !this.borrowed) this.device.free(this.buffer);
  }
}

let nextId = 1;

export class Tensor {
  readonly id = nextId++;
  readonly shape: Shape;
  readonly dtype: DType;
  /** Whether a gradient should flow to it. */
  readonly requiresGradient: boolean;
  readonly #storage: Storage;
  readonly #offsetBytes: number;

  private constructor(storage: Storage, offsetBytes: number, shape: Shape, dtype: DType, requiresGradient: boolean) {
    this.#storage = storage;
    this.#offsetBytes = offsetBytes;
    this.shape = shape;
    this.dtype = dtype;
    this.requiresGradient = requiresGradient;
  }

  /** New memory, uninitialised; the caller holds its one reference. */
  static allocate(
    device: Device,
    shape: Shape,
    dtype: DType,
    options: { label?: MemoryLabel; requiresGradient?: boolean } = {},
  ): Tensor {
    const buffer = device.allocate(options.label ?? "activations", elementsOf(shape) * dtypeBytes[dtype]);
    return new Tensor(new Storage(device, buffer, false), 0, shape, dtype, options.requiresGradient ?? false);
  }

  /** A view into memory that somebody else frees. */
  static borrow(device: Device, buffer: DeviceBuffer, offsetBytes: number, shape: Shape, dtype: DType): Tensor {
    return new Tensor(new Storage(device, buffer, true), offsetBytes, shape, dtype, true);
  }

  get elements(): number {
    return elementsOf(this.shape);
  }

  /** Size of the last dimension. */
  get cols(): number {
    return this.shape[this.shape.length - 1] ?? 1;
  }

  /** All dimensions but the last, as one. */
  get rows(): number {
    return this.elements / this.cols;
  }

  get device(): Device {
    return this.#storage.device;
  }

  get buffer(): DeviceBuffer {
    return this.#storage.buffer;
  }

  /** @throws DisposedError when its memory is gone */
  get span(): Span {
    return this.at(0);
  }

  /** The address of element `element`. */
  at(element: number): Span {
    if (this.#storage.references <= 0 || this.#storage.buffer.freed)
      throw new DisposedError(
        `a tensor [${this.shape.join(", ")}] ${this.dtype}`,
        "an intermediate lives until the end of its scope, or until the backward pass has used it",
      );
    return this.#storage.buffer.at(this.#offsetBytes + element * dtypeBytes[this.dtype]);
  }

  /** Whether this reference is the only one: then an op may write its result over it. */
  get exclusive(): boolean {
    return this.#storage.references === 1 && !this.#storage.borrowed;
  }

  /** The same memory under another shape; shares (and retains) the storage. */
  view(shape: Shape, requiresGradient: boolean = this.requiresGradient): Tensor {
    if (elementsOf(shape) !== this.elements)
      throw new ShapeError("view", `[${this.shape.join(", ")}]`, `${elementsOf(shape)} elements`);
    this.#storage.references++;
    return new Tensor(this.#storage, this.#offsetBytes, shape, this.dtype, requiresGradient);
  }

  retain(): this {
    void this.span; // a retained tensor must be alive
    this.#storage.references++;
    return this;
  }

  release(): void {
    this.#storage.release();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}
