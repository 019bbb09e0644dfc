/** The targets of a step: whether what its micro-batches held is what their losses were divided by. All ranks find the same. */
import { UsageError } from "../errors/errors.ts";

/** How many numbers a rank tells of its step. */
export const toldNumbers = 4;

export class TargetBook {
  #stepTargets: number | undefined;
  #counts: number[] = [];

  /**
   * A micro-batch begins. @param first of its step @param stepTargets as the caller gave it, checked @throws UsageError where it is
   * not that of the micro-batch before
   */
  begin(first: boolean, stepTargets: number | undefined): void {
    if (first) {
      this.#counts = [];
      this.#stepTargets = stepTargets;
    } else if (stepTargets !== this.#stepTargets)
      throw new UsageError(
        `engine.forward: found stepTargets ${stepTargets} after ${this.#stepTargets}; wanted one number for all micro-batches of a step`,
      );
  }

  /** Targets of the micro-batch that has run. */
  note(count: number): void {
    this.#counts.push(count);
  }

  /** What this rank tells the others. */
  get told(): readonly number[] {
    const sum = this.#counts.reduce((a, b) => a + b, 0);
    return [this.#stepTargets ?? 0, sum, Math.min(...this.#counts), Math.max(...this.#counts)];
  }

  /**
   * @param told by each rank, in order @returns how many targets the step has
   * @throws UsageError where the loss would not be the mean over them
   */
  check(told: readonly Float64Array[], step: number): number {
    const [first] = told.map(([stepTargets]) => stepTargets!);
    const other = told.findIndex(([stepTargets]) => stepTargets !== first);
    if (other !== -1)
      throw new UsageError(
        `step ${step}: rank 0 was told of ${first} stepTargets and rank ${other} of ${told[other]![0]}; wanted one number on all ranks`,
      );
    const sum = told.reduce((total, [, count]) => total + count!, 0);
    if (first! > 0 && sum !== first)
      throw new UsageError(
        `step ${step}: engine.forward was told of ${first} stepTargets, and the micro-batches of all ranks held ${sum}; wanted their number`,
      );
    const least = Math.min(...told.map((numbers) => numbers[2]!));
    const most = Math.max(...told.map((numbers) => numbers[3]!));
    if (first === 0 && least !== most)
      throw new UsageError(
        `step ${step}: its micro-batches have ${least} to ${most} targets that count, so the mean of their losses is not the mean over the ` +
          "targets; give each engine.forward(batch, { stepTargets }) the number of targets in all micro-batches of all ranks",
      );
    return sum;
  }
}
