/**
 * What ops know of a parameter: a name, and where its values and its gradient are right now. Whoever manages memory (a ZeRO
 * unit, or a plain store) binds both for as long as the parameter may be used. What backward keeps is the Weight, never an
 * address, so the values may be released between the passes.
 */
import type { Shape, Tensor } from "./tensor.ts";

export interface Weight {
  readonly name: string;
  readonly shape: Shape;
  readonly trainable: boolean;
  /** @throws NotGatheredError outside the parameter's unit */
  readonly value: Tensor;
  /** Where to put a gradient now, and whether to add to what is there. Each call promises that the caller writes all of it. */
  takeGradient(): { readonly tensor: Tensor; readonly accumulate: boolean };
}
