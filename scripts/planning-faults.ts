// Faults of what plans and forecasts: states that are foretold, the clock, what ops cost, and what fits.
import type { Fault } from "./faults.ts";
import { laws } from "./laws.ts";

export const planningFaults: readonly Fault[] = [
  {
    name: "the plan foretells Adam's states for every optimizer",
    file: "src/plan/expected.ts",
    find: "4 * createOptimizer(plan.config.optimizer).states.length",
    replace: "8",
    law: laws.optimizers,
  },
  {
    name: "ops that share a link each go at full speed",
    file: "src/device/virtual-clock.ts",
    find: "(demands[resource] ?? 0) + demand;",
    replace: "Math.max(demands[resource] ?? 0, demand);",
    law: laws.clock,
  },
  {
    name: "a wait of a queue is over when the awaited queue has begun",
    file: "src/device/virtual-clock.ts",
    find: "return this.#completed[queue] >= sequence;",
    replace: "return this.#completed[queue] >= sequence - 1;",
    law: laws.clock,
  },
  {
    name: "each rank of a node has all of its host's memory rate",
    file: "src/hardware/costs.ts",
    find: "(host.memoryBytesPerSecond / Math.min(this.#neighbours, ranksPerNode))",
    replace: "(host.memoryBytesPerSecond / Math.min(1, ranksPerNode))",
    law: laws.costs,
  },
  {
    name: "a node's part of a collective crosses the network once for each of its ranks",
    file: "src/hardware/costs.ts",
    find: "networkLink.bytesPerSecond * this.#neighbours)",
    replace: "networkLink.bytesPerSecond)",
    law: laws.costs,
  },
  {
    name: "an op of the table has no bytes",
    file: "src/hardware/op-bytes.ts",
    find: "  squareSum: (a) => each(a.count, a.dtype, 1),\n",
    replace: "",
    law: laws.opBytes,
  },
  {
    name: "micro-batches that a forecast counts take no time",
    file: "src/zero/forecast-time.ts",
    find: "const seconds = paused ? less.seconds : all((times) => times.seconds);",
    replace: "const seconds = less.seconds;",
    law: laws.simulatedTime,
  },
  {
    name: "a job fits that leaves no reserve",
    file: "src/planner/fit.ts",
    find: "Math.min(mostShare * usableBytes, usableBytes - leastFreeBytes / sharers)",
    replace: "mostShare * usableBytes",
    law: laws.fit,
  },
  {
    name: "the host's shortage is not asked about",
    file: "src/planner/recommend.ts",
    find: "const fits = shortagesOf(estimate, room).length === 0;",
    replace: 'const fits = !shortagesOf(estimate, room).includes("device");',
    law: laws.recommended,
  },
];
