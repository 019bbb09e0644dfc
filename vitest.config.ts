import { defineConfig } from "vitest/config";

/** Their ranks are processes of their own, that need the cores and wait for each other. */
const alone = ["laws", "zero", "comm", "launch", "device", "checkpoint", "oracles", "optim", "browser"].map(
  (room) => `test/${room}/**/*.test.ts`,
);

export default defineConfig({
  test: {
    // One process runs test file after test file: loading the modules anew for each costs more than most tests do.
    pool: "forks",
    isolate: false,
    projects: [
      { extends: true, test: { name: "alone", include: alone, maxWorkers: 1, sequence: { groupOrder: 0 } } },
      {
        extends: true,
        test: {
          ...{ name: "side by side", include: ["test/**/*.test.ts"], exclude: alone },
          ...{ maxWorkers: 2, sequence: { groupOrder: 1 } },
        },
      },
    ],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 5_000,
    reporters: ["default", "./test/plain-reporter.mjs"],
  },
});
