/** A machine as the virtual clock sees it: rates of what a rank computes with and of the ways that bytes take. */
import type { ElementType } from "../config/types.ts";

/** A way for bytes in one direction. */
export interface Link {
  readonly name: string;
  /** What a large transfer reaches. */
  readonly bytesPerSecond: number;
  /** Before the first byte arrives. */
  readonly latencySeconds: number;
}

/** What one rank computes with. */
export interface Processor {
  readonly name: string;
  /** Bytes that training may use, which is less than the label and less than the driver reports. */
  readonly usableBytes: number;
  /** Floating-point operations per second that large matrix products reach, by element type. */
  readonly productsPerSecond: Readonly<Record<ElementType, number>>;
  /** The same of causal attention (its causal half counted). */
  readonly attentionPerSecond: Readonly<Record<ElementType, number>>;
  /** The same where probabilities are dropped out. */
  readonly droppedAttentionPerSecond: Readonly<Record<ElementType, number>>;
  /** What ops that are bound by memory reach, all they read and write counted. */
  readonly memoryBytesPerSecond: number;
  /** Ops that reach less, or more, by name, and by name and element type ("gelu bf16"). */
  readonly opBytesPerSecond: Readonly<Record<string, number>>;
  /** To issue and begin an op. */
  readonly launchSeconds: number;
}

/** The host of a node: its ranks share it. */
export interface Host {
  readonly usableBytes: number;
  /** What an optimizer that streams through host memory reaches, all ranks of the node together. */
  readonly memoryBytesPerSecond: number;
}

/** All drives of a node together: its ranks share them. */
export interface Drive {
  readonly name: string;
  readonly freeBytes: number;
  readonly readBytesPerSecond: number;
  readonly writeBytesPerSecond: number;
  /** Of reads and writes at once. */
  readonly mixedBytesPerSecond: number;
}

export interface Machine {
  readonly name: string;
  readonly ranksPerNode: number;
  /** Of a rank, where the device is a CPU; else 1. */
  readonly threads: number;
  readonly processor: Processor;
  /** Between ranks of a node, each rank's own. */
  readonly peerLink: Link;
  /** Between nodes, each rank's share of its node's. */
  readonly networkLink: Link;
  /** Between a rank's device and the host, each rank's own. */
  readonly hostLink: Link;
  readonly host: Host;
  readonly drive: Drive;
  /**
   * What works on the same thing and so takes turns: `cores` where device and host are the same cores (a CPU as device), `hostLink`
   * where traffic between devices goes the way of copies to the host (PCIe without NVLink).
   */
  readonly shared: readonly ("cores" | "hostLink")[];
}
