import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // One process runs test file after test file: loading the modules anew for each costs more than most tests do.
    pool: "forks",
    isolate: false,
    // Ranks inside tests are processes of their own and need the cores.
    maxWorkers: 1,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 5_000,
    reporters: ["default", "./test/plain-reporter.mjs"],
  },
});
