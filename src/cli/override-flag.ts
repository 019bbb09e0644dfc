/** `--set path=value`. */
import { type Override, parseOverride } from "../config/resolve.ts";
import { UsageError } from "../errors/errors.ts";

/** @throws UsageError for what has no path or no value */
export function collectOverride(text: string, before: readonly Override[] = []): readonly Override[] {
  const override = parseOverride(text);
  if (!override) throw new UsageError(`--set ${text}: wanted path=value, such as --set optimizer.params.lr=1e-4`);
  return [...before, override];
}
