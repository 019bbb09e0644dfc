/** Templates and patterns are programs of others that run in this process: one that never ends must not keep it for ever. */
import { createContext, Script } from "node:vm";
import { ModelError } from "../errors/errors.ts";
import type { EncodeOptions, Tokenizer } from "./tokenizer.ts";

/** Of filling in one conversation, which takes milliseconds. */
export const renderMilliseconds = 10_000;

/** The slowest tokenizers take a tenth of that time. */
const charactersPerMillisecond = 100;

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

/**
 * A prompt's tokens. A tokenizer's file has patterns of others too, of which some take for ever on some texts, and whoever types a prompt
 * has no other way out. @throws ModelError
 */
export function encodeInTime(tokenizer: Tokenizer, text: string, options?: EncodeOptions): Uint32Array {
  const milliseconds = renderMilliseconds + Math.ceil(text.length / charactersPerMillisecond);
  try {
    return within(milliseconds, () => tokenizer.encode(text, options));
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error;
    throw new ModelError(
      `the tokenizer ${tokenizer.name} was not done with ${text.length} characters after ${Math.round(milliseconds / 1000)} s: a pattern in it ` +
        "may take for ever on such a text; give another text, or another tokenizer",
      { cause: error },
    );
  }
}

/** Jinja's `range`, but for a list that would fill the memory. */
export function boundedRange(first: number, second?: number, step = 1): number[] {
  const [start, stop] = typeof second === "number" ? [first, second] : [0, first];
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (!(count <= mostRange)) throw new Error(`range() of ${count} entries; wanted at most ${mostRange}`);
  return Array.from({ length: count }, (_, i) => start + i * step);
}
