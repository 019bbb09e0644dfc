// Faults of what is said of wrong input, and of what a plan looks at and shows.
import type { Fault } from "./faults.ts";
import { laws } from "./laws.ts";

export const wordFaults: readonly Fault[] = [
  {
    name: "an option that nobody knows is no error",
    file: "src/errors/options.ts",
    find: "    if (Object.hasOwn(kinds, name)) continue;\n",
    replace: "    if (Object.hasOwn(kinds, name) || name !== call) continue;\n",
    law: laws.options,
  },
  {
    name: "an option may be of any kind",
    file: "src/errors/options.ts",
    find: "!kind.isRequired : kind.holds(value)) return;",
    replace: "!kind.isRequired : true) return;",
    law: laws.options,
  },
  {
    name: "a chat template has an hour",
    file: "src/tokenizer/bounded.ts",
    find: "export const renderMilliseconds = 10_000;",
    replace: "export const renderMilliseconds = 3_600_000;",
    law: laws.endless,
  },
  {
    name: "a template's range may fill the memory",
    file: "src/tokenizer/bounded.ts",
    find: "if (!(count <= mostRange))",
    replace: "if (Number.isNaN(count))",
    law: laws.endless,
  },
  {
    name: "staging on the page's host is that of other ranks",
    file: "src/planner/footprint.ts",
    find: "return (planned * job.ranks) / ranks;",
    replace: "return planned;",
    law: laws.footprint,
  },
  {
    name: "fewer activations are tried where states alone do not fit",
    file: "src/planner/answer.ts",
    find: "return tried.filter(isOpen).map(",
    replace: "return tried.map(",
    law: laws.remedies,
  },
  {
    name: "fewer activations are not tried at all",
    file: "src/planner/answer.ts",
    find: "return tried.filter(isOpen).map(",
    replace: "return tried.filter(() => false).map(",
    law: laws.remedies,
  },
];
