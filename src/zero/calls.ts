/** The engine's calls come one after the other: a second step beside the first would update twice from the same gradients. */
import { DisposedError, UsageError } from "../errors/errors.ts";

export class Calls {
  readonly #check: (name: string) => void;
  #running: { readonly name: string; readonly done: Promise<unknown> } | undefined;
  #isClosed = false;

  /** @param check what else may stand in the way of a call */
  constructor(check: (name: string) => void) {
    this.#check = check;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  async alone<T>(name: string, body: () => Promise<T>): Promise<T> {
    this.checkFree(name);
    const done = body();
    this.#running = { name, done };
    try {
      return await done;
    } finally {
      this.#running = undefined;
    }
  }

  /** @throws DisposedError, UsageError */
  checkFree(name: string): void {
    if (this.#isClosed) throw new DisposedError("the engine", `call engine.${name} before it is disposed`);
    if (this.#running)
      throw new UsageError(
        `engine.${name} was called while engine.${this.#running.name} is running; await each call before the next`,
      );
    this.#check(name);
  }

  /** No more calls; resolves when the one that is running has ended. Its error is its caller's. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running?.done.catch(() => undefined);
  }
}
