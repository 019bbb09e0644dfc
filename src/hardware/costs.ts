/**
 * What ops cost on a machine: a rank computes, sends and copies at the machine's rates, and shares what its node's ranks share. Every
 * op is bound by its operations or by its bytes, whichever takes longer (the roofline of Williams et al., CACM 2009).
 */

import type { ElementType } from "../config/types.ts";
import { type DType, dtypeBytes } from "../device/dtype.ts";
import { operationsOf } from "../device/operations.ts";
import type { OpArgs, OpName, Segment } from "../device/ops.ts";
import type { QueueName } from "../device/queue.ts";
import type { Costs } from "../device/simulated.ts";
import type { OpCost, Use } from "../device/virtual-clock.ts";
import type { Link, Machine } from "./machine.ts";
import { touchedBytes } from "./op-bytes.ts";

const elementTypeOf: Partial<Record<DType, ElementType>> = { f32: "fp32", bf16: "bf16", f16: "fp16" };

/** Ops whose time is that of their operations. */
const isAttention = (name: OpName): name is "attention" | "attentionBackward" =>
  name === "attention" || name === "attentionBackward";

/** @param ranks of the world; they fill nodes one after the other */
export function costsOf(machine: Machine, ranks: number): Costs {
  const world = new World(machine, ranks);
  const { drive, shared, threads } = machine;
  const bothWays = (2 * drive.mixedBytesPerSecond) / (drive.readBytesPerSecond + drive.writeBytesPerSecond);
  // Of a drive a read and a write together get what it does of both at once; alone each has all of it.
  const capacity = { drive: Math.min(2, Math.max(1, bothWays)) };
  const isOneMachine = shared.includes("cores");
  return {
    capacity,
    of: (queue, { name, args }) => {
      const cost = world.cost(queue, name, args);
      return isOneMachine && cost.seconds > 0 && !isDisk(queue) ? { ...cost, uses: [onCores(queue, threads)] } : cost;
    },
  };
}

const isDisk = (queue: QueueName): boolean => queue === "diskRead" || queue === "diskWrite";

/** Compute and update work with all threads of a rank, every other queue with one; together they have the rank's cores. */
const onCores = (queue: QueueName, threads: number): Use => ({
  resource: "cores",
  demand: queue === "compute" || queue === "update" ? 1 : 1 / threads,
});

class World {
  readonly #machine: Machine;
  readonly #ranks: number;
  readonly #nodes: number;
  /** Of a node. */
  readonly #neighbours: number;

  constructor(machine: Machine, ranks: number) {
    this.#machine = machine;
    this.#ranks = ranks;
    this.#nodes = Math.ceil(ranks / machine.ranksPerNode);
    this.#neighbours = Math.min(ranks, machine.ranksPerNode);
  }

  cost<K extends OpName>(queue: QueueName, name: K, args: OpArgs<K>): OpCost {
    switch (queue) {
      case "compute":
        return { seconds: this.#computeSeconds(name, args), uses: [] };
      case "collective":
        return this.#collective(name, args);
      case "down":
      case "up":
        return this.#crossing(queue, touchedBytes(name, args) / 2);
      case "update":
        return { seconds: this.#hostSeconds(name, args), uses: [] };
      case "diskRead":
      case "diskWrite":
        return this.#disk(queue, touchedBytes(name, args));
    }
  }

  #computeSeconds<K extends OpName>(name: K, args: OpArgs<K>): number {
    const { processor } = this.#machine;
    const { opBytesPerSecond, memoryBytesPerSecond } = processor;
    const { dtype } = args as { dtype?: DType };
    const rate = opBytesPerSecond[dtype === undefined ? name : `${name} ${dtype}`] ?? memoryBytesPerSecond;
    const memorySeconds = touchedBytes(name, args) / rate;
    return Math.max(this.#productSeconds(name, args), memorySeconds) + processor.launchSeconds;
  }

  #productSeconds<K extends OpName>(name: K, args: OpArgs<K>): number {
    const { productsPerSecond, attentionPerSecond, droppedAttentionPerSecond } = this.#machine.processor;
    if (name !== "matmul" && !isAttention(name)) return 0;
    const { dtype, dropProbability = 0 } = args as { dtype: DType; dropProbability?: number };
    const attention = dropProbability > 0 ? droppedAttentionPerSecond : attentionPerSecond;
    return operationsOf(name, args) / (isAttention(name) ? attention : productsPerSecond)[elementTypeOf[dtype]!];
  }

  #hostSeconds<K extends OpName>(name: K, args: OpArgs<K>): number {
    const { host, ranksPerNode } = this.#machine;
    return touchedBytes(name, args) / (host.memoryBytesPerSecond / Math.min(this.#neighbours, ranksPerNode));
  }

  /**
   * A collective over a whole buffer of W bytes by rings: within a node each rank takes in (N-1)/N of it over its own link, and a node
   * of n ranks takes in the part of the other nodes over its n shares of the network.
   */
  #collective<K extends OpName>(name: K, args: OpArgs<K>): OpCost {
    if (this.#ranks === 1) return { seconds: 0, uses: [] };
    const { peerLink, networkLink } = this.#machine;
    const wholeBytes = wholeBufferBytes(name, args, this.#ranks);
    const within = wholeBytes * ((this.#ranks - 1) / this.#ranks);
    const from = wholeBytes * ((this.#nodes - 1) / this.#nodes);
    const withinSeconds = this.#neighbours > 1 ? within / peerLink.bytesPerSecond : 0;
    const fromSeconds = from / (networkLink.bytesPerSecond * this.#neighbours);
    const latency = (this.#neighbours - 1) * peerLink.latencySeconds + (this.#nodes - 1) * networkLink.latencySeconds;
    return { seconds: Math.max(withinSeconds, fromSeconds) + latency, uses: this.#collectiveUses() };
  }

  /** Without links of their own, devices reach each other the way of copies to and from the host. */
  #collectiveUses(): Use[] {
    const isShared = this.#machine.shared.includes("hostLink");
    return isShared ? [down, up] : [];
  }

  #crossing(queue: "down" | "up", bytes: number): OpCost {
    return { seconds: linkSeconds(this.#machine.hostLink, bytes), uses: [queue === "down" ? down : up] };
  }

  #disk(queue: "diskRead" | "diskWrite", bytes: number): OpCost {
    const { drive } = this.#machine;
    const rate = queue === "diskRead" ? drive.readBytesPerSecond : drive.writeBytesPerSecond;
    return { seconds: bytes / (rate / this.#neighbours), uses: [{ resource: "drive", demand: 1 }] };
  }
}

const down: Use = { resource: "host link down", demand: 1 };
const up: Use = { resource: "host link up", demand: 1 };

const linkSeconds = ({ bytesPerSecond, latencySeconds }: Link, bytes: number): number =>
  latencySeconds + bytes / bytesPerSecond;

/** Of all ranks' parts together. */
function wholeBufferBytes<K extends OpName>(name: K, args: OpArgs<K>, ranks: number): number {
  if (name === "barrier") return 0;
  const given = args as { segments?: readonly Segment[]; srcType?: DType; dtype?: DType; bytes?: number };
  if (given.bytes !== undefined) return given.bytes; // a broadcast
  const ownElements = given.segments?.reduce((sum, segment) => sum + segment.count, 0) ?? 0;
  return ranks * ownElements * dtypeBytes[given.srcType ?? given.dtype!];
}
