// Prompts dealt to crews: who takes which, the order in which answers are told, and what ends the dealing.
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { type Crew, dealPrompts } from "../../src/cli/generate-deal.ts";
import type { GenerateMessage } from "../../src/cli/generate-job.ts";

/** A crew whose answers the test ends by hand. */
class HeldCrew implements Crew {
  readonly taken: string[] = [];
  #tell: (message: GenerateMessage) => void = () => {};
  #resolve: (goesOn: boolean) => void = () => {};
  #reject: (error: Error) => void = () => {};

  answer(prompt: string, tell: (message: GenerateMessage) => void): Promise<boolean> {
    this.taken.push(prompt);
    this.#tell = tell;
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  piece(text: string): void {
    this.#tell({ type: "piece", text });
  }

  async end(finish: "length" | "interrupted" = "length"): Promise<void> {
    this.#tell({ type: "end", finish, tokens: 1, promptTokens: 1 });
    this.#resolve(finish !== "interrupted");
    await settled();
  }

  async fail(error: Error): Promise<void> {
    this.#reject(error);
    await settled();
  }
}

/** All that follows from what was done. */
const settled = (): Promise<unknown> => turn();

async function begin(prompts: AsyncIterable<string> | Iterable<string>, crews: readonly Crew[]) {
  const told: string[] = [];
  const stop = new AbortController();
  const done = dealPrompts(
    prompts,
    crews,
    (prompt, message) => told.push(`${prompt}: ${message.type === "piece" ? message.text : message.type}`),
    stop.signal,
  );
  done.catch(() => undefined); // awaited later
  await settled();
  return { told, stop, done };
}

const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => String(i));

describe("prompts", () => {
  test("go to whoever is free; the first open one is told as it comes, the others in its turn", async () => {
    const [one, other] = [new HeldCrew(), new HeldCrew()];
    const { told, done } = await begin(numbers(4), [one, other]);
    other.piece("b");
    one.piece("a");
    expect(told).toEqual(["0: a"]);
    await other.end();
    other.piece("c");
    await other.end();
    expect([one.taken, other.taken]).toEqual([["0"], ["1", "2", "3"]]);
    expect(told).toEqual(["0: a"]);
    await one.end();
    expect(told).toEqual(["0: a", "0: end", "1: b", "1: end", "2: c", "2: end"]);
    other.piece("d");
    expect(told.at(-1)).toBe("3: d");
    await other.end();
    expect(await done).toBe(true);
  });

  test("are not read far beyond one that takes long", async () => {
    const [slow, quick] = [new HeldCrew(), new HeldCrew()];
    const { done } = await begin(numbers(100), [slow, quick]);
    for (let i = 0; i < 100; i++) await quick.end();
    expect(quick.taken).toHaveLength(31);
    await slow.end();
    expect(quick.taken.length + slow.taken.length).toBeGreaterThan(32);
    for (let i = 0; i < 100; i++) {
      await quick.end();
      await slow.end();
    }
    expect(await done).toBe(true);
    expect([...slow.taken, ...quick.taken].sort()).toEqual(numbers(100).sort());
  });
});

describe("the end", () => {
  test("of one that was interrupted is that of all: what others are at is told, and nothing taken", async () => {
    const [one, other] = [new HeldCrew(), new HeldCrew()];
    const { told, done } = await begin(numbers(5), [one, other]);
    await other.end("interrupted");
    await one.end("interrupted");
    expect(await done).toBe(false);
    expect(told).toEqual(["0: end", "1: end"]);
  });

  test("does not wait for a prompt that does not come", async () => {
    async function* slow(): AsyncGenerator<string> {
      yield "0";
      await new Promise(() => {});
    }
    const [one, other] = [new HeldCrew(), new HeldCrew()];
    const { stop, done } = await begin(slow(), [one, other]);
    stop.abort();
    await one.end("interrupted");
    expect(await done).toBe(false);
    expect(other.taken).toEqual([]);
  });

  test("by an error in the prompts comes when those before it are answered", async () => {
    async function* broken(): AsyncGenerator<string> {
      yield "0";
      throw new Error("line 2");
    }
    const [one, other] = [new HeldCrew(), new HeldCrew()];
    const { told, done } = await begin(broken(), [one, other]);
    expect(told).toEqual([]);
    await one.end();
    await expect(done).rejects.toThrow("line 2");
    expect(told).toEqual(["0: end"]);
  });

  test("by a crew's error is that error, and nobody takes another prompt", async () => {
    const [one, other] = [new HeldCrew(), new HeldCrew()];
    const { done } = await begin(numbers(5), [one, other]);
    await one.fail(new Error("no room"));
    await other.end();
    await expect(done).rejects.toThrow("no room");
    expect([one.taken, other.taken]).toEqual([["0"], ["1"]]);
  });
});
