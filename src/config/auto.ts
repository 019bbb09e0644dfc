/**
 * `"auto"` by Hugging Face's rules (transformers' DeepSpeed integration): what its Trainer fills in from its arguments comes from
 * flags here, what it computes from the hidden size comes from the model, and inside DeepSpeed's checked sections any other "auto"
 * means the default. An "auto" that nothing can fill is refused by its path.
 */

import { isCheckedSection, splitPath } from "./known-keys.ts";
import type { Settings } from "./reader.ts";

export interface AutoInput {
  /** Undefined: not known yet. */
  readonly model: { readonly hiddenSize: number } | undefined;
}

/** Defaults of Hugging Face's TrainingArguments. */
const trainer = { learningRate: 5e-5, betas: [0.9, 0.999], epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 } as const;
/** Its default is no warm-up, and DeepSpeed's shortest has one step. */
const warmupSteps = 1;
const byTrainer = "Hugging Face's default";

/** Everything but the batch and the length of the run. */
export function fillAutos(settings: Settings, input: AutoInput): void {
  fillPrecision(settings);
  settings.fill("gradient_clipping", trainer.maxGradNorm, "default", `${byTrainer} of max_grad_norm`);
  if (settings.isAuto("optimizer.params.lr"))
    settings.warn(
      "optimizer.params.lr",
      `"auto" is filled with ${trainer.learningRate}, ${byTrainer}; choose one with --lr`,
    );
  settings.fill("optimizer.params.lr", trainer.learningRate, "default", byTrainer);
  settings.fill("optimizer.params.betas", trainer.betas, "default", byTrainer);
  settings.fill("optimizer.params.eps", trainer.epsilon, "default", byTrainer);
  settings.fill("optimizer.params.weight_decay", trainer.weightDecay, "default", byTrainer);
  fillSizes(settings, input.model?.hiddenSize);
}

function fillPrecision(settings: Settings): void {
  const autos = (["fp16.enabled", "bf16.enabled"] as const).filter((path) => settings.isAuto(path));
  const on = settings.get("fp16.enabled") || settings.get("bf16.enabled");
  if (autos.length > 0 && !on)
    settings.warn(
      autos.at(-1)!,
      `"auto" is filled with false, so this trains in fp32; --set ${autos.at(-1)}=true trains in 16 bits`,
    );
  for (const path of autos) settings.fill(path, false, "default", `${byTrainer}: off unless a flag says so`);
}

/** Bucket and threshold sizes in elements, from the model's width h. */
function fillSizes(settings: Settings, hidden: number | undefined): void {
  for (const [path, size, rule] of [
    ["zero_optimization.reduce_bucket_size", (h: number) => h * h, "hidden size squared"],
    [
      "zero_optimization.stage3_prefetch_bucket_size",
      (h: number) => Math.floor(0.9 * h * h),
      "0.9 x hidden size squared",
    ],
    ["zero_optimization.stage3_param_persistence_threshold", (h: number) => 10 * h, "10 x hidden size"],
  ] as const) {
    if (hidden === undefined) settings.fill(path, undefined, "derived", `${rule}, once the model is known`);
    else settings.fill(path, size(hidden), "model", rule);
  }
}

/**
 * The schedule's, which need the learning rate and the length of the run.
 * @param steps undefined: not known yet; null: this run cannot know it
 */
export function fillScheduleAutos(settings: Settings, learningRate: number, steps: number | undefined | null): void {
  settings.fill("scheduler.params.warmup_min_lr", 0, "default", byTrainer);
  settings.fill("scheduler.params.warmup_max_lr", learningRate, "derived", "the optimizer's lr");
  if (settings.isAuto("scheduler.params.warmup_num_steps"))
    settings.warn(
      "scheduler.params.warmup_num_steps",
      `"auto" is filled with ${warmupSteps}: ${byTrainer} is no warm-up; write the number of steps to have one`,
    );
  settings.fill("scheduler.params.warmup_num_steps", warmupSteps, "default", `${byTrainer} is no warm-up`);
  const total = "scheduler.params.total_num_steps";
  if (settings.isAuto(total) && steps === undefined)
    settings.warn(total, '"auto" is filled with the length of the run when it begins; --steps sets it');
  if (settings.isAuto(total) && steps === null) return; // told with the others that nothing fills
  settings.fill(total, steps ?? Number.POSITIVE_INFINITY, "derived", "the length of the run");
}

/** What is left: the default where DeepSpeed reads it so, else a refusal that names what would fill it. */
export function settleOtherAutos(settings: Settings): void {
  for (const path of settings.autoPaths()) {
    if (isCheckedSection(splitPath(path)[0])) {
      settings.fill(path, undefined, "default", "the default, as DeepSpeed reads it in this section");
      continue;
    }
    const how =
      path === "scheduler.params.total_num_steps"
        ? "give --steps, or write a number"
        : "write a value, or leave the key out";
    settings.error(path, `found "auto", which nothing here can fill; ${how}`);
  }
}
