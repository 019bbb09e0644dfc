/** Parameter groups: parameters that are updated with numbers of their own, chosen by patterns of their names. */
import { nearest } from "../config/spelling.ts";
import type { OptimizerConfig, ParameterGroupConfig } from "../config/types.ts";
import { UsageError } from "../errors/errors.ts";

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
    this.#matchers = groups.map(({ match }) => {
      const patterns = match.map(matcherOf);
      return (name) => patterns.some((matches) => matches(name));
    });
    this.#check(groups, parameters);
  }

  /** The number of the group that has a parameter: the first that matches its name. */
  of(name: string): number {
    return this.#matchers.findIndex((matches) => matches(name)) + 1;
  }

  #check(groups: readonly ParameterGroupConfig[], parameters: readonly NamedParameter[]): void {
    const trained = parameters.filter((p) => p.trainable);
    for (const [i, { match }] of groups.entries()) {
      const path = `shunya.parameter_groups[${i}]`;
      for (const pattern of match) {
        const matched = parameters.filter((p) => matcherOf(pattern)(p.name));
        if (matched.length === 0) throw new UsageError(`${path}: ${unmatched(pattern, parameters)}`);
        if (!matched.some((p) => p.trainable))
          throw new UsageError(
            `${path}: the pattern "${pattern}" matches frozen parameters only (${examples(matched)}), which no group updates; remove it`,
          );
      }
      if (!trained.some((p) => this.of(p.name) === i + 1))
        throw new UsageError(
          `${path}: groups before it take every parameter that it matches (${examples(trained.filter((p) => this.#matchers[i]!(p.name)))}); the first group that matches has a parameter, so put this one first or remove it`,
        );
    }
  }
}

/** `*` stands for any characters, all else for itself. Takes the pattern's literals from left to right, each where it comes first. */
function matcherOf(pattern: string): (name: string) => boolean {
  const [head = "", ...literals] = pattern.split("*");
  const tail = literals.pop();
  if (tail === undefined) return (name) => name === pattern;
  return (name) => {
    const end = name.length - tail.length;
    let at = head.length;
    if (at > end || !name.startsWith(head) || !name.endsWith(tail)) return false;
    return literals.every((literal) => {
      const found = name.indexOf(literal, at);
      at = found + literal.length;
      return found >= 0 && at <= end;
    });
  };
}

function unmatched(pattern: string, parameters: readonly NamedParameter[]): string {
  const names = parameters.map((p) => p.name);
  const words = new Set(names.flatMap((name) => name.split(".")));
  const corrected = pattern.replace(/[^.*]+/g, (word) => (words.has(word) ? word : (nearest(word, words) ?? word)));
  const meant = [corrected, `*${corrected}`, `*${corrected}*`].find((p) => names.some(matcherOf(p)));
  const hint = meant === undefined ? "" : `; did you mean "${meant}"?`;
  return `no parameter's name matches the pattern "${pattern}"${hint} (names are such as ${examples(parameters)}; * stands for any characters)`;
}

/** A few names, of different parts of the model where there are many. */
function examples(parameters: readonly NamedParameter[]): string {
  const shown = new Set([0, 0.5, 1].map((share) => parameters[Math.floor(share * (parameters.length - 1))]?.name));
  return [...shown].join(", ");
}
