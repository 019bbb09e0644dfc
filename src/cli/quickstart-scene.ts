/** What the quickstart trains on: the text that npm has installed, a small GPT, and a card too small for it at stage 0. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { renderModelConfig } from "../checkpoint/architectures.ts";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { type Gpt2Config, plainGpt2 } from "../nn/models/gpt2-config.ts";
import type { TrainJob } from "./job.ts";
import { parseBytes } from "./parse.ts";

export interface Scene {
  readonly job: TrainJob;
  /** Where the trained model goes. */
  readonly trained: string;
  readonly logJson: string;
  /** The folder is that of an earlier quickstart, whose model is replaced. */
  readonly isRepeated: boolean;
  /** What each rank may hold on its device. */
  readonly cardBytes: number;
  /** The flags of `shunya train` for `job`, as a shell would be given them. */
  readonly flags: readonly string[];
  /** The text among them. */
  readonly dataFlag: string;
}

/** The long ones among them: lib.dom.d.ts is the browser's interfaces, lib.es5.d.ts the language's own. */
const texts = ["dom", "es5"];

const shape: Gpt2Config = {
  vocabularySize: 256,
  positions: 128,
  hidden: 192,
  layers: 6,
  heads: 6,
  ...plainGpt2,
};

const settings = {
  train_micro_batch_size_per_gpu: 2,
  bf16: { enabled: true },
  optimizer: { type: "AdamW", params: { lr: 1e-3, betas: [0.9, 0.95], weight_decay: 0.01 } },
  steps_per_print: 50,
};

/** Between what stages 2 and 3 of this model need: only stage 3 fits. */
const cardSize = "25.5MB";
const ranks = 4;

/** Writes the configuration and the model's shape into `folder`. @throws UsageError where that or the text cannot be had */
export function setScene(folder: string, steps: number): Scene {
  const { lib, data } = findText();
  const config = join(folder, "ds_config.json");
  const model = join(folder, "model");
  const files: readonly (readonly [path: string, text: string])[] = [
    [config, `${JSON.stringify(settings, undefined, 2)}\n`],
    [join(model, "config.json"), renderModelConfig(shape)],
  ];
  const isRepeated = files.map(([path, text]) => isWritten(path, text)).every(Boolean);
  try {
    mkdirSync(model, { recursive: true });
    for (const [path, text] of files) writeFileSync(path, text);
  } catch (error) {
    throw new UsageError(`${folder} cannot be written: ${reasonOf(error)}; name another folder with --output`);
  }
  const cardBytes = parseBytes(cardSize);
  const job: TrainJob = {
    config,
    overrides: [],
    model,
    data,
    ranks,
    steps,
    seqLength: undefined,
    seed: 42,
    shuffle: true,
    deviceMemoryBytes: cardBytes,
    hostMemoryBytes: undefined,
    threads: 1,
    output: undefined,
    saveEvery: undefined,
    keep: undefined,
    resume: undefined,
    trace: undefined,
  };
  const dataFlag = `--data ${join(lib, `lib.{${texts.join(",")}}.d.ts`)}`;
  const flags = [
    `--config ${config}`,
    `--model ${model}`,
    dataFlag,
    `--ranks ${ranks} --threads 1 --device-memory ${cardSize} --steps ${steps}`,
  ];
  const [trained, logJson] = [join(folder, "trained"), join(folder, "log.ndjson")];
  return { job, trained, logJson, isRepeated, cardBytes, flags, dataFlag };
}

/** Whether an earlier quickstart wrote it. @throws UsageError where something else is there */
function isWritten(path: string, text: string): boolean {
  if (!existsSync(path)) return false;
  const found = statSync(path).isFile() ? readFileSync(path, "utf8") : undefined;
  if (found === text) return true;
  throw new UsageError(
    `${path} is not what the quickstart writes there; remove it, or name another folder with --output`,
  );
}

/** TypeScript's declaration files: in a package for each platform since version 7, in `typescript` itself before. */
function findText(): { lib: string; data: string[] } {
  for (const name of [`@typescript/typescript-${process.platform}-${process.arch}`, "typescript"]) {
    const lib = libraryOf(name);
    const data = texts.map((text) => join(lib ?? "", `lib.${text}.d.ts`));
    if (lib !== undefined && data.every((file) => existsSync(file))) return { lib, data };
  }
  throw new UsageError(
    "the quickstart's text is missing: it trains on the declaration files of the typescript package, which a checkout " +
      'installs. Run "npm ci" there, or train on text of your own with "shunya train"',
  );
}

/** The package's folder lib/, seen from here or from the typescript package: some package managers keep them apart. */
function libraryOf(name: string): string | undefined {
  const here = createRequire(import.meta.url);
  for (const from of [() => here, () => createRequire(here.resolve("typescript/package.json"))]) {
    try {
      return nearest(join(dirname(from().resolve(`${name}/package.json`)), "lib"));
    } catch {
      // Not installed there.
    }
  }
  return undefined;
}

/** The shorter of the two ways to name a path. */
function nearest(path: string): string {
  const fromHere = relative(process.cwd(), path);
  return fromHere.length < path.length ? fromHere : path;
}
