/** Parameters are lazy: a name, a shape and a way to begin. Constructing a module allocates nothing (contracts 6). */
import { NotGatheredError } from "../errors/errors.ts";
import { checkArgument, checkOptions, type Kind, type Kinds, required, truth } from "../errors/options.ts";
import type { Shape, Tensor } from "../tensor/tensor.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { Weight } from "../tensor/weight.ts";

export type Initialiser =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "normal"; readonly mean: number; readonly std: number }
  /** Evenly from `low` to below `high`. */
  | { readonly kind: "uniform"; readonly low: number; readonly high: number };

/** Where a parameter's values and gradient are; set by whoever manages memory. */
export interface Binding {
  /** Undefined where the values are not usable now. */
  readonly value: Tensor | undefined;
  readonly unitName: string;
  takeGradient(parameter: Parameter): { tensor: Tensor; accumulate: boolean };
}

export interface ParameterOptions {
  /** Defaults to true. */
  readonly trainable?: boolean;
}

const optionKinds: Kinds<ParameterOptions> = { trainable: truth };

const shapeKind: Kind = required({
  wanted: "a list of positive whole numbers",
  holds: (value) => Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size > 0),
});

export class Parameter implements Weight {
  readonly shape: Shape;
  readonly initialiser: Initialiser;
  /** Frozen parameters have neither gradient nor optimizer states. */
  trainable: boolean;
  /** Dotted path in the model, given when the model is described. */
  name = "(unnamed)";
  #binding: Binding | undefined;

  constructor(shape: Shape, initialiser: Initialiser, options: ParameterOptions = {}) {
    checkArgument("Parameter", "shape", shape, shapeKind);
    checkOptions("Parameter", options, optionKinds);
    this.shape = shape;
    this.initialiser = initialiser;
    this.trainable = options.trainable ?? true;
  }

  get elements(): number {
    return elementsOf(this.shape);
  }

  /** Whether an engine holds it. */
  get isBound(): boolean {
    return this.#binding !== undefined;
  }

  bind(binding: Binding | undefined): void {
    this.#binding = binding;
  }

  get value(): Tensor {
    const value = this.#binding?.value;
    if (!value) throw new NotGatheredError(this.name, this.#binding?.unitName ?? "(no engine was initialised)");
    return value;
  }

  takeGradient(): { tensor: Tensor; accumulate: boolean } {
    if (!this.#binding) throw new NotGatheredError(this.name, "(no engine was initialised)");
    return this.#binding.takeGradient(this);
  }
}
