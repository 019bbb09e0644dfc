/** Prompts dealt to whoever is free, and what becomes of them told in the order of the prompts. */
import type { GenerateMessage } from "./generate-job.ts";

/** Shows what becomes of a prompt. */
export type Teller = (prompt: string, message: GenerateMessage) => void;

/** Whoever answers one prompt at a time: this process, a rank, or all ranks together. */
export interface Crew {
  /** Tells of the prompt, `end` last. @returns whether there may be another one */
  answer(prompt: string, tell: (message: GenerateMessage) => void): Promise<boolean>;
}

/** So many prompts for each crew may be begun or answered behind one that takes long: their answers wait in memory. */
const promptsPerCrew = 16;

/**
 * Each crew takes the next prompt when it has answered one. Nobody takes another once a crew or `signal` asks for the end, or one failed;
 * what was taken before is answered.
 * @returns whether all prompts were answered
 */
export async function dealPrompts(
  prompts: AsyncIterable<string> | Iterable<string>,
  crews: readonly Crew[],
  tell: Teller,
  signal: AbortSignal,
): Promise<boolean> {
  const dealt = inOrder(prompts, new TellingOrder(tell), promptsPerCrew * crews.length);
  // A prompt may be long in coming, as on a terminal: the end does not wait for it.
  const waiting = new Set<(none: undefined) => void>();
  let isOver = false;
  const end = (): void => {
    isOver = true;
    for (const resolve of waiting) resolve(undefined);
  };
  const take = (): Promise<DealtPrompt | undefined> =>
    new Promise((resolve, reject) => {
      waiting.add(resolve);
      const forget = (): unknown => waiting.delete(resolve);
      dealt
        .next()
        .then(({ value }) => resolve(value ?? undefined), reject)
        .finally(forget);
    });
  const work = async (crew: Crew): Promise<void> => {
    try {
      for (;;) {
        const next = isOver ? undefined : await take();
        if (!next) return;
        if (!(await crew.answer(next.prompt, next.tell))) return end();
      }
    } catch (error) {
      end();
      throw error;
    }
  };
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  const results = await Promise.allSettled(crews.map(work));
  signal.removeEventListener("abort", end);
  void dealt.return(undefined);
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return !isOver;
}

interface DealtPrompt {
  readonly prompt: string;
  readonly tell: (message: GenerateMessage) => void;
}

/** @param most prompts that may be open at once */
async function* inOrder(
  prompts: AsyncIterable<string> | Iterable<string>,
  order: TellingOrder,
  most: number,
): AsyncGenerator<DealtPrompt, undefined> {
  for await (const prompt of prompts) {
    await order.room(most);
    yield { prompt, tell: order.open(prompt) };
  }
  return undefined;
}

interface Place {
  readonly prompt: string;
  /** What came before its turn. */
  kept: GenerateMessage[];
  hasEnded: boolean;
}

/** Of the first prompt that has not ended all is told as it comes; what becomes of later ones is kept until it is their turn. */
class TellingOrder {
  readonly #tell: Teller;
  /** In the order of the prompts. */
  readonly #places: Place[] = [];
  #onMoved: () => void = () => {};

  constructor(tell: Teller) {
    this.#tell = tell;
  }

  /** Resolves when fewer than `most` prompts are open. One waits at a time. */
  async room(most: number): Promise<void> {
    while (this.#places.length >= most)
      await new Promise<void>((resolve) => {
        this.#onMoved = resolve;
      });
  }

  open(prompt: string): (message: GenerateMessage) => void {
    const place: Place = { prompt, kept: [], hasEnded: false };
    this.#places.push(place);
    return (message) => {
      place.kept.push(message);
      place.hasEnded ||= message.type === "end";
      this.#tellFirst();
    };
  }

  #tellFirst(): void {
    for (let first = this.#places[0]; first; first = this.#places[0]) {
      const { prompt, kept } = first;
      first.kept = [];
      for (const message of kept) this.#tell(prompt, message);
      if (!first.hasEnded) return;
      this.#places.shift();
      this.#onMoved();
    }
  }
}
