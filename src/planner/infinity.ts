/**
 * ZeRO-Infinity's formulas (Rajbhandari et al., SC21, sections 3 and 4): what a GPT needs of memory, and of bandwidth. Model states
 * are counted with 20 bytes for a parameter here: its fp32 gradients live through the step.
 */
export interface GptShape {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly sequence: number;
  /** Blocks between two activation checkpoints. */
  readonly checkpointInterval: number;
}

/** 12 nl hd². */
export const gptParameters = ({ layers, hidden }: Pick<GptShape, "layers" | "hidden">): number =>
  12 * layers * hidden ** 2;

/** Bytes. */
export interface Requirements {
  /** 240 nl hd², of all ranks together. */
  readonly modelStates: number;
  /** Of what a block keeps for its backward pass, of all blocks. */
  readonly activations: number;
  /** Inputs of every `checkpointInterval`-th block. */
  readonly checkpoints: number;
  /** Parameters and gradients of the largest product, which must be on a device at once. */
  readonly modelStateWorkingMemory: number;
  /** Activations between two checkpoints, which are made again in the backward pass. */
  readonly activationWorkingMemory: number;
}

/** @param batch samples; the paper gives activations of a node's batch, and working memory of one device's */
export function infinityRequirements(shape: GptShape, batch: number): Requirements {
  const { layers, hidden, heads, sequence, checkpointInterval } = shape;
  const tokens = batch * sequence;
  const blockActivations = tokens * (16 * hidden + 2 * heads * sequence);
  return {
    modelStates: 20 * gptParameters(shape),
    activations: layers * blockActivations,
    checkpoints: (2 * tokens * hidden * layers) / checkpointInterval,
    modelStateWorkingMemory: 4 * hidden * 4 * hidden,
    activationWorkingMemory: checkpointInterval * blockActivations,
  };
}

export type MovedData = "parametersAndGradients" | "optimizerStates" | "checkpoints";

/**
 * Operations for each byte that moves in a step. A step computes 8 operations for a parameter and token (activations are computed
 * twice) and moves 8 bytes for each parameter of parameters and gradients (three loads, one store), 32 of optimizer states (read and
 * written), and its checkpoints twice.
 * @param batch samples of a rank
 */
export const arithmeticIntensity: Readonly<Record<MovedData, (shape: GptShape, batch: number) => number>> = {
  parametersAndGradients: ({ sequence }, batch) => sequence * batch,
  optimizerStates: ({ sequence }, batch) => (sequence * batch) / 4,
  checkpoints: ({ hidden, checkpointInterval }) => 24 * hidden * checkpointInterval,
};

/** The peak that the paper counts a V100 with, in operations per second. */
export const infinityPeak = 70e12;

/** The share of the peak that is left where transfers and compute take turns: ait bw / (ait bw + peak). */
export const efficiencyAt = (intensity: number, bytesPerSecond: number, peak: number): number =>
  (intensity * bytesPerSecond) / (intensity * bytesPerSecond + peak);

/** Bytes per second for an efficiency above 0 and below 1. @throws RangeError */
export function bandwidthFor(efficiency: number, intensity: number, peak: number): number {
  if (!(efficiency > 0 && efficiency < 1))
    throw new RangeError(`efficiency must lie between 0 and 1, not ${efficiency}`);
  return ((efficiency / (1 - efficiency)) * peak) / intensity;
}
