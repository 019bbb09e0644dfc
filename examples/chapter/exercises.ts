// The chapter's exercises, answered: npx tsx examples/chapter/exercises.ts [1-7]
import { activations } from "./exercises/activations.ts";
import { slowerLink } from "./exercises/slower-link.ts";
import { whyNotStage3 } from "./exercises/stage-3.ts";
import { eightRanks, threeBillion, whatStagesAdd } from "./exercises/states.ts";
import { whyThree } from "./exercises/traffic.ts";

/** In the order of README.md. Each gives what it found out, in lines for a terminal. */
const exercises: readonly (() => Promise<string> | string)[] = [
  whatStagesAdd,
  threeBillion,
  eightRanks,
  whyThree,
  slowerLink,
  whyNotStage3,
  activations,
];

const asked = process.argv.slice(2).map(Number);
for (const [i, answer] of exercises.entries()) {
  const number = i + 1;
  if (asked.length > 0 && !asked.includes(number)) continue;
  console.log(asked.length === 1 ? await answer() : `Exercise ${number}\n\n${await answer()}\n`);
}
if (!asked.every((number) => exercises[number - 1])) {
  console.error(`exercises are numbered 1 to ${exercises.length}; found ${process.argv.slice(2).join(" ")}`);
  process.exitCode = 2;
}
