// A look at a slot that others may take meanwhile: what it sees is what was asked for.
import { expect, test } from "vitest";
import type { Device } from "../../src/device/device.ts";
import type { Event } from "../../src/device/queue.ts";
import { lookAt, type Slot } from "../../src/zero/disk-slots.ts";

const eventOf = (sequence: number): Event => ({ queue: "diskRead", sequence });
const slotOf = (content: object, sequence: number): Slot => ({
  ...{ base: { region: 0, offset: 0 }, last: [eventOf(sequence)], isHeld: false, content },
});

/** A device on which an event happens when the test says so. */
function deviceOf() {
  const waits: (() => void)[] = [];
  const device = {
    reachedAside: () =>
      new Promise<void>((resolve) => {
        waits.push(resolve);
      }),
  };
  const happen = async (): Promise<void> => {
    waits.shift()!();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { device: device as unknown as Device, happen };
}

test("a slot that was given away meanwhile, or is being read again, is not looked at", async () => {
  const { device, happen } = deviceOf();
  const content = {};
  const slots = [slotOf(content, 1), slotOf(content, 2)];
  const seen: Slot[] = [];
  const [first, second] = slots;
  const look = lookAt(
    device,
    content,
    undefined,
    () => slots.shift()!,
    (slot) => seen.push(slot),
  );
  first!.content = undefined; // given away
  await happen();
  expect(seen).toEqual([]);
  second!.last = [eventOf(3)]; // read again into the same slot: its first bytes may be the old ones
  await happen();
  expect(seen).toEqual([]);
  await happen();
  await look;
  expect(seen).toEqual([second]);
});

test("what was found before is used again, until it is something else", async () => {
  const { device, happen } = deviceOf();
  const [content, other] = [{}, {}];
  const slot = slotOf(content, 1);
  const read = (): Slot => slotOf(content, 2);
  let found: Slot | undefined;
  const keep = (slot: Slot): void => {
    found = slot;
  };
  const same = lookAt(device, content, slot, read, keep);
  await happen();
  await same;
  expect(found).toBe(slot);
  slot.content = other;
  const another = lookAt(device, content, slot, read, keep);
  await happen();
  await another;
  expect(found).not.toBe(slot);
});
