/** What was chosen for a `shunya train` without a model, in full, and how to keep it. */
import { renderModelConfig } from "../checkpoint/architectures.ts";
import { formatCount, formatDuration, formatMany, formatOperations } from "../report/numbers.ts";
import { wrap } from "../report/wrap.ts";
import { type Choice, type MachineSpeed, mostEpochs } from "./choice.ts";

/** The name of the configuration beside a model that was trained with it. */
export const keptConfigName = "ds_config.json";

export function renderChoice(choice: Choice, speed: MachineSpeed): string {
  const { settings, model, job } = choice;
  const chosen = settings === undefined ? "a model" : "a model and a configuration";
  return [
    `No --model was given: Shunya chose ${chosen}`,
    `for this text and this machine (${formatMany(speed.cores, "core")}, each with at most`,
    `${formatOperations(speed.fp32)}/s in fp32 and ${formatOperations(speed.bf16)}/s in bf16).`,
    "",
    "The model (config.json):",
    renderModelConfig(model).trim(),
    "",
    ...(settings === undefined ? [] : [`The configuration (${keptConfigName}):`, renderSettings(settings).trim(), ""]),
    ...lengthOf(choice)
      .split("\n")
      .map((line) => wrap(line)),
    ...keeping(job.output, settings !== undefined),
    "",
    "",
  ].join("\n");
}

export const renderSettings = (settings: object): string => `${JSON.stringify(settings, undefined, 2)}\n`;

function lengthOf({ steps, epochs, seconds, boundBy }: Choice): string {
  const times = epochs < 10 ? epochs.toFixed(1) : formatCount(epochs);
  const seen = epochs < 1 ? `${(100 * epochs).toPrecision(2)} % of the text` : `the text ${times} times`;
  const run = `${formatMany(steps, "step")} ${steps === 1 ? "sees" : "see"} ${seen}, in about ${formatDuration(seconds)}`;
  if (boundBy === "epochs")
    return `${run}.\nMore than ${mostEpochs} times would teach it by heart: a longer text makes a better model.`;
  return boundBy === "time" ? `${run}; give --steps for another length.` : `${run}.`;
}

function keeping(output: string | undefined, hasSettings: boolean): string[] {
  const files = `config.json${hasSettings ? ` and ${keptConfigName}` : ""}`;
  if (output === undefined)
    return [`Nothing is kept without --output DIR: there the model goes at the end, with its`, `${files}.`];
  const flags = hasSettings ? `--model ${output} --config ${output}/${keptConfigName}` : `--model ${output}`;
  return [
    `The model goes to ${output} at the end, with its ${files}.`,
    "To train it further:",
    `  shunya train ${flags} --data ...`,
  ];
}
