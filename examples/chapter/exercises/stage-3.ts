/** Exercise 6: why not always stage 3, by the step times of `shunya plan`. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { table } from "./print.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

const command = "npx shunya plan --model gpt2-xl --ranks 4 --device A10G --seq-length 1024";
/** DeepSpeed overlaps at stage 3 unasked: here all stages may. */
const common = [
  "--config examples/chapter/stage2-offload.json",
  "--set zero_optimization.offload_optimizer.device=none",
  "--set zero_optimization.overlap_comm=true",
];
const runs = {
  a: "--batch 4",
  b: '--batch 4 --peer-link "PCIe 3 x8"',
  c: '--batch 32 --micro-batch 1 --peer-link "PCIe 3 x8"',
} as const;

interface PlannedStages {
  readonly stages: readonly { readonly totalBytes: number; readonly stepSeconds: number; readonly fits: boolean }[];
}

/** The command as a shell would run it, and what it says as data. */
function plan(flags: string): PlannedStages {
  const words = [command, ...common, flags, "--json"].join(" ").match(/"[^"]*"|\S+/g)!;
  const [, , ...args] = words.map((word) => word.replaceAll('"', ""));
  const answer = execFileSync(process.execPath, ["bin/shunya.js", ...args], { cwd: root, encoding: "utf8" });
  return JSON.parse(answer) as PlannedStages;
}

export function whyNotStage3(): string {
  const plans = Object.entries(runs).map(([name, flags]) => ({ name, ...plan(flags) }));
  const memory = plans[0]!.stages.map(
    ({ totalBytes, fits }) => `${(totalBytes / 1e9).toFixed(1)} GB${fits ? "" : " (!)"}`,
  );
  const steps = plans.map(({ name, stages }) => [
    `step of ${name}`,
    ...stages.map(({ stepSeconds }) => `${Math.round(1000 * stepSeconds)} ms`),
  ]);
  return [
    [command, ...common].join(" \\\n  "),
    Object.entries(runs)
      .map(([name, flags]) => `${name}: ${flags}`)
      .join("\n"),
    "(!) does not fit:",
    table(["", ">stage 0", ">stage 1", ">stage 2", ">stage 3"], [["on a card", ...memory], ...steps]),
  ].join("\n\n");
}
