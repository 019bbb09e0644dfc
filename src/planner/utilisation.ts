/** Operations of training and the share of a device's peak they come to: MFU (the model's operations) and HFU (recomputation too). */

export interface GptWork {
  readonly layers: number;
  readonly hidden: number;
  /** Tokens of a sample. */
  readonly sequence: number;
  readonly vocabulary: number;
  /** Samples of a step. */
  readonly batch: number;
}

/** What is computed twice: nothing, attention's scores and probabilities, or every layer. */
export type Recomputation = "none" | "selective" | "full";

/** Operations of a step of a GPT, by Korthikanti et al. 2022 (appendix A): products only, attention not halved for being causal. */
export function stepOperations({ layers, hidden, sequence, vocabulary, batch }: GptWork, again: Recomputation): number {
  const products = 72 * batch * layers * sequence * hidden ** 2;
  const attention = sequence / (6 * hidden);
  const head = vocabulary / (12 * hidden * layers);
  // A pass backward is two forward, so that one forward pass more is a third of all: of every layer, or of attention's part.
  const layerPasses: Readonly<Record<Recomputation, number>> = {
    none: 1 + attention,
    selective: 1 + 2 * attention,
    full: (4 / 3) * (1 + attention),
  };
  return products * (layerPasses[again] + head);
}

export interface TokenWork {
  readonly parameters: number;
  readonly layers: number;
  readonly hidden: number;
  readonly sequence: number;
  /** Reports differ: only half of the scores of causal attention are needed. */
  readonly attention: "whole" | "causalHalf";
}

/** Operations of training on one token: 6N + 12 L d s (PaLM, appendix B; llm-foundry's benchmarks), or with half the attention 6N + 6 L d s. */
export const tokenOperations = ({ parameters, layers, hidden, sequence, attention }: TokenWork): number =>
  6 * parameters + (attention === "whole" ? 12 : 6) * layers * hidden * sequence;

/** A share, from 0 to 1. @param operationsPerSecond of all ranks @param peak of one device */
export const utilisation = (operationsPerSecond: number, ranks: number, peak: number): number =>
  operationsPerSecond / (ranks * peak);

/** Days to train on so many tokens. @param reached operations per second of one rank */
export const trainingDays = (tokens: number, operationsPerToken: number, ranks: number, reached: number): number =>
  (tokens * operationsPerToken) / (ranks * reached) / 86_400;
