import { expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig } from "../../src/config/resolve.ts";

const examine = (more: object) => {
  const file = parseConfigObject({ train_batch_size: 2, optimizer: { type: "Adam" }, ...more });
  const { config, problems } = examineConfig({ file, worldSize: 2 });
  return { reporting: config?.reporting, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`).join("\n") };
};

test("left out, all is off and a line comes every ten steps", () => {
  const off = {
    stepsPerPrint: 10,
    wallClockBreakdown: false,
    memoryBreakdown: false,
    dumpState: false,
    commsLogger: undefined,
    flopsProfiler: undefined,
    csvMonitor: undefined,
    tensorboard: undefined,
  };
  expect(examine({}).reporting).toEqual(off);
  const written = {
    steps_per_print: null,
    comms_logger: { enabled: false },
    csv_monitor: { enabled: false, job_name: "x" },
  };
  expect(examine({ ...written, tensorboard: false, flops_profiler: { enabled: "no" } }).reporting).toEqual(off);
});

test("everything that can be asked for arrives", () => {
  const { reporting, told } = examine({
    steps_per_print: 1e5,
    wall_clock_breakdown: true,
    memory_breakdown: true,
    dump_state: true,
    comms_logger: { verbose: true },
    flops_profiler: {
      enabled: true,
      profile_step: 3,
      module_depth: 2,
      top_modules: 4,
      detailed: false,
      output_file: "f.txt",
    },
    csv_monitor: { enabled: true, output_path: "out", job_name: "mine" },
    tensorboard: { enabled: true },
  });
  expect(reporting).toEqual({
    stepsPerPrint: 100_000,
    wallClockBreakdown: true,
    memoryBreakdown: true,
    dumpState: true,
    commsLogger: { verbose: true },
    flopsProfiler: { profileStep: 3, moduleDepth: 2, topModules: 4, detailed: false, outputFile: "f.txt" },
    csvMonitor: { outputPath: "out", jobName: "mine" },
    tensorboard: { outputPath: "", jobName: "DeepSpeedJobName" },
  });
  expect(told).toBe("");
});

test("the presence of comms_logger switches it on, as in DeepSpeed, unless it says that it is off", () => {
  const logger = (comms_logger: unknown) => examine({ comms_logger }).reporting?.commsLogger;
  expect(logger({})).toEqual({ verbose: false });
  expect(logger({ prof_all: true })).toEqual({ verbose: false });
  expect(logger({ enabled: false, verbose: true })).toBeUndefined();
  expect(logger(true)).toEqual({ verbose: false });
});

test.each([
  [{ steps_per_print: 0 }, /steps_per_print: found 0; wanted a positive whole number/],
  [{ flops_profiler: { enabled: true, profile_step: 0 } }, /profile_step: found 0/],
  [
    { flops_profiler: { enabled: true, module_depth: 0 } },
    /module_depth: found 0; wanted a positive whole number, or -1/,
  ],
  [{ tensorboard: { enabled: true, output_path: 3 } }, /output_path: found 3; wanted text/],
  [{ tensorboard: { enabled: true, output_path: "a\0b" } }, /output_path: found "a\\u0000b"; wanted text/],
  [{ tensorboard: { enabled: true, logdir: "x" } }, /logdir: unknown key/],
])("%j is refused", (config, wanted) => {
  const { reporting, told } = examine(config);
  expect(reporting).toBeUndefined();
  expect(told).toMatch(wanted);
});

test("monitors that are not here say what is", () => {
  expect(examine({ wandb: { enabled: true, project: "p" } }).told).toBe(
    "warning wandb: has no effect here: use csv_monitor or tensorboard, or --log-json",
  );
});
