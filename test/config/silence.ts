/** Which keys of a configuration are neither acted on nor spoken of. */
import { type ConfigNode, joinPath } from "../../src/config/json.ts";
import { passesUnsaid } from "../../src/config/key-kinds.ts";
import { canonicalPath, sections, specs } from "../../src/config/known-keys.ts";
import type { ConfigExamination } from "../../src/config/resolve.ts";
import { sectionFor } from "../../src/config/shorthands.ts";

/** Paths of keys, as written, that passed in silence: no value of the configuration is theirs, and no problem names them. */
export function silentKeys(
  root: ConfigNode,
  { draft, problems }: Pick<ConfigExamination, "draft" | "problems">,
): string[] {
  const silent: string[] = [];
  const isNamed = (path: string): boolean =>
    problems.some((p) => p.path === path || path.startsWith(`${p.path}.`) || p.message.includes(path));
  const isHeard = (path: string, node: ConfigNode): boolean => {
    if (isNamed(path)) return true;
    const spec = specs.get(canonicalPath(path));
    const isNull = node.kind === "scalar" && node.value === null;
    const isOffSection = sections.has(path) && sectionFor(path, node).kind === "leftOut";
    if (spec === undefined) return path === "$schema" || isOffSection;
    switch (spec.status) {
      case "used":
        return isNull || draft.places?.get(canonicalPath(path))?.written === path; // null says "left out"
      case "fixed":
        return spec.accepts(node);
      case "unused":
        return passesUnsaid(spec, node);
      case "replaced":
        return false; // it always has something to say
      default:
        return spec satisfies never;
    }
  };
  const walk = (node: ConfigNode, path: string): void => {
    if (node.kind !== "object") return;
    for (const { key, value } of node.members) {
      const inner = joinPath(path, key);
      const isSection = value.kind === "object" && specs.get(canonicalPath(inner)) === undefined && !isNamed(inner);
      if (isSection && value.members.length > 0) walk(value, inner);
      else if (!isSection && !isHeard(inner, value)) silent.push(inner);
    }
  };
  walk(root, "");
  return silent;
}
