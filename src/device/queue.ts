/** Queues and events. An event is "that queue has completed its op of that number", so there is nothing to create or destroy. */

export const queueNames = ["compute", "collective"] as const;
export type QueueName = (typeof queueNames)[number];

export interface Event {
  readonly queue: QueueName;
  readonly sequence: number;
}
