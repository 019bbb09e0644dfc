/** Exercises 1 to 3: what ranks hold. */
import type { Stage } from "../../../src/config/types.ts";
import { commVolume, zeroStageMemory } from "../../../src/planner/zero-formulas.ts";
import { gigabytes, stages, table } from "./print.ts";

const sharded: Readonly<Record<Stage, string>> = {
  0: "nothing",
  1: "optimizer states, 12Ψ bytes",
  2: "gradients too, 2Ψ",
  3: "parameters too, 2Ψ",
};

/** What each stage saves of 1.5e9 parameters on 4 ranks, and what it sends for that. */
export function whatStagesAdd(): string {
  const [psi, ranks] = [1.5e9, 4];
  let before: number | undefined;
  const rows = stages.map((stage) => {
    const held = zeroStageMemory(psi, ranks, stage);
    const saved = before === undefined ? "-" : gigabytes(before - held);
    before = held;
    return [String(stage), sharded[stage], gigabytes(held), saved, `${commVolume(stage, { parameters: psi }) / psi}Ψ`];
  });
  return `1.5e9 parameters on 4 ranks, GB on each:\n\n${table(["stage", "shards", ">holds", ">saves", ">volume"], rows)}`;
}

export function threeBillion(): string {
  return `3e9 parameters on 8 ranks at stage 2: 2 x 3 + 14 x 3 / 8 = ${gigabytes(zeroStageMemory(3e9, 8, 2))} GB`;
}

/** From 4 ranks to 8: which figure changes least? */
export function eightRanks(): string {
  const rows = stages.map((stage) => {
    const [four, eight] = [zeroStageMemory(1.5e9, 4, stage), zeroStageMemory(1.5e9, 8, stage)];
    const share = `${((100 * (four - eight)) / four).toFixed(1)} %`;
    return [String(stage), gigabytes(four), gigabytes(eight), gigabytes(four - eight), share];
  });
  const words = ["stage", ">4 ranks", ">8 ranks", ">GB less", ">of it"];
  return `1.5e9 parameters, GB on a rank:\n\n${table(words, rows)}`;
}
