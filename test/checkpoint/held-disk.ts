/** A save that goes no further until it is told to: how a test makes saving slow without a clock. */
import { type FileHandle, open } from "node:fs/promises";
import type { Engine } from "../../src/zero/engine.ts";
import type { StateReader } from "../../src/zero/state.ts";

export interface HeldSave {
  /** From now on the second half of the states is read and written. */
  releaseReads(): void;
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

/** Holds up the saves of an engine, and the flushing of every file of this process. @param failure what they end with, half way */
export async function holdSaves(engine: Engine<object>, failure?: Error): Promise<HeldSave> {
  const probe = await open(process.execPath);
  const prototype = Object.getPrototypeOf(probe) as FileHandle;
  await probe.close();
  const { sync } = prototype;
  const [reads, syncs] = [gate(), gate()];
  prototype.sync = async function (this: FileHandle) {
    await syncs.opened;
    return sync.call(this);
  };
  const saveStates = engine.saveStates.bind(engine);
  const held = ({ ranges, read, end }: StateReader, states: StateReader): StateReader => ({
    ranges,
    end: end.bind(states),
    read: async (range, first, into) => {
      if (ranges.indexOf(range) >= ranges.length / 2) {
        await reads.opened;
        if (failure) throw failure;
      }
      return read.call(states, range, first, into);
    },
  });
  engine.saveStates = (body) => saveStates((states) => body(held(states, states)));
  return {
    releaseReads: reads.open,
    releaseSyncs: syncs.open,
    restore: () => {
      prototype.sync = sync;
      engine.saveStates = saveStates;
    },
  };
}
