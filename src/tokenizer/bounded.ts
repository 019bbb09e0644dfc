/** Templates are programs of others that run in this process: one that never ends must not keep it for ever. */
import { createContext, Script } from "node:vm";

/** Of filling in one conversation, which takes milliseconds. */
export const renderMilliseconds = 10_000;

/** Entries of a `range()`: as many as transformers' sandbox allows (Jinja's MAX_RANGE). */
const mostRange = 100_000;

/** The time was over. */
export class DeadlineError extends Error {}

const holder: { body: () => unknown; result?: unknown } = { body: () => undefined };
const context = createContext(holder);
/** The only way that Node has to end synchronous code from outside of it, short of a thread for each call. */
const call = new Script("result = body()");

/** What `body` returns. @throws DeadlineError where it has not returned by then; what it throws */
export function within<T>(milliseconds: number, body: () => T): T {
  holder.body = body;
  try {
    call.runInContext(context, { timeout: milliseconds });
    return holder.result as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException | undefined)?.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    throw new DeadlineError(`not done after ${milliseconds} ms`, { cause: error });
  } finally {
    holder.body = () => undefined;
    holder.result = undefined;
  }
}

/** Jinja's `range`, but for a list that would fill the memory. */
export function boundedRange(first: number, second?: number, step = 1): number[] {
  const [start, stop] = typeof second === "number" ? [first, second] : [0, first];
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (!(count <= mostRange)) throw new Error(`range() of ${count} entries; wanted at most ${mostRange}`);
  return Array.from({ length: count }, (_, i) => start + i * step);
}
