// ZeRO's memory formulas, beside the package's: npx tsx examples/chapter/zero-memory.ts [parameters] [ranks]
import { zeroStageMemory } from "shunya";

/** Model states on a rank in GB (10^9 bytes): psi parameters in 16 bits, with K bytes of optimizer states for each (Adam: 12). */
function memory(psi: number, ranks: number, stage: number, K = 12): number {
  const [parameters, gradients, optimizer] = [2 * psi, 2 * psi, K * psi];
  const bytes = [
    parameters + gradients + optimizer, // every rank has everything
    parameters + gradients + optimizer / ranks,
    parameters + (gradients + optimizer) / ranks,
    (parameters + gradients + optimizer) / ranks,
  ];
  return bytes[stage]! / 1e9;
}

/** "24.0", "8.25", "5.625". */
const text = (gigabytes: number): string =>
  Number.isInteger(gigabytes) ? gigabytes.toFixed(1) : String(Number(gigabytes.toFixed(4)));

const [psi = 1.5e9, ranks = 4] = process.argv.slice(2).map(Number);
const ours = [0, 1, 2, 3].map((stage) => memory(psi, ranks, stage));
const theirs = [0, 1, 2, 3].map((stage) => zeroStageMemory(psi, ranks, stage)); // throws where a number makes no sense
console.log(`${psi.toLocaleString("en")} parameters on ${ranks} ranks, GB of model states on each at stages 0 to 3:`);
console.log(`  this file    ${ours.map(text).join(", ")}`);
console.log(`  the package  ${theirs.map(text).join(", ")}`);
