/**
 * The batch identity: train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * ranks.
 * Two of the three fix the third; a lone one sets accumulation to 1 (DeepSpeed's rules).
 */

export interface BatchGiven {
  readonly trainBatch: number | undefined;
  readonly microBatch: number | undefined;
  readonly gradientAccumulation: number | undefined;
}

export interface Batch {
  readonly trainBatch: number;
  readonly microBatch: number;
  readonly gradientAccumulation: number;
}

export type BatchAnswer = { readonly batch: Batch } | { readonly problem: string };

/**
 * Solves the identity, or says what does not fit and what would. Given values are positive whole numbers.
 * @param ranksFrom where the number of ranks comes from, to say so
 */
export function solveBatch(given: BatchGiven, worldSize: number, ranksFrom = "--ranks"): BatchAnswer {
  const { trainBatch, microBatch, gradientAccumulation } = given;
  if (trainBatch === undefined) {
    if (microBatch === undefined) {
      return {
        problem:
          "no batch is given; wanted train_batch_size or train_micro_batch_size_per_gpu: write one of the two, or give --micro-batch",
      };
    }
    const accumulation = gradientAccumulation ?? 1;
    return exact({ trainBatch: microBatch * accumulation * worldSize, microBatch, gradientAccumulation: accumulation });
  }
  const perRank = Math.floor(trainBatch / worldSize);
  const batch = {
    trainBatch,
    microBatch: microBatch ?? Math.floor(perRank / (gradientAccumulation ?? 1)),
    gradientAccumulation: gradientAccumulation ?? (microBatch === undefined ? 1 : Math.floor(perRank / microBatch)),
  };
  const product = batch.microBatch * batch.gradientAccumulation * worldSize;
  return product === trainBatch ? exact(batch) : { problem: mismatch(given, batch, worldSize, ranksFrom) };
}

function exact(batch: Batch): BatchAnswer {
  if (Number.isSafeInteger(batch.trainBatch)) return { batch };
  return { problem: `the global batch would be ${batch.trainBatch} samples; wanted less than 2^53` };
}

function mismatch(given: BatchGiven, batch: Batch, worldSize: number, ranksFrom: string): string {
  const { trainBatch, microBatch, gradientAccumulation } = batch;
  const ranks = `${worldSize} ${worldSize === 1 ? "rank" : "ranks"}`;
  const derived = [
    ...(given.microBatch === undefined ? ["train_micro_batch_size_per_gpu was derived"] : []),
    ...(given.gradientAccumulation === undefined ? ["gradient_accumulation_steps was derived"] : []),
  ];
  const note = derived.length === 0 ? "" : ` (${derived.join("; ")})`;
  // What one step takes at least with the values that the user fixed: the batch must be a multiple of it.
  const unit = (given.microBatch ?? 1) * (given.gradientAccumulation ?? 1) * worldSize;
  const fixedThree = given.microBatch !== undefined && given.gradientAccumulation !== undefined;
  const below = Math.floor(trainBatch / unit) * unit;
  const fits = fixedThree ? [unit] : below === 0 ? [unit] : [below, below + unit];
  return (
    `train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size: ` +
    `${trainBatch} != ${microBatch} * ${gradientAccumulation} * ${worldSize}${note}; ` +
    `with ${ranks} (from ${ranksFrom}) write train_batch_size ${fits.join(" or ")}, or start with another number of ranks`
  );
}
