/**
 * What `shunya train --data my.txt` trains when nobody says: a model shape and a configuration that this machine gets through
 * in about ten minutes, by its measured speed and the forecast's count of operations.
 */
import { resolveConfig } from "../config/resolve.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { windowPlaces } from "../data/row-places.ts";
import { type Gpt2Config, plainGpt2 } from "../nn/models/gpt2-config.ts";
import { shortagesOf } from "../report/refusal.ts";
import { forecastShape } from "./foretell.ts";
import { describeForConfig, parseJobConfig, type TrainJob, type TrainRequest } from "./job.ts";
import { withOverrides } from "./overrides.ts";
import { diskGroundOf, needOf, roomOf } from "./room.ts";

/** Floating-point operations per second of one thread that works in registers alone. */
export interface MachineSpeed {
  readonly fp32: number;
  readonly bf16: number;
  readonly cores: number;
}

export interface Choice {
  readonly job: TrainJob;
  readonly model: Gpt2Config;
  /** The chosen configuration with the command's overrides in it; undefined where the user gave a file. */
  readonly settings: object | undefined;
  readonly steps: number;
  readonly epochs: number;
  readonly seconds: number;
  /** What ended the run: the time, the data or the user. */
  readonly boundBy: "time" | "epochs" | "--steps";
}

const budgetSeconds = 9 * 60;
/** Up to four epochs repeated text is nearly as good as new, up to sixteen it still teaches (Muennighoff et al. 2023). */
export const mostEpochs = 8;
/** Where time is short: with fewer tokens a parameter a smaller model learns more in it (Hoffmann et al. 2022 found 20). */
const leastTokensPerParameter = 10;
/** A smaller model would hardly see more of the text than this share. */
const nearlyAll = 2 / 3;
/** Where text is short: a larger model learns more from each byte, until it only remembers. */
const mostParametersPerByte = 8;
/** bf16 costs accuracy: it must pay in time. */
const leastGainOfBf16 = 1.2;

/** The text as a model will see it. */
export interface ChoiceText {
  /** Without a byte-order mark. */
  readonly tokenCount: number;
  readonly vocabularySize: number;
}

interface Shape {
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly positions: number;
  readonly learningRate: number;
  /** Of what a core can do in registers, what training steps of this shape reach (measured with 2 threads, in fp32 and bf16). */
  readonly shareOfPeak: number;
}

/** Largest first. */
const shapes: readonly Shape[] = [
  { hidden: 768, layers: 12, heads: 12, positions: 512, learningRate: 4e-4, shareOfPeak: 0.65 },
  { hidden: 512, layers: 8, heads: 8, positions: 256, learningRate: 6e-4, shareOfPeak: 0.65 },
  { hidden: 384, layers: 6, heads: 6, positions: 256, learningRate: 8e-4, shareOfPeak: 0.65 },
  { hidden: 256, layers: 6, heads: 4, positions: 256, learningRate: 1e-3, shareOfPeak: 0.65 },
  { hidden: 192, layers: 6, heads: 6, positions: 128, learningRate: 1.5e-3, shareOfPeak: 0.6 },
  { hidden: 128, layers: 4, heads: 4, positions: 128, learningRate: 2e-3, shareOfPeak: 0.5 },
  { hidden: 64, layers: 2, heads: 2, positions: 64, learningRate: 3e-3, shareOfPeak: 0.3 },
];

/**
 * The largest shape that time and text are enough for, or else the smallest.
 * @throws ConfigError where the user's file or overrides are wrong, DataError where the text is shorter than any window
 */
export async function chooseJob(request: TrainRequest, text: ChoiceText, speed: MachineSpeed): Promise<Choice> {
  const fillable = shapes.filter(({ positions }) => text.tokenCount > (request.seqLength ?? positions));
  let choice: Choice | undefined;
  for (const shape of fillable.length > 0 ? fillable : shapes.slice(-1)) {
    const weighed = await weigh(shape, request, text, speed);
    choice = weighed.choice;
    if (weighed.fits) break;
  }
  return choice!;
}

async function weigh(
  shape: Shape,
  request: TrainRequest,
  { tokenCount, vocabularySize }: ChoiceText,
  speed: MachineSpeed,
): Promise<{ choice: Choice; fits: boolean }> {
  const model = modelOf({ shape, vocabularySize }, request.seqLength);
  const seqLength = model.positions;
  const { count: windows } = windowPlaces(tokenCount, seqLength);
  const microBatch = microBatchFor(windows, request, seqLength);
  const precision = speed.bf16 > leastGainOfBf16 * speed.fp32 ? "bf16" : "fp32";
  // A step's operations do not depend on how many steps there are, but the number of steps depends on them.
  const { config: first } = resolveFor(request, {
    shape,
    vocabularySize,
    microBatch,
    precision,
    steps: request.steps ?? 1,
  });
  const foretold = await forecastShape(model, { config: first, seqLength, threads: request.threads });
  const threads = Math.min(speed.cores, request.ranks * request.threads);
  const reached = shape.shareOfPeak * threads * speed[first.precision === "bf16" ? "bf16" : "fp32"];
  const secondsPerStep = (foretold.report.operations * request.ranks) / reached;
  const byTime = Math.max(1, Math.floor(budgetSeconds / secondsPerStep));
  const byEpochs = Math.max(1, Math.floor((mostEpochs * windows) / first.trainBatch));
  const steps = request.steps ?? Math.min(byTime, byEpochs);
  const disk = diskGroundOf(first.disk, request.ranks);
  const parameters = foretold.plan.parameterElements;
  const tokens = steps * first.trainBatch * seqLength;
  const fits =
    steps <= byTime &&
    shortagesOf(needOf(foretold, disk), roomOf(request, disk)).length === 0 &&
    parameters <= mostParametersPerByte * tokenCount &&
    (byTime >= nearlyAll * byEpochs || tokens >= leastTokensPerParameter * parameters);
  const { settings } = resolveFor(request, { shape, vocabularySize, microBatch, precision, steps });
  const choice: Choice = {
    job: { ...request, model, steps, config: settings ?? request.config },
    model,
    settings: settings && withOverrides(settings, request.overrides),
    steps,
    epochs: (steps * first.trainBatch) / windows,
    seconds: steps * secondsPerStep,
    boundBy: request.steps !== undefined ? "--steps" : byEpochs < byTime ? "epochs" : "time",
  };
  return { choice, fits };
}

const mostWindows = 32;
const mostTokens = 8192;
const leastWindows = 4;
/** A schedule needs some steps to go somewhere. */
const leastSteps = 400;

/** Windows of a rank's micro-batch: fewer where they are long, or where the text would end after a handful of steps. */
function microBatchFor(windows: number, { ranks, steps }: TrainRequest, seqLength: number): number {
  let batch = Math.min(mostWindows, Math.max(leastWindows, Math.floor(mostTokens / seqLength)));
  while (steps === undefined && batch > leastWindows && (mostEpochs * windows) / batch < leastSteps) batch /= 2;
  return Math.max(1, Math.floor(batch / ranks));
}

/** What of a configuration is chosen. */
interface Proposal {
  readonly shape: Shape;
  readonly vocabularySize: number;
  readonly microBatch: number;
  readonly precision: "fp32" | "bf16";
  readonly steps: number;
}

/** @returns settings: undefined where the user gave a file */
function resolveFor(
  request: TrainRequest,
  proposal: Proposal,
): { config: ResolvedConfig; settings: object | undefined } {
  const settings = request.config === undefined ? settingsOf(proposal, request.ranks) : undefined;
  const model = modelOf(proposal, request.seqLength);
  const config = resolveConfig({
    file: parseJobConfig(settings ?? request.config),
    overrides: request.overrides,
    worldSize: request.ranks,
    model: describeForConfig(model, model),
    stepsOf: () => proposal.steps,
  });
  return { config, settings };
}

function settingsOf({ shape, microBatch, precision, steps }: Proposal, ranks: number): object {
  return {
    train_micro_batch_size_per_gpu: microBatch,
    zero_optimization: { stage: ranks > 1 ? 1 : 0 },
    ...(precision === "bf16" && { bf16: { enabled: true } }),
    optimizer: {
      type: "AdamW",
      params: { lr: shape.learningRate, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.01 },
    },
    scheduler: {
      type: "WarmupCosineLR",
      params: {
        total_num_steps: steps,
        warmup_num_steps: Math.min(200, Math.max(2, Math.round(steps / 20))),
        warmup_min_ratio: 0.01,
        cos_min_ratio: 0.1,
      },
    },
    gradient_clipping: 1,
    steps_per_print: Math.max(1, Math.round(steps / 40)),
  };
}

/** @param positions the user's, in place of the shape's */
const modelOf = (
  { shape, vocabularySize }: Pick<Proposal, "shape" | "vocabularySize">,
  positions: number | undefined,
): Gpt2Config => ({
  vocabularySize,
  positions: positions ?? shape.positions,
  hidden: shape.hidden,
  layers: shape.layers,
  heads: shape.heads,
  ...plainGpt2,
});
