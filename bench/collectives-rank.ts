/** One rank of the collectives benchmark: passes of a plain copy and of each collective, in turn, on buffers of one size. */

import { ProcessGroup } from "../src/comm/group.ts";
import { joinLaunched } from "../src/launch/join.ts";
import { joinWorld } from "../src/launch/world.ts";

export interface CollectiveJob {
  /** Bytes of the whole tensor. */
  readonly bytes: number;
  readonly rounds: number;
}

/** Seconds of one round. */
export interface CollectiveSample {
  readonly copy: number;
  readonly reduceScatter: number;
  readonly allGather: number;
}

const job = JSON.parse(process.argv[2]!) as CollectiveJob;
const world = joinWorld({ threads: 1 });
const { device, worldSize, rank } = world;
const group = new ProcessGroup(device, world.transport);
const elements = job.bytes / 2;
const stride = elements / worldSize;
const whole = device.allocate("other", job.bytes);
const other = device.allocate("other", job.bytes);
for (const buffer of [whole, other])
  device.issue("compute", "fill", { count: elements, dtype: "bf16", value: 1, dst: buffer.at() });
device.wait("collective", device.mark("compute"));
const segment = { whole: whole.at(), stride, start: 0, count: stride, own: whole.at(rank * stride * 2) };
const options = { srcType: "bf16", dstType: "bf16", factor: 1 / worldSize, accumulate: false } as const;

async function seconds(issue: () => void): Promise<number> {
  await group.exchange(new Float64Array(1), "the start of a pass");
  const start = performance.now();
  issue();
  await device.reached(device.mark("collective"));
  const own = (performance.now() - start) / 1000;
  return Math.max(...(await group.exchange(Float64Array.of(own), "a pass's time")).map((t) => t[0]!));
}

const samples: CollectiveSample[] = [];
for (let round = -1; round < job.rounds; round++) {
  const copyPass = { bytes: job.bytes, src: whole.at(), dst: other.at() };
  const sample = {
    copy: await seconds(() => device.issue("collective", "copy", copyPass)),
    reduceScatter: await seconds(() => group.reduceScatter([segment], options, "the benchmark")),
    allGather: await seconds(() => group.allGather([segment], "bf16", "the benchmark")),
  };
  if (round >= 0) samples.push(sample);
}
if (rank === 0) joinLaunched()?.send(samples);
