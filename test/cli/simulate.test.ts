// `shunya simulate` and `train --dry-run` as a user runs them: one job in all its parts, and nothing started.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { run, temporaryFolder, tooWide, writeFiles } from "./command.ts";

interface SimulatedJson {
  readonly stage: number;
  readonly stepSeconds: number;
  readonly computeSeconds: number;
  readonly memory: { readonly device: Record<string, { readonly current: number; readonly peak: number }> };
  readonly highestBytes: { readonly device: number; readonly host: number; readonly disk: number };
  readonly traffic: Record<string, { readonly elementsSent: number }>;
  readonly transfers: readonly { readonly queue: string; readonly hiddenShare: number }[];
}

const simulated = async (...flags: string[]): Promise<SimulatedJson> => {
  const { exitCode, stdout, stderr } = await run(["simulate", ...flags, "--json"]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  return JSON.parse(stdout) as SimulatedJson;
};

describe("simulate", () => {
  const job = ["--model", "gpt2", "--ranks", "4", "--device", "A10G", "--micro-batch", "2"];

  test("a step's memory, traffic and time are those of the plan's row", async () => {
    const own = await simulated(...job, "--stage", "2");
    const plan = await run(["plan", ...job, "--json"]);
    const row = (JSON.parse(plan.stdout) as { stages: Record<string, number>[] }).stages[2]!;
    expect(own.highestBytes.device).toBe(row.totalBytes);
    expect(own.stepSeconds).toBe(row.stepSeconds);
    expect(own.traffic.reduceScatter!.elementsSent + own.traffic.allGather!.elementsSent).toBe(row.commElements);
    expect(own.memory.device.parameters!.current).toBe(row.parametersBytes);
  });

  test("stage 3 sends half as much again, and tiers hold what they are given", async () => {
    const sent = ({ traffic }: SimulatedJson): number =>
      traffic.reduceScatter!.elementsSent + traffic.allGather!.elementsSent;
    const [two, three] = [await simulated(...job, "--stage", "2"), await simulated(...job, "--stage", "3")];
    expect(sent(three) / sent(two)).toBeCloseTo(1.5, 2);
    const onDisk = await simulated(...job, "--stage", "3", "--offload-optimizer", "nvme");
    expect(onDisk.highestBytes.disk).toBeGreaterThanOrEqual((12 * 124_439_808) / 4);
    expect(onDisk.transfers.map(({ queue }) => queue)).toContain("diskRead");
    for (const { hiddenShare } of onDisk.transfers) expect(hiddenShare).toBeGreaterThanOrEqual(0);
  });

  test("the trace is JSON with the spans of a step, and lines are as wide as a terminal", async () => {
    const file = join(temporaryFolder(), "trace.json");
    const { exitCode, stdout } = await run(["simulate", ...job, "--stage", "3", "--trace", file]);
    expect(exitCode).toBe(0);
    expect(tooWide(stdout)).toEqual([]);
    const events = JSON.parse(readFileSync(file, "utf8")) as { name: string; ph: string; dur?: number }[];
    const gathers = events.filter(({ name, ph }) => ph === "X" && name === "gather transformer.h.5");
    expect(gathers).toHaveLength(2); // for the forward pass, and again for the backward pass
    expect(gathers.every(({ dur }) => dur! > 0)).toBe(true);
  });

  test.each([
    [["--offload-optimizer", "cpu"], /needs stage 1, 2 or 3/],
    [["--stage", "2", "--offload-param", "cpu"], /needs stage 3/],
    [["--stage", "4"], /from 0 to 3/],
    [["--batch", "6"], /wanted a multiple of 4 ranks/],
  ])("%j is refused", async (flags, message) => {
    const { exitCode, stderr } = await run(["simulate", ...job, ...flags]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(message);
  });

  test("whether it fits is said and is the exit code, by the rule of plan", async () => {
    const fits = await run(["simulate", ...job]);
    expect(fits.exitCode).toBe(0);
    // 85 % of an A10G's 22.1 GB (docs/hardware.md).
    expect(fits.stdout).toMatch(/^Fits: yes\. A rank needs [\d.]+ GB on the device, where it may take 18\.8 GB\.$/m);
    const large = ["--model", "gpt2-xl", "--device", "A10G", "--stage", "1", "--offload-optimizer", "cpu"];
    const host = await run(["simulate", ...large, "--host-memory", "8GB"]);
    expect(host.exitCode).toBe(1);
    expect(host.stdout.replaceAll("\n", " ")).toMatch(
      /Fits: no: host\. .* of the host's, where it may take 6\.00 GB\. *$/,
    );
    const json = await run(["simulate", "--model", "gpt2-xl", "--device", "A10G", "--json"]);
    expect(json.exitCode).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ short: ["device"] });
  });

  test("without the speed of a device there is no time", async () => {
    const { exitCode, stderr } = await run(["simulate", "--model", "gpt2", "--device-memory", "24GB"]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/--device, such as A10G/);
  });
});

describe("train --dry-run", () => {
  const folder = writeFiles(temporaryFolder(), {
    "config.json": { model_type: "gpt2", vocab_size: 256, n_positions: 64, n_embd: 64, n_layer: 2, n_head: 2 },
    "ds.json": { train_batch_size: 8, gradient_accumulation_steps: 2, zero_optimization: { stage: 2 } },
  });
  const data = writeFiles(temporaryFolder(), { "text.txt": "to be or not to be, that is the question. ".repeat(200) });
  const job = ["train", "--model", folder, "--config", join(folder, "ds.json"), "--data", join(data, "text.txt")];

  test("shows the plan of exactly that job, and starts nothing", async () => {
    const output = join(temporaryFolder(), "model");
    const { exitCode, stdout } = await run([...job, "--ranks", "2", "--steps", "3", "--output", output, "--dry-run"]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/Nothing was started/);
    expect(existsSync(output)).toBe(false);
    const dry = /device\s+total\s+\S+ \S+\s+(\S+ \S+)/.exec(stdout)?.[1];
    const real = await run([...job, "--ranks", "2", "--steps", "3"]);
    const opening = /memory\s+(\S+ \S+) of device memory/.exec(real.stdout)?.[1];
    expect(dry).toBeDefined();
    expect(dry).toBe(opening);
  });

  test("a job that cannot fit is refused, with what would", async () => {
    const { exitCode, stderr } = await run([...job, "--ranks", "2", "--device-memory", "1MB", "--dry-run"]);
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/Nothing was allocated/);
  });
});
