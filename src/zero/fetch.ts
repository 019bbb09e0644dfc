/** How a rank's own parameters come to the device from where they rest, so that an all-gather can read them. */
import type { Device } from "../device/device.ts";
import type { MemoryTier, QueueName } from "../device/queue.ts";
import type { FlatBuffer, FlatState } from "./flat.ts";

/** The queue that first touches what is gathered, by the tier at rest. */
export const fetchQueueOf: Readonly<Record<MemoryTier, QueueName>> = { device: "collective", host: "up" };

/**
 * Makes collectives that are issued from now on wait until this rank's own range is complete on the device.
 * @param whole memory for all ranges, where the own one is put if it rests elsewhere
 * @returns the buffer that the all-gather reads the own range from
 */
export function fetchOwn(device: Device, state: FlatState, whole: FlatBuffer): FlatBuffer {
  const { parameters, own } = state;
  const queue = fetchQueueOf[parameters.tier];
  for (const event of state.ready) device.wait(queue, event);
  if (parameters.tier === "device") return parameters;
  const copied = device.cross("up", parameters.at(own.start), whole.at(own.start), own.end - own.start, whole.dtype);
  device.wait("collective", copied);
  return whole;
}
