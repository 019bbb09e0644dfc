// The laws that planted faults must turn red: a test file each, and which of its tests to run.

/** A test file and which of its tests to run. */
export interface Law {
  readonly name: string;
  readonly file: string;
  /** A regular expression over "group test" names. */
  readonly tests: string;
}

export const laws = {
  oracle: {
    name: "Training is PyTorch's",
    file: "test/oracles/gpt2-tiny.test.ts",
    tests: "fp32, stage (0|3), 2 ranks",
  },
  llama: { name: "Llama's family is transformers'", file: "test/oracles/llama-family.test.ts", tests: "logits" },
  unequal: {
    name: "The mean over the global batch's targets",
    file: "test/oracles/unequal.test.ts",
    tests: "gpt2, 2 ranks, 1",
  },
  instructions: {
    name: "Answers alone are learned, as transformers' masks have them",
    file: "test/data/instructions.test.ts",
    tests: "transformers|a conversation a row|answers of the prompt",
  },
  frozen: {
    name: "Frozen parameters cost their own bytes and no more",
    file: "test/laws/frozen.test.ts",
    tests: "bf16, 2 ranks|psi_t|backward",
  },
  peft: { name: "Fine-tuning is PyTorch's and PEFT's", file: "test/oracles/peft.test.ts", tests: "LoRA is PEFT's" },
  equal: {
    name: "Equal bits over stages and settings",
    file: "test/laws/equal.test.ts",
    tests: "fp32, 2 ranks, 1 micro-batches|bf16, 2 ranks, 1 micro-batches",
  },
  rounding: {
    name: "One global batch, however it is divided",
    file: "test/laws/equal.test.ts",
    tests: "equal to rounding",
  },
  accounted: {
    name: "Bytes at rest and traffic as the formulas say",
    file: "test/laws/accounted.test.ts",
    tests: "bf16, 1 micro-batches",
  },
  peaks: { name: "Peaks and order of gathers", file: "test/laws/accounted.test.ts", tests: "peaks" },
  bounded: { name: "Memory stays where it was", file: "test/laws/bounded.test.ts", tests: "memory over time the same" },
  budget: { name: "Budgets hold to the byte", file: "test/laws/bounded.test.ts", tests: "budgets" },
  fp32Accumulation: {
    name: "fp32 accumulation",
    file: "test/laws/accounted.test.ts",
    tests: "fp32 accumulation adds",
  },
  errors: {
    name: "Ranks that err",
    file: "test/laws/structure.test.ts",
    tests: "ranks that err (ranks|reading|a signal)",
  },
  structure: { name: "Any model, any world", file: "test/laws/structure.test.ts", tests: "any model, any world" },
  gradients: { name: "Gradients by central differences", file: "test/tensor/gradients.test.ts", tests: "" },
  tape: { name: "Scopes and the tape's memory", file: "test/tensor/tape.test.ts", tests: "" },
  head: { name: "The output head's chunks and seed", file: "test/tensor/head-loss.test.ts", tests: "" },
  engine: { name: "The engine's calls", file: "test/zero/engine.test.ts", tests: "" },
  precision: { name: "fp16, its loss scale, skipped steps", file: "test/zero/precision.test.ts", tests: "" },
  sent: { name: "Gradients sent in another type", file: "test/laws/equal.test.ts", tests: "sent in" },
  overflow: { name: "Overflows are everybody's", file: "test/laws/equal.test.ts", tests: "fp16, 3 ranks" },
  tiers: {
    name: "Equal bits in every tier",
    file: "test/laws/equal.test.ts",
    tests: "2 ranks, 1 micro-batches|fp32, 4 ranks|stages 2, 3: (fp32|bf16), 2 ranks",
  },
  delayed: { name: "Delayed updates are their definition", file: "test/zero/delayed.test.ts", tests: "" },
  resumedTiers: {
    name: "Resumed in every tier",
    file: "test/checkpoint/resume.test.ts",
    tests: "states on (cpu|nvme)",
  },
  optimizers: {
    name: "Every optimizer at every stage",
    file: "test/laws/optimizers.test.ts",
    tests: "in bf16: 'Lion|a group's learning rate",
  },
  trajectories: { name: "Optimizers are PyTorch's", file: "test/optim/trajectories.test.ts", tests: "" },
  schedules: { name: "Schedules are DeepSpeed's", file: "test/optim/schedules.test.ts", tests: "" },
  resumed: {
    name: "A resumed run is the run that never stopped",
    file: "test/checkpoint/resume.test.ts",
    tests: "stage (0|3), fp16|stage 2, fp16|states, whoever holds them",
  },
  savedBeside: {
    name: "Saved beside training",
    file: "test/checkpoint/beside.test.ts",
    tests: "ranks, stage",
  },
  lookedAt: { name: "A look at what lies on disk", file: "test/zero/disk-slots.test.ts", tests: "" },
  base: {
    name: "No base but the one that a run began with",
    file: "test/checkpoint/base.test.ts",
    tests: "12 psi_t.*2 ranks|depend on nothing but|another base (one of|that was moved)",
  },
  checkpoints: {
    name: "Damage is never silent",
    file: "test/checkpoint/training.test.ts",
    tests: "damage|not as it was",
  },
  cache: { name: "A text cut into passes has the same logits", file: "test/nn/key-value-cache.test.ts", tests: "" },
  generation: {
    name: "Generation leaves no trace",
    file: "test/laws/generation.test.ts",
    tests: "2 ranks stage|what is gathered|texts of their own",
  },
  fromCheckpoint: {
    name: "A checkpoint's text is that of the model which the run writes",
    file: "test/generation/from-checkpoint.test.ts",
    tests: "the text is that",
  },
  modelSettings: {
    name: "Texts end and are drawn as generation_config.json says",
    file: "test/generation/model-settings.test.ts",
    tests: "",
  },
  dealt: {
    name: "Prompts are dealt, and answered in their order",
    file: "test/cli/generate-deal.test.ts",
    tests: "",
  },
  clock: { name: "Queues share what they share", file: "test/device/virtual-clock.test.ts", tests: "" },
  costs: { name: "Ops cost what a machine's rates say", file: "test/hardware/costs.test.ts", tests: "" },
  opBytes: { name: "No op's bytes are forgotten", file: "test/hardware/op-bytes.test.ts", tests: "" },
  simulatedTime: {
    name: "A step's time, however many micro-batches",
    file: "test/laws/simulated-time.test.ts",
    tests: "micro-batches that are counted|delayed update",
  },
  fit: { name: "The rule of fit", file: "test/planner/fit.test.ts", tests: "" },
  recommended: { name: "The recommendation is the first that fits", file: "test/planner/recommend.test.ts", tests: "" },
  options: { name: "What callers give is checked by name and kind", file: "test/api.test.ts", tests: "" },
  endless: { name: "No template is waited for", file: "test/tokenizer/chat.test.ts", tests: "does not end" },
  footprint: {
    name: "The page's host is the engine's",
    file: "test/planner/footprint.test.ts",
    tests: "with other ranks",
  },
  remedies: { name: "What cannot help is not tried", file: "test/planner/answer.test.ts", tests: "where nothing fits" },
} as const satisfies Record<string, Law>;
