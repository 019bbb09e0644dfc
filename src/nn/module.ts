/**
 * Modules: named trees of parameters with a forward. Names are property names joined by dots, in declaration order, which is
 * also the order of the plan. A module's `forward` only issues ops; units are crossed with `run` and `segment`, which wait.
 */
import type { Tape } from "../tensor/tape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { Parameter } from "./parameter.ts";

export abstract class Module {
  #isUnit = false;

  /** Marks this module as a unit: what is gathered, used and released together. Returns it. */
  unit(): this {
    this.#isUnit = true;
    return this;
  }

  get isUnit(): boolean {
    return this.#isUnit;
  }

  /** Runs the forward of a module that is a unit, as a segment whose inside may be recomputed (activation checkpointing). */
  run<I extends Tensor[]>(
    this: Module & { forward(tape: Tape, ...inputs: I): Tensor },
    tape: Tape,
    ...inputs: I
  ): Promise<Tensor> {
    return tape.segment(this, inputs, (...again: I) => this.forward(tape, ...again), { recompute: true });
  }

  /** Runs `body` where this module's own parameters are usable; its inside is kept for backward. */
  segment<I extends Tensor[]>(tape: Tape, inputs: I, body: (...inputs: I) => Tensor): Promise<Tensor> {
    return tape.segment(this, inputs, body);
  }

  /** Direct parameters and modules, by property name, in declaration order. */
  children(): [string, Module | Parameter][] {
    return Object.entries(this).filter(
      (entry): entry is [string, Module | Parameter] => entry[1] instanceof Module || entry[1] instanceof Parameter,
    );
  }

  /** All parameters with their dotted names, each once, under the first name it is met by. */
  namedParameters(): [string, Parameter][] {
    const found = new Map<Parameter, string>();
    const walk = (module: Module, prefix: string): void => {
      for (const [name, child] of module.children()) {
        if (child instanceof Module) walk(child, `${prefix}${name}.`);
        else if (!found.has(child)) found.set(child, `${prefix}${name}`);
      }
    };
    walk(this, "");
    return [...found].map(([parameter, name]) => [name, parameter]);
  }
}

/** A numbered list of modules. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  readonly modules: readonly M[];

  constructor(modules: readonly M[]) {
    super();
    this.modules = modules;
  }

  get length(): number {
    return this.modules.length;
  }

  override children(): [string, Module][] {
    return this.modules.map((module, i) => [String(i), module]);
  }

  [Symbol.iterator](): Iterator<M> {
    return this.modules[Symbol.iterator]();
  }
}
