// A machine of round numbers, and ops of which only the sizes matter.
import type { OpArgs, OpName, Segment } from "../../src/device/ops.ts";
import { costsOf } from "../../src/hardware/costs.ts";
import type { Machine } from "../../src/hardware/machine.ts";

/** Two and more nodes of 8 ranks with links of their own between them. */
export const roundMachine: Machine = {
  name: "round",
  ranksPerNode: 8,
  threads: 1,
  processor: {
    name: "card",
    usableBytes: 40e9,
    productsPerSecond: { fp32: 1e13, bf16: 1e14, fp16: 8e13 },
    attentionPerSecond: { fp32: 5e12, bf16: 5e13, fp16: 4e13 },
    droppedAttentionPerSecond: { fp32: 2e12, bf16: 2e13, fp16: 2e13 },
    memoryBytesPerSecond: 1e12,
    opBytesPerSecond: { "gelu bf16": 5e11, copy: 2e12 },
    launchSeconds: 1e-5,
  },
  peerLink: { name: "peers", bytesPerSecond: 1e11, latencySeconds: 1e-6 },
  networkLink: { name: "network", bytesPerSecond: 1e10, latencySeconds: 1e-5 },
  hostLink: { name: "host link", bytesPerSecond: 2e10, latencySeconds: 1e-5 },
  host: { usableBytes: 400e9, memoryBytesPerSecond: 8e10 },
  drive: {
    name: "drive",
    freeBytes: 4e12,
    readBytesPerSecond: 3e9,
    writeBytesPerSecond: 2e9,
    mixedBytesPerSecond: 3.5e9,
  },
  shared: [],
};

const nowhere = { region: 0, offset: 0 };

/** An op with `given` sizes; addresses are of no account. */
export const opOf = <K extends OpName>(name: K, given: Partial<OpArgs<K>>) => ({
  name,
  args: given as unknown as OpArgs<K>,
});

export const segmentsOf = (...counts: number[]): Segment[] =>
  counts.map((count) => ({ whole: nowhere, own: nowhere, stride: count, start: 0, count }));

export const secondsOf = (
  machine: Machine,
  ranks: number,
  queue: Parameters<ReturnType<typeof costsOf>["of"]>[0],
  op: ReturnType<typeof opOf>,
): number => costsOf(machine, ranks).of(queue, op).seconds;
