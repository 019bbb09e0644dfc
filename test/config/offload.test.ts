import { describe, expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig, type Override } from "../../src/config/resolve.ts";
import { checkFolders } from "../../src/launch/offload.ts";

const examine = (zero_optimization: object, overrides: readonly Override[] = []) => {
  const file = parseConfigObject({ train_batch_size: 2, optimizer: { type: "Adam" }, zero_optimization });
  const { config, problems } = examineConfig({ file, overrides, worldSize: 2 });
  return { config, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`).join("\n") };
};

test("devices, and everything that is said of them, are read", () => {
  const { config, told } = examine({
    stage: 3,
    offload_optimizer: { device: "cpu", pin_memory: false, ratio: 0.5, pipeline_read: false, buffer_count: 3 },
    offload_param: { device: "nvme", nvme_path: "/disk", buffer_size: 1e8, max_in_cpu: 1e6, buffer_count: 6 },
  });
  expect(told).toBe("");
  expect(config).toMatchObject({
    offloadOptimizer: "cpu",
    offloadParam: "nvme",
    offloadRatio: 0.5,
    pinMemory: { optimizer: false, parameters: true },
    disk: {
      folders: ["/disk"],
      stateBuffers: 3,
      pipelineRead: false,
      pipelineWrite: true,
      parameterBuffers: 6,
      parameterBufferElements: 1e8,
      parametersInHost: 1e6,
    },
  });
});

test("folders are those of what goes to disk, each once, and our own list", () => {
  const offload_param = { device: "cpu", nvme_path: "/unused" };
  const onDisk = { device: "nvme", nvme_path: "/a" };
  const foldersOf = (zero: object, shunya: object = {}) => {
    const file = parseConfigObject({ train_batch_size: 2, zero_optimization: { stage: 3, ...zero }, shunya });
    return examineConfig({ file, worldSize: 2 }).config!.disk.folders;
  };
  expect(foldersOf({ offload_optimizer: onDisk, offload_param })).toEqual(["/a"]);
  expect(foldersOf({ offload_optimizer: onDisk, offload_param: onDisk }, { nvme_paths: ["/b", "/a"] })).toEqual([
    "/a",
    "/b",
  ]);
  expect(foldersOf({ offload_param }, { nvme_paths: ["/b"] })).toEqual([]);
});

test("nothing is pinned where nothing is offloaded", () => {
  const section = { device: "none", pin_memory: true };
  expect(examine({ stage: 3, offload_optimizer: section, offload_param: section }).config).toMatchObject({
    pinMemory: { optimizer: false, parameters: false },
  });
});

test("off: left out, null, false, device none", () => {
  for (const value of [undefined, null, { device: "none" }])
    expect(examine({ stage: 3, offload_optimizer: value, offload_param: value })).toMatchObject({
      config: { offloadOptimizer: "none", offloadParam: "none" },
      told: "",
    });
});

describe("old and short forms", () => {
  test.each([
    [{ cpu_offload: true }, "cpu", "none", /cpu_offload: an old key, read as it was meant/],
    [{ cpu_offload: false }, "none", "none", /cpu_offload: an old key, .*leave it out/],
    [{ cpu_offload_param: true }, "none", "cpu", /cpu_offload_param: an old key/],
    [{ cpu_offload_params: true }, "none", "cpu", /cpu_offload_params: an old key/],
    [
      { offload_optimizer: true },
      "cpu",
      "none",
      /offload_optimizer: found true in place of an object; read as \{ "device": "cpu" \}/,
    ],
    [{ offload_param: {} }, "none", "none", /offload_param: says no device, which means "none"/],
    [{ cpu_offload: true, cpu_offload_use_pin_memory: true }, "cpu", "none", /use_pin_memory: has no effect here/],
  ])("%j", (zero, offloadOptimizer, offloadParam, wanted) => {
    const { config, told } = examine({ stage: 3, ...zero });
    expect(config).toMatchObject({ offloadOptimizer, offloadParam });
    expect(told).toMatch(wanted);
  });

  test("a flag goes before an old key in the file", () => {
    const path = "zero_optimization.offload_optimizer.device";
    expect(examine({ stage: 3, cpu_offload: true }, [[path, "none"]]).config).toMatchObject({
      offloadOptimizer: "none",
    });
    expect(examine({ stage: 3 }, [["zero_optimization.cpu_offload", true]]).config).toMatchObject({
      offloadOptimizer: "cpu",
    });
  });

  test("old and new together are refused, in either order", () => {
    const device = { offload_optimizer: { device: "cpu" } };
    for (const zero of [
      { cpu_offload: true, ...device },
      { ...device, cpu_offload: true },
    ])
      expect(examine({ stage: 3, ...zero }).told).toMatch(
        /error .*cpu_offload: an old name of what .*; remove this one/,
      );
  });
});

test("what a stage cannot place is ignored, and says so", () => {
  const both = { offload_optimizer: { device: "cpu" }, offload_param: { device: "cpu" } };
  expect(examine({ stage: 0, ...both })).toMatchObject({
    config: { offloadOptimizer: "none", offloadParam: "none" },
    told: expect.stringMatching(/parameters are whole below stage 3[\s\S]*stage 0 shares no optimizer states/),
  });
  expect(examine({ stage: 2, ...both }).config).toMatchObject({ offloadOptimizer: "cpu", offloadParam: "none" });
});

test.each([
  [{ stage: 3, offload_optimizer: { device: "cpu", ratio: 1.5 } }, /ratio: found 1\.5; wanted a number from 0 to 1/],
  [{ stage: 3, offload_optimizer: { device: "CPU" } }, /found "CPU"; wanted "none", "cpu", "nvme"/],
  [{ stage: 3, offload_optimizer: { device: "cpu", buffer_count: 0 } }, /buffer_count: found 0/],
  [{ stage: 3, offload_param: { device: "cpu", buffer_size: "many" } }, /buffer_size: found "many"/],
  [{ stage: 3, offload_param: { device: "cpu", nvme_path: 3 } }, /nvme_path: found 3; wanted a path as text/],
  [{ stage: 3, cpu_offload: "maybe" }, /cpu_offload: found "maybe"; wanted true or false/],
])("%j is refused", (zero, wanted) => {
  const { config, told } = examine(zero);
  expect(config).toBeUndefined();
  expect(told).toMatch(wanted);
});

test("what DeepSpeed has at stage 3 only works at every stage that shares", () => {
  const offload_optimizer = { device: "nvme", nvme_path: "/disk", ratio: 0.5 };
  for (const stage of [1, 2, 3])
    expect(examine({ stage, offload_optimizer })).toMatchObject({
      config: { offloadOptimizer: "nvme", offloadRatio: 0.5 },
      told: "",
    });
});

describe("our own keys", () => {
  const examined = (shunya: object, zero: object = {}, more: object = {}) => {
    const { config, problems } = examineConfig({
      file: parseConfigObject({
        train_batch_size: 2,
        optimizer: { type: "Adam" },
        zero_optimization: zero,
        shunya,
        ...more,
      }),
      worldSize: 2,
    });
    return { config, told: problems.map((p) => `${p.level} ${p.path}: ${p.message}`).join("\n") };
  };
  const onHost = { stage: 2, offload_optimizer: { device: "cpu" } };
  const onDisk = { stage: 2, offload_optimizer: { device: "nvme", nvme_path: "/a" } };

  test.each([
    [true, 1],
    ["yes", 1],
    [{}, 1],
    [{ start_step: 40 }, 40],
    [false, undefined],
  ])("delayed_update %j begins at step %s, in every precision", (delayed_update, delayedUpdateFrom) => {
    for (const precision of [{}, { bf16: { enabled: true } }, { fp16: { enabled: true } }])
      for (const zero of [onHost, onDisk, { ...onHost, stage: 1 }, { ...onHost, stage: 3 }])
        expect(examined({ delayed_update }, zero, precision).config).toMatchObject({ delayedUpdateFrom });
  });

  test.each([
    [{ start_step: 0 }, onHost, /delayed_update: start_step: found 0; wanted a positive whole number$/],
    [{ start_step: 1e300 }, onHost, /start_step: found 1e\+300; wanted a positive whole number, at most 2\^53 - 1$/],
    [{ start: 1 }, onHost, /delayed_update: unknown key start; known is start_step$/],
    ["soon", onHost, /found "soon"; wanted true, false, or \{ "start_step": 40 \}/],
    [[1], onHost, /found \[1\]; wanted true, false/],
    [
      true,
      {},
      /delayed_update: only an update on the host .*; use stage 1, 2 or 3 with zero_optimization\.offload_optimizer\.device cpu or nvme, or remove the key/,
    ],
    [true, { ...onHost, stage: 0 }, /; use stage 1, 2 or 3 with/],
    [true, { stage: 3 }, /; write zero_optimization\.offload_optimizer\.device cpu or nvme, or remove the key/],
    [
      true,
      { stage: 2, offload_optimizer: { device: "cpu", ratio: 0.5 } },
      /found with offload_optimizer\.ratio 0\.5.*write ratio 1/,
    ],
  ])("delayed_update %j is refused with %j", (delayed_update, zero, wanted) => {
    const { config, told } = examined({ delayed_update }, zero);
    expect(config).toBeUndefined();
    expect(told).toMatch(wanted);
  });

  test("further folders, and whether what is read is checked", () => {
    expect(examined({ nvme_paths: ["/b", "/a", "/c"], disk_checksums: false }, onDisk)).toMatchObject({
      config: { disk: { folders: ["/a", "/b", "/c"], verify: false } },
      told: "",
    });
    expect(examined({ nvme_paths: "/b" }, onDisk).config?.disk.folders).toEqual(["/a", "/b"]);
    expect(examined({ nvme_paths: null }, onDisk).config?.disk).toMatchObject({ folders: ["/a"], verify: true });
    const unnamed = { stage: 2, offload_optimizer: { device: "nvme" } };
    expect(examined({ nvme_paths: ["/b"] }, unnamed)).toMatchObject({
      config: { disk: { folders: ["/b"] } },
      told: "",
    });
  });

  test.each([
    [{ nvme_paths: 3 }, /nvme_paths: found 3; wanted a path as text, or a list of paths/],
    [{ nvme_paths: ["/b", ""] }, /nvme_paths: found \["\/b", ""\]; wanted a path as text/],
    [{ disk_checksums: "maybe" }, /disk_checksums: found "maybe"; wanted true or false/],
    [{ disk_checksum: false }, /disk_checksum: unknown key; did you mean shunya\.disk_checksums\?/],
  ])("%j is refused", (shunya, wanted) => {
    const { config, told } = examined(shunya, onDisk);
    expect(config).toBeUndefined();
    expect(told).toMatch(wanted);
  });

  test("without a disk they are told to have no effect", () => {
    for (const shunya of [{ nvme_paths: ["/b"] }, { disk_checksums: false }])
      for (const zero of [onHost, { ...onDisk, stage: 0 }]) {
        const [key] = Object.keys(shunya);
        expect(examined(shunya, zero).told).toContain(
          `warning shunya.${key}: no effect, since nothing is offloaded to disk`,
        );
      }
    expect(examined({ disk_checksums: true }, onHost).told).toBe("");
  });
});

test("nvme without a folder is read and warned of, and cannot be trained with", () => {
  const { config, told } = examine({ stage: 3, offload_param: { device: "nvme" } });
  expect(told).toMatch(/^warning zero_optimization\.offload_param\.nvme_path: left out, though the device is nvme/);
  expect(() => checkFolders(config!)).toThrow(
    /^zero_optimization\.offload_param\.nvme_path is left out, .*--set zero_optimization\.offload_param\.nvme_path=/,
  );
  expect(examine({ stage: 3, offload_param: { device: "nvme", nvme_path: "/disk" } }).told).toBe("");
  checkFolders(examine({ stage: 3, offload_param: { device: "cpu" } }).config!);
});
