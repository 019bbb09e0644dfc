/** A model as data: its units and their parameters, for the plan; and which unit each module's code runs in. */
import { UsageError } from "../errors/errors.ts";
import { Module, ModuleList } from "./module.ts";
import type { Parameter } from "./parameter.ts";

/** The name of the unit of everything that belongs to no other. */
export const rootUnit = "(root)";

export interface ParameterDescription {
  readonly name: string;
  readonly shape: readonly number[];
  readonly trainable: boolean;
}

/** Parameters that are gathered, used and released together. */
export interface UnitDescription {
  readonly name: string;
  readonly parameters: readonly ParameterDescription[];
  /** Units that own parameters this one uses as well (tied weights): they are gathered with it. */
  readonly uses: readonly string[];
}

export interface ModelDescription {
  /** In plan order: the root unit first, then units in declaration order. */
  readonly units: readonly UnitDescription[];
}

export interface DescribedModel {
  readonly description: ModelDescription;
  readonly parameters: ReadonlyMap<string, Parameter>;
  /** The unit whose parameters are usable while `module` runs. */
  unitOf(module: object): string;
}

/** Units as marked with `unit()`; unmarked, each child of the longest ModuleList is one (contracts 7). The rest is the root unit. */
function unitModules(root: Module): Map<Module, string> {
  const marked = new Map<Module, string>();
  let longest: { list: ModuleList; name: string } | undefined;
  const walk = (module: Module, name: string): void => {
    if (module !== root && module.isUnit) {
      if (!marked.has(module)) marked.set(module, name);
      return;
    }
    if (module instanceof ModuleList && module.length > (longest?.list.length ?? 0)) longest = { list: module, name };
    for (const [child, value] of module.children())
      if (value instanceof Module) walk(value, name ? `${name}.${child}` : child);
  };
  walk(root, "");
  if (marked.size > 0 || !longest) return marked;
  for (const [i, module] of longest.list.modules.entries())
    if (!marked.has(module)) marked.set(module, `${longest.name}.${i}`);
  return marked;
}

/** Names the model's parameters and divides it into units. @throws UsageError where there is nothing to train */
export function describeModel(model: Module): DescribedModel {
  const named = model.namedParameters();
  if (named.length === 0)
    throw new UsageError("the model has no parameters; declare them as properties of its modules");
  for (const [name, parameter] of named) parameter.name = name;
  const units = unitModules(model);
  const names = [rootUnit, ...units.values()];
  const owned = new Map<string, ParameterDescription[]>(names.map((n) => [n, []]));
  const uses = new Map<string, Set<string>>(names.map((n) => [n, new Set()]));
  const unitOf = new Map<object, string>();
  const owner = new Map<Parameter, string>();
  const visit = (module: Module, enclosing: string): void => {
    const unit = units.get(module) ?? enclosing;
    if (unitOf.has(module)) return; // a shared module runs in the unit it was first met in
    unitOf.set(module, unit);
    for (const [, child] of module.children()) {
      if (child instanceof Module) visit(child, unit);
      else if (owner.has(child)) uses.get(unit)!.add(owner.get(child)!);
      else {
        owner.set(child, unit);
        owned.get(unit)!.push({ name: child.name, shape: child.shape, trainable: child.trainable });
      }
    }
  };
  visit(model, rootUnit);
  const description = {
    units: names
      .map((name) => ({ name, parameters: owned.get(name)!, uses: [...uses.get(name)!].filter((u) => u !== name) }))
      .filter((u) => u.parameters.length > 0 || u.uses.length > 0),
  };
  return { description, parameters: new Map(named), unitOf: (module) => unitOf.get(module) ?? rootUnit };
}
