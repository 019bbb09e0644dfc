/** Parameter groups: parameters that are updated with numbers of their own, chosen by patterns of their names. */
import { examplesOf, matcherOf, unmatched } from "../config/name-patterns.ts";
import type { OptimizerConfig, ParameterGroupConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";
import { printable } from "../errors/printable.ts";

export interface GroupNumbers {
  /** Before any schedule. */
  readonly learningRate: number;
  readonly weightDecay: number;
}

export interface NamedParameter {
  readonly name: string;
  readonly trainable: boolean;
}

export class ParameterGroups {
  /** Of each group; number 0 is of the parameters that no group takes, the optimizer's own. */
  readonly numbers: readonly GroupNumbers[];
  readonly #matchers: readonly ((name: string) => boolean)[];

  /** @throws UsageError for a pattern or a group that takes none of `parameters` */
  constructor(
    optimizer: OptimizerConfig,
    groups: readonly ParameterGroupConfig[],
    parameters: readonly NamedParameter[],
  ) {
    const own = { learningRate: optimizer.learningRate, weightDecay: optimizer.weightDecay };
    this.numbers = [
      own,
      ...groups.map((g) => ({
        learningRate: g.learningRate ?? own.learningRate,
        weightDecay: g.weightDecay ?? own.weightDecay,
      })),
    ];
    this.#matchers = groups.map(groupMatcher);
    const fault = faultOf(groups, parameters);
    if (fault !== undefined) throw new UsageError(`shunya.parameter_groups: ${fault}`);
  }

  /** The number of the group that has a parameter: the first that matches its name. */
  of(name: string): number {
    return this.#matchers.findIndex((matches) => matches(name)) + 1;
  }
}

/** What is wrong with the first group that takes no parameter, or has a pattern that matches none; undefined: nothing. */
export function faultOf(
  groups: readonly ParameterGroupConfig[],
  parameters: readonly NamedParameter[],
): string | undefined {
  const trained = parameters.filter((p) => p.trainable);
  const taken = new Set<string>();
  for (const [i, group] of groups.entries()) {
    const where = `group ${i + 1}: `;
    for (const pattern of group.match) {
      const matches = matcherOf(pattern);
      const matched = parameters.filter((p) => matches(p.name));
      if (matched.length === 0) return printable(where + unmatched(pattern, namesOf(parameters)));
      if (!matched.some((p) => p.trainable))
        return printable(
          `${where}the pattern "${pattern}" matches frozen parameters only (${examplesOf(namesOf(matched))}), which no group updates; remove it`,
        );
    }
    const takes = groupMatcher(group);
    const mine = trained.filter((p) => takes(p.name));
    if (mine.every((p) => taken.has(p.name)))
      return `${where}groups before it take every parameter that it matches (${examplesOf(namesOf(mine))}); the first group that matches has a parameter, so put this one first or remove it`;
    for (const { name } of mine) taken.add(name);
  }
  return undefined;
}

function groupMatcher({ match }: ParameterGroupConfig): (name: string) => boolean {
  const patterns = match.map(matcherOf);
  return (name) => patterns.some((matches) => matches(name));
}

const namesOf = (parameters: readonly NamedParameter[]): string[] => parameters.map(({ name }) => name);
