/** What each rank of `shunya generate --ranks N` runs: prompts of its own, or where ranks share the model the same ones on every rank. */
import { joinLaunched } from "../launch/join.ts";
import { answerPrompt, type GenerateJob, type GenerateMessage, openJobGenerator } from "./generate-job.ts";

/** Null ends the run. */
export type PromptMessage = string | null;

/** What a rank tells: first of the model, rank 0 alone; then of each prompt, of a shared one rank 0 alone. */
export type RankMessage = { readonly type: "opened"; readonly sharesModel: boolean } | GenerateMessage;

async function main(): Promise<void> {
  const launched = joinLaunched()!;
  const job = (await launched.receive()) as GenerateJob;
  await using generator = await openJobGenerator(job);
  const { sharesModel } = generator;
  const isFirst = launched.rank === 0;
  if (isFirst) launched.send({ type: "opened", sharesModel } satisfies RankMessage);
  const options = { ...job.options, signal: launched.stopSignal };
  for (;;) {
    const prompt = (await launched.receive()) as PromptMessage;
    if (prompt === null) return;
    const goesOn = await answerPrompt(generator, prompt, options, (message) => {
      if (isFirst || !sharesModel) launched.send(message satisfies RankMessage);
    });
    if (!goesOn) return;
  }
}

await main();
