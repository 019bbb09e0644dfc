/** What each rank of `shunya generate --ranks N` runs: the same prompts on every rank, of which rank 0 tells. */
import { joinLaunched } from "../launch/join.ts";
import { answerPrompt, type GenerateJob, openJobGenerator } from "./generate-job.ts";

/** Null ends the run. */
export type PromptMessage = string | null;

async function main(): Promise<void> {
  const launched = joinLaunched()!;
  const job = (await launched.receive()) as GenerateJob;
  await using generator = await openJobGenerator(job);
  const options = { ...job.options, signal: launched.stopSignal };
  for (;;) {
    const prompt = (await launched.receive()) as PromptMessage;
    if (prompt === null) return;
    const goesOn = await answerPrompt(generator, prompt, options, (message) => {
      if (launched.rank === 0) launched.send(message);
    });
    if (!goesOn) return;
  }
}

await main();
