// npx shunya launch --ranks 2 examples/generate.ts runs/my-model "Once upon a time"
// A text from a model folder, piece by piece. At stage 3 each rank holds a part of the model; all ranks make the same text.
import { openGenerator } from "shunya";

const [folder, prompt] = process.argv.slice(2);
if (folder === undefined || prompt === undefined) throw new Error("give a model folder and a prompt");

await using model = await openGenerator(folder, { config: { zero_optimization: { stage: 3 } } });
const write = (text: string): void => {
  if (model.engine.group.rank === 0) process.stdout.write(text);
};

write(prompt);
for await (const piece of model.generate(prompt, { tokens: 60, temperature: 0.7, topP: 0.95, stop: ["\n\n"] }))
  write(piece);
write("\n");
