/** Frozen parameters by patterns of their names. */
import { examplesOf, matcherOf, unmatched } from "../config/name-patterns.ts";
import { printable } from "../errors/printable.ts";

/** A pattern after it is trained again. */
const exception = "!";

/** Which names are frozen: the last pattern that fits a name counts. */
export function frozenBy(patterns: readonly string[]): (name: string) => boolean {
  const rules = patterns.map((pattern) => {
    const trains = pattern.startsWith(exception);
    return { matches: matcherOf(trains ? pattern.slice(exception.length) : pattern), freezes: !trains };
  });
  return (name) => rules.findLast(({ matches }) => matches(name))?.freezes ?? false;
}

/** What is wrong with the first pattern that fits no name, or with all of them together; undefined: nothing. @param names of all parameters */
export function freezeFault(patterns: readonly string[], names: readonly string[]): string | undefined {
  for (const pattern of patterns) {
    const plain = pattern.startsWith(exception) ? pattern.slice(exception.length) : pattern;
    if (!names.some(matcherOf(plain))) return printable(unmatched(plain, names));
  }
  if (patterns.length === 0) return undefined;
  const isFrozen = frozenBy(patterns);
  const frozen = names.filter(isFrozen).length;
  if (frozen === 0)
    return printable(
      `nothing is frozen: ${JSON.stringify(patterns)} train again what no pattern before them freezes; begin with one that does, such as "*"`,
    );
  if (frozen < names.length) return undefined;
  const last = patterns.at(-1)!;
  return printable(
    `nothing would be left to train: ${JSON.stringify(patterns)} fit all ${names.length} parameters; leave some out, ` +
      `or train some again with a pattern after !, such as "${exception}${examplesOf(names.slice(-1))}" behind "${last}"`,
  );
}
