/**
 * The tape: what forward did, so that backward can undo it. It is passed explicitly, owns the intermediates of a pass, and is
 * cut into segments at unit borders, where whoever manages parameters is called (see SegmentHooks).
 *
 * Memory: a scope holds one reference to every tensor made in it and drops them when it ends; what backward needs is retained
 * by its node until the node has run. Nothing waits for the garbage collector.
 */
import type { Device, DeviceBuffer } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import { InternalError, ShapeError } from "../errors/errors.ts";
import type { RandomKeys } from "./random.ts";
import { type Shape, Tensor } from "./tensor.ts";

/** Called at the borders of a segment, the only places where a pass may wait. `owner` is what `segment` was given. */
export interface SegmentHooks {
  /** @param needsValues false where backward uses none of the owner's parameter values */
  enter(owner: object, pass: "forward" | "backward", needsValues: boolean): Promise<void>;
  /** @param output what the segment made, after its forward pass */
  leave(owner: object, pass: "forward" | "backward", output?: Tensor): void;
}

export interface TapeOptions {
  readonly device: Device;
  /** Type of activations: the parameters' own. */
  readonly dtype: DType;
  /** Whether to record for a backward pass; dropout acts only then. */
  readonly training: boolean;
  readonly hooks?: SegmentHooks;
  /** Recompute the inside of segments that allow it instead of keeping it. */
  readonly checkpointing?: boolean;
  /** What the loss's gradient starts from: the loss scale (contracts 10). */
  readonly lossSeed?: number;
  /**
   * What a sum over targets is divided by: the targets of the whole step over its micro-batches, so that the mean of all micro-batches'
   * losses is the mean over all targets (contracts 18). Undefined: by the targets of this pass.
   */
  readonly lossDivisor?: number | undefined;
  readonly random: RandomKeys;
}

/** Gradients for the inputs, in order; undefined where none flows. The tape takes over the references. */
type BackwardResult = readonly (Tensor | undefined)[];
/** @param gradient of the output; @param existing an input's gradient so far, if this node may add to it in place */
export type Backward = (gradient: Tensor, existing: (input: number) => Tensor | undefined) => BackwardResult;

interface Node {
  readonly name: string;
  readonly inputs: readonly Tensor[];
  readonly output: Tensor;
  readonly saved: readonly Tensor[];
  readonly backward: Backward;
}

interface Segment {
  readonly owner: object | undefined;
  readonly nodes: Node[];
  needsValues: boolean;
  /** Set where the inside is recomputed: the (retained) inputs and how. */
  readonly recompute?: { readonly inputs: readonly Tensor[]; readonly body: (...inputs: Tensor[]) => Tensor };
  /** Held until its backward pass is over; nothing can use it after that. */
  output?: Tensor;
}

export class Tape {
  readonly device: Device;
  readonly dtype: DType;
  readonly training: boolean;
  readonly lossSeed: number;
  readonly lossDivisor: number | undefined;
  /** Targets that counted in the losses of this pass. */
  lossTargets = 0;
  readonly random: RandomKeys;
  readonly #hooks: SegmentHooks | undefined;
  readonly #checkpointing: boolean;
  readonly #segments: Segment[] = [];
  readonly #scopes: Tensor[][] = [[]];
  readonly #gradients = new Map<number, Tensor>();
  readonly #nonNegative = new WeakMap<DeviceBuffer, number>();
  #recording: Segment | undefined;
  #muted = false;

  constructor(options: TapeOptions) {
    this.device = options.device;
    this.dtype = options.dtype;
    this.training = options.training;
    this.lossSeed = options.lossSeed ?? 1;
    this.lossDivisor = options.lossDivisor;
    this.random = options.random;
    this.#hooks = options.hooks;
    this.#checkpointing = options.checkpointing ?? false;
  }

  /** Whether what an op does now will be asked for its backward pass: only then it keeps anything for it. */
  get recording(): boolean {
    return this.training && !this.#muted;
  }

  /** A new tensor, owned by the current scope. */
  make(shape: Shape, dtype: DType = this.dtype, requiresGradient = false): Tensor {
    return this.own(
      Tensor.allocate(this.device, shape, dtype, { requiresGradient: requiresGradient && this.training }),
    );
  }

  /** Indices from the host, owned by the current scope. */
  integers(data: Int32Array, shape: Shape): Tensor {
    const tensor = this.make(shape, "i32");
    this.device.upload(tensor.span, data);
    this.#nonNegative.set(
      tensor.buffer,
      data.reduce((count, value) => (value < 0 ? count : count + 1), 0),
    );
    return tensor;
  }

  /** How many elements of what `integers` made are not negative; undefined for other tensors. */
  nonNegativeOf(tensor: Tensor): number | undefined {
    return this.#nonNegative.get(tensor.buffer);
  }

  /** Numbers from the host in the tape's type, owned by the current scope. */
  numbers(data: Float32Array, shape: Shape): Tensor {
    const tensor = this.make(shape, "f32");
    this.device.upload(tensor.span, data);
    if (this.dtype === "f32") return tensor;
    const cast = this.make(shape);
    const args = { count: data.length, srcType: "f32", dstType: this.dtype, src: tensor.span, dst: cast.span } as const;
    this.device.issue("compute", "cast", args);
    return cast;
  }

  /** Hands a reference to the current scope. */
  own(tensor: Tensor): Tensor {
    this.#scopes.at(-1)!.push(tensor);
    return tensor;
  }

  /** Runs `body`; everything made in it, except its result, goes with it. */
  scope(body: () => Tensor): Tensor {
    return this.own(this.#run(body));
  }

  /** Notes how to get from the gradient of `output` to those of `inputs`; `saved` is kept until then. */
  record(
    name: string,
    inputs: readonly Tensor[],
    output: Tensor,
    saved: readonly Tensor[],
    backward: Backward,
    usesValues = true,
  ): Tensor {
    if (!this.recording || !output.requiresGradient) return output;
    this.#recording ??= this.#looseSegment();
    for (const tensor of saved) tensor.retain();
    this.#recording.nodes.push({ name, inputs, output, saved, backward });
    if (usesValues) this.#recording.needsValues = true;
    return output;
  }

  /**
   * Runs `body` as a segment of `owner`: its parameters are usable inside. With `recompute` and checkpointing on, only the
   * inputs are kept and the inside runs again in the backward pass.
   */
  async segment<I extends Tensor[]>(
    owner: object,
    inputs: I,
    body: (...inputs: I) => Tensor,
    options: { recompute: boolean } = { recompute: false },
  ): Promise<Tensor> {
    await this.#hooks?.enter(owner, "forward", true);
    const recompute = this.training && this.#checkpointing && options.recompute;
    const output = recompute ? this.#forget(owner, inputs, body as never) : this.#keep(owner, inputs, body as never);
    this.#hooks?.leave(owner, "forward", output);
    return output;
  }

  /** Gradients of all parameters that `loss` depends on, segment by segment in reverse. Consumes the tape. */
  async backward(loss: Tensor): Promise<void> {
    if (loss.elements !== 1)
      throw new ShapeError("backward", `a loss of shape [${loss.shape.join(", ")}]`, "one element");
    const seed = Tensor.allocate(this.device, loss.shape, "f32");
    this.device.issue("compute", "fill", { count: 1, dtype: "f32", value: 1, dst: seed.span });
    this.#gradients.set(loss.id, seed);
    for (let s = this.#segments.pop(); s; s = this.#segments.pop()) await this.#backwardSegment(s);
    for (const gradient of this.#gradients.values()) gradient.release();
    this.#gradients.clear();
    this.dispose();
  }

  /** Drops whatever is still held (after an evaluation, or an error in mid-pass). */
  dispose(): void {
    for (const segment of this.#segments.splice(0)) {
      for (const node of segment.nodes) for (const tensor of node.saved) tensor.release();
      for (const input of segment.recompute?.inputs ?? []) input.release();
      segment.output?.release();
    }
    for (const gradient of this.#gradients.values()) gradient.release();
    this.#gradients.clear();
    while (this.#scopes.length > 0) this.#endScope();
    this.#scopes.push([]);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** For ops between segments, which belong to no unit. */
  #looseSegment(): Segment {
    const segment: Segment = { owner: undefined, nodes: [], needsValues: false };
    this.#segments.push(segment);
    return segment;
  }

  #keep(owner: object, inputs: readonly Tensor[], body: (...inputs: Tensor[]) => Tensor): Tensor {
    const segment: Segment = { owner, nodes: [], needsValues: false };
    this.#recording = segment;
    try {
      const output = this.#run(() => body(...inputs));
      if (!this.training) return this.own(output);
      segment.output = output;
      this.#segments.push(segment);
      return output;
    } finally {
      this.#recording = undefined;
    }
  }

  #forget(owner: object, inputs: readonly Tensor[], body: (...inputs: Tensor[]) => Tensor): Tensor {
    this.#muted = true;
    try {
      const output = this.#run(() => body(...inputs));
      // What no gradient flows to is never run again.
      const needsValues = output.requiresGradient;
      const recompute = needsValues ? { recompute: { inputs, body } } : {};
      if (needsValues) for (const input of inputs) input.retain();
      this.#segments.push({ owner, nodes: [], needsValues, ...recompute, output });
      return output;
    } finally {
      this.#muted = false;
    }
  }

  /** Runs `body` in a scope of its own; the reference to the result is the caller's. */
  #run(body: () => Tensor): Tensor {
    this.#scopes.push([]);
    try {
      return body().retain();
    } finally {
      this.#endScope();
    }
  }

  async #backwardSegment(segment: Segment): Promise<void> {
    const reached = segment.nodes.length > 0 || (segment.output && this.#gradients.has(segment.output.id));
    if (segment.owner) await this.#hooks?.enter(segment.owner, "backward", segment.needsValues);
    if (segment.recompute && reached) this.#recomputeInto(segment);
    for (let node = segment.nodes.pop(); node; node = segment.nodes.pop()) this.#backwardNode(node);
    for (const input of segment.recompute?.inputs ?? []) input.release();
    segment.output?.release();
    if (segment.owner) this.#hooks?.leave(segment.owner, "backward");
  }

  /** Runs the segment's forward again, recorded, and moves the gradient of the kept output to the new one. */
  #recomputeInto(segment: Segment): void {
    const { inputs, body } = segment.recompute!;
    this.#recording = segment;
    const again = this.#run(() => body(...inputs));
    this.#recording = undefined;
    const gradient = this.#gradients.get(segment.output!.id)!;
    this.#gradients.delete(segment.output!.id);
    this.#gradients.set(again.id, gradient);
    again.release();
  }

  #backwardNode(node: Node): void {
    const gradient = this.#gradients.get(node.output.id);
    this.#gradients.delete(node.output.id);
    if (gradient) {
      const offered = new Map<number, Tensor>();
      const existing = (i: number): Tensor | undefined => {
        const held = this.#gradients.get(node.inputs[i]!.id);
        if (held?.exclusive) offered.set(i, held);
        return offered.get(i);
      };
      const results = node.backward(gradient, existing);
      if (results.length !== node.inputs.length) throw new InternalError(`${node.name}: one gradient per input`);
      results.forEach((result, i) => {
        const addedInPlace = result !== undefined && result === offered.get(i);
        if (result && !addedInPlace) this.#accumulate(node.inputs[i]!, result);
      });
      gradient.release();
    }
    for (const tensor of node.saved) tensor.release();
  }

  /** Adds `gradient` (whose reference it takes) to the gradient of `input`. */
  #accumulate(input: Tensor, gradient: Tensor): void {
    const held = this.#gradients.get(input.id);
    if (!held || !input.requiresGradient) {
      if (input.requiresGradient) this.#gradients.set(input.id, gradient);
      else gradient.release();
      return;
    }
    const sum = held.exclusive ? held : Tensor.allocate(this.device, held.shape, held.dtype);
    const args = { count: held.elements, dtype: held.dtype, a: held.span, b: gradient.span, out: sum.span };
    this.device.issue("compute", "add", args);
    gradient.release();
    if (sum === held) return;
    held.release();
    this.#gradients.set(input.id, sum);
  }

  #endScope(): void {
    for (const tensor of this.#scopes.pop() ?? []) tensor.release();
  }
}
