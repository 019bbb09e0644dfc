/** Work that all ranks do together and that may fail on some of them: all hear of the first failure and throw alike. */
import type { Exchanger } from "../comm/group.ts";
import { CheckpointError, ShunyaError } from "../errors/errors.ts";
import { messageOf } from "../errors/system-error.ts";

/** Longer messages are cut on the other ranks. */
const longestText = 2000;

/**
 * Runs `work` and waits until every rank has run its own.
 * @param words what it is, for messages about ranks that do not come
 * @returns every rank's numbers, in rank order @throws CheckpointError of the lowest rank that failed, on every rank
 */
export async function together(
  group: Exchanger | undefined,
  words: string,
  work: () => Promise<readonly number[]>,
): Promise<readonly (readonly number[])[]> {
  let numbers: readonly number[] = [];
  let failure: Error | undefined;
  try {
    numbers = await work();
  } catch (error) {
    failure = error as Error;
  }
  if (!group) {
    if (failure) throw asCheckpointError(failure);
    return [numbers];
  }
  const text = failure ? messageOf(failure).slice(0, longestText) : "";
  const all = await group.exchange(Float64Array.of(text.length, ...codesOf(text), ...numbers), words);
  const failed = all.findIndex((values) => values[0] !== 0);
  if (failed === -1) return all.map((values) => [...values.subarray(1)]);
  if (failed === group.rank && failure) throw asCheckpointError(failure);
  throw new CheckpointError(`rank ${failed}: ${textOf(all[failed]!)}`);
}

const codesOf = (text: string): number[] => Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));

const textOf = (values: Float64Array): string => String.fromCharCode(...values.subarray(1, 1 + values[0]!));

/** Errors of the disk are the user's to mend; an error of our own stays what it is. */
function asCheckpointError(error: Error): ShunyaError {
  const isKept = error instanceof ShunyaError && error.code !== "MODEL";
  return isKept ? error : new CheckpointError(messageOf(error), { cause: error });
}
