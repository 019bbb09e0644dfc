/** A disk that takes nothing until it is told to: how a test makes saving slow without a clock. */
import { type FileHandle, open } from "node:fs/promises";

export interface HeldDisk {
  /** From now on writes are done, those that wait first. */
  releaseWrites(): void;
  /** From now on files are flushed, and with that published. */
  releaseSyncs(): void;
  /** Everything is as it was. */
  restore(): void;
}

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** Holds up every file of this process that is written through `node:fs/promises`. @param failure what writes end with, if not well */
export async function holdDisk(failure?: Error): Promise<HeldDisk> {
  const probe = await open(process.execPath);
  const prototype = Object.getPrototypeOf(probe) as FileHandle;
  await probe.close();
  const { write, sync } = prototype;
  const [writes, syncs] = [gate(), gate()];
  prototype.write = async function (this: FileHandle, ...args: unknown[]) {
    await writes.opened;
    if (failure) throw failure;
    return write.apply(this, args as never);
  } as FileHandle["write"];
  prototype.sync = async function (this: FileHandle) {
    await syncs.opened;
    return sync.call(this);
  };
  return {
    releaseWrites: writes.open,
    releaseSyncs: syncs.open,
    restore: () => Object.assign(prototype, { write, sync }),
  };
}
