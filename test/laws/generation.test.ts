// Generation leaves no trace: the same tokens at every stage and world size, a whole model gathered once for a text where it fits and unit
// by unit where not, nothing sent where every rank holds the model, and training goes on as if nothing had been generated.
import { describe, expect, test } from "vitest";
import type { Job } from "./jobs.ts";
import { gpt2, tinyGpt2 } from "./models.ts";
import { type JobAnswer, run } from "./pool.ts";

const prompt = [3, 10, 31, 27, 4];
const newTokens = 40; // with the prompt more than the model's 32 positions
const generate = { afterSteps: [0, 2], prompts: [prompt], tokens: newTokens } as const;

const jobOf = (stage: number, zero: object = {}, more: Partial<Job> = {}): Job => ({
  model: gpt2(),
  config: {
    train_batch_size: 4,
    optimizer: { type: "AdamW", params: { lr: 0.01 } },
    zero_optimization: { stage, stage3_param_persistence_threshold: 0, ...zero },
  },
  steps: 4,
  seqLength: 16,
  generate,
  ...more,
});

/** Padded to equal ranges, which is what gathers send; no two worlds here differ in it. */
const { hidden, layers, positions, vocabularySize } = tinyGpt2;
const blockElements = 12 * hidden ** 2 + 13 * hidden;
const rootElements = (vocabularySize + positions) * hidden + 2 * hidden;

/** A pass is foretold with scratch for as many threads as the machine has cores; the ranks here have one. */
const slackBytes = 2 ** 20;

const lossesOf = ({ records }: Pick<JobAnswer, "records">): number[] => records.map((r) => r.loss);
const textsOf = ({ generated }: Pick<JobAnswer, "generated">): (readonly number[])[] => generated!.map((g) => g.tokens);

describe.each([1, 2])("%i ranks", (ranks) => {
  const plain = run(ranks, { ...jobOf(0), generate: { ...generate, afterSteps: [] } });
  const first = run(ranks, jobOf(0));

  test.each([
    ["stage 0", jobOf(0)],
    ["stage 3", jobOf(3)],
    ["stage 3, parameters on the host", jobOf(3, { offload_param: { device: "cpu" } })],
    ["stage 3, optimizer on the host", jobOf(3, { offload_optimizer: { device: "cpu" } })],
  ])("%s: the same text on every rank, and training that knows nothing of it", async (_name, job) => {
    const answer = await run(ranks, job);
    expect(lossesOf(answer)).toEqual(lossesOf(await plain));
    expect(answer.weightsHash).toBe((await plain).weightsHash);
    for (const rank of answer.ranks) {
      expect(textsOf(rank)).toEqual(textsOf(await first));
      expect(rank.generated!.map((g) => g.leftBytes)).toEqual([0, 0]);
    }
    // What was trained in between shows, so that the comparison can fail.
    expect(textsOf(answer)[0]).not.toEqual(textsOf(answer)[1]);
    expect(textsOf(answer)[0]).toHaveLength(newTokens);
  });
});

test.each([0, 1, 2])("texts of their own: at stage %i ranks answer other prompts and send nothing", async (stage) => {
  const prompts = [prompt, [7, 1]];
  const alone = await Promise.all(
    prompts.map((one) => run(1, jobOf(stage, {}, { generate: { ...generate, afterSteps: [0], prompts: [one] } }))),
  );
  const { ranks } = await run(2, jobOf(stage, {}, { generate: { ...generate, afterSteps: [0], prompts } }));
  expect(ranks.map(textsOf)).toEqual(alone.map(textsOf));
  for (const { generated } of ranks) expect(generated![0]).toMatchObject({ gatheredElements: 0, toldElements: 0 });
});

describe("what is gathered for a text, at stage 3 on 2 ranks", () => {
  const own = (elements: number): number => elements / 2;
  const generateOnly = (budget: Partial<Job> = {}) =>
    run(2, jobOf(3, {}, { steps: 0, generate: { ...generate, afterSteps: [0] }, ...budget }));
  /** Padding to equal ranges is a few elements a unit. */
  function expectNearly(found: number, wanted: number): void {
    expect(found).toBeGreaterThanOrEqual(wanted);
    expect(found).toBeLessThan(1.05 * wanted);
  }

  test("once everything, where the budget holds it; else every unit in every pass", async () => {
    const whole = await generateOnly();
    const [atOnce] = whole.generated!;
    expectNearly(atOnce!.gatheredElements, own(layers * blockElements + rootElements));
    const narrow = await generateOnly({ deviceMemoryBytes: atOnce!.peakBytes - 1 });
    const [byUnit] = narrow.generated!;
    expect(byUnit!.tokens).toEqual(atOnce!.tokens);
    expect(byUnit!.peakBytes).toBeLessThan(atOnce!.peakBytes);
    // A pass a token; the root unit is used at both ends of each, and there is no room for it in between.
    expectNearly(byUnit!.gatheredElements, newTokens * own(layers * blockElements + 2 * rootElements));
    // What the passes take is known to the byte, so a budget that holds it all is used.
    const exact = await generateOnly({ deviceMemoryBytes: atOnce!.peakBytes + slackBytes });
    expect(exact.generated![0]!.gatheredElements).toBe(atOnce!.gatheredElements);
  });
});
