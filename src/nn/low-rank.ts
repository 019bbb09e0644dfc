/** What a low-rank adapter (LoRA; Hu et al., 2021) is made of. */
import { Module } from "./module.ts";
import { type Initialiser, Parameter } from "./parameter.ts";

export interface AdapterOptions {
  readonly rank: number;
  /** What B A x is multiplied by. */
  readonly scale: number;
  /** Share of the adapter's inputs that is dropped while training. */
  readonly dropout: number;
  /** Of its dropout, for the random numbers. */
  readonly name: string;
}

/** One of the two factors. Its weight is [outputs, inputs], whatever the order of the layer's own, as in PEFT's files. */
export class LoraFactor extends Module {
  readonly weight: Parameter;

  constructor(inputs: number, outputs: number, initialiser: Initialiser) {
    super();
    this.weight = new Parameter([outputs, inputs], initialiser);
  }
}

/** Where A begins, as PEFT has it: He et al.'s even distribution (2015) with a slope of sqrt(5), which comes to 1 / sqrt(inputs). */
export function downFactor(inputs: number, rank: number): LoraFactor {
  const bound = 1 / Math.sqrt(inputs);
  return new LoraFactor(inputs, rank, { kind: "uniform", low: -bound, high: bound });
}

/** B begins at zero, so that the model begins as it was. */
export const upFactor = (rank: number, outputs: number): LoraFactor =>
  new LoraFactor(rank, outputs, { kind: "constant", value: 0 });
