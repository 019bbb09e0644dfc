// Faults of what data become before a model sees them: which tokens are targets.
import type { Fault } from "./faults.ts";
import { laws } from "./laws.ts";

export const dataFaults: readonly Fault[] = [
  {
    name: "answers of a prompt are learned too",
    file: "src/data/encode-instructions.ts",
    find: "learned: answers.slice(before.length)",
    replace: "learned: answers",
    law: laws.instructions,
  },
  {
    name: "a conversation's targets are its inputs",
    file: "src/data/conversation-rows.ts",
    find: "targets[i - 1] = token;",
    replace: "targets[i] = token;",
    law: laws.instructions,
  },
  {
    name: "the token that ends an answer is not learned",
    file: "src/data/encode-instructions.ts",
    find: "return [from, to === before.length ? to : to + 1];",
    replace: "return [from, to];",
    law: laws.instructions,
  },
];
