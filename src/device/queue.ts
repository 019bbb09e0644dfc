/** Queues and events. An event is "that queue has completed its op of that number", so there is nothing to create or destroy. */
import type { Tier } from "./ledger.ts";

/** Which memory the ops of a queue may touch; scratch is taken from the first. */
export const queueTiers = {
  compute: ["device"],
  collective: ["device"],
  /** Copies to the host. */
  down: ["device", "host"],
  /** Copies to the device. */
  up: ["device", "host"],
  /** The optimizer and everything else that computes on the host. */
  update: ["host"],
  diskRead: ["host"],
  diskWrite: ["host"],
} as const satisfies Record<string, readonly Tier[]>;

export type QueueName = keyof typeof queueTiers;
export const queueNames = Object.keys(queueTiers) as QueueName[];

/** The queue that computes on a tier's memory. */
export const computeQueueOf = { device: "compute", host: "update" } as const satisfies Partial<Record<Tier, QueueName>>;
/** Tiers whose memory has addresses. */
export type MemoryTier = keyof typeof computeQueueOf;

export interface Event {
  readonly queue: QueueName;
  readonly sequence: number;
}
