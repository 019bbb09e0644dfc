/** Passes without gradients: the answer of a model, and the search for the first output that is not finite. */
import type { ProcessGroup } from "../comm/group.ts";
import type { Device } from "../device/device.ts";
import type { DType } from "../device/dtype.ts";
import { RandomKeys } from "../tensor/random.ts";
import { type SegmentHooks, Tape } from "../tensor/tape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { type BadOutput, firstBadOutput, type SegmentOutput } from "./diagnose.ts";
import type { Units } from "./unit.ts";

export class Evaluator {
  readonly #device: Device;
  readonly #units: Units;
  readonly #dtype: DType;

  /** @param dtype of activations */
  constructor(device: Device, units: Units, dtype: DType) {
    this.#device = device;
    this.#units = units;
    this.#dtype = dtype;
  }

  /** Runs `body` and reads the fp32 values of its result. */
  async infer(body: (tape: Tape) => Promise<Tensor>): Promise<Float32Array> {
    using tape = this.#tape();
    try {
      const result = await body(tape);
      const count = result.elements;
      const values = tape.make(result.shape, "f32");
      const args = { count, srcType: result.dtype, dstType: "f32", src: result.span, dst: values.span } as const;
      this.#device.issue("compute", "cast", args);
      const bytes = await this.#device.read(values.span, "f32", count, new Float32Array(count));
      return new Float32Array(bytes.buffer);
    } finally {
      this.#units.endPass();
    }
  }

  /** Runs `forward` and tells the first segment of any rank whose output is not finite. */
  async firstBadOutput(group: ProcessGroup, forward: (tape: Tape) => Promise<unknown>): Promise<BadOutput | undefined> {
    const outputs: SegmentOutput[] = [];
    using tape = this.#tape((unit, tensor) => outputs.push({ unit, tensor: tape.own(tensor.retain()) }));
    await forward(tape);
    this.#units.endPass();
    return await firstBadOutput(this.#device, group, outputs);
  }

  /** @param see is shown what each segment makes, with the name of its unit */
  #tape(see?: (unit: string, output: Tensor) => void): Tape {
    this.#units.beginPass("evaluate");
    const hooks: SegmentHooks = {
      enter: async (owner) => this.#units.enter(this.#units.unitOf(owner), true),
      leave: (owner, _pass, output) => {
        const unit = this.#units.unitOf(owner);
        this.#units.leave(unit);
        if (output) see?.(unit.name, output);
      },
    };
    // Without training nothing is drawn, so any key will do.
    return new Tape({ device: this.#device, dtype: this.#dtype, training: false, hooks, random: new RandomKeys(0) });
  }
}
