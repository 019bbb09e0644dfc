/** The angles of rotary positions: how fast each pair of a head turns, and the published rules for longer texts. */
import { type LlamaConfig, type RopeScaling, shortTextTokens } from "./llama-config.ts";

interface Frequencies {
  /** Radians per place, of each pair. */
  readonly perPlace: readonly number[];
  /** What cosines and sines are multiplied with. */
  readonly factor: number;
}

/**
 * Cosines of all pairs and then their sines, of places 0 to `places` - 1: [places, headWidth]. Frequencies and angles are rounded
 * to fp32, as they were where the published weights were trained: at far places that is a part of the angle.
 * @param textTokens of the text that the places are in
 */
export function ropeAngles(config: LlamaConfig, places: number, textTokens: number): Float32Array<ArrayBuffer> {
  const { perPlace, factor } = frequenciesOf(config, isLongText(config, textTokens));
  const half = perPlace.length;
  const angles = new Float32Array(places * 2 * half);
  const frequencies = Float32Array.from(perPlace);
  for (let place = 0; place < places; place++)
    for (let pair = 0; pair < half; pair++) {
      const angle = Math.fround(place * frequencies[pair]!);
      angles[place * 2 * half + pair] = Math.cos(angle) * factor;
      angles[place * 2 * half + half + pair] = Math.sin(angle) * factor;
    }
  return angles;
}

/** Whether the rule has other frequencies for a text of so many tokens than for short ones. */
export const isLongText = (config: LlamaConfig, textTokens: number): boolean =>
  textTokens > (shortTextTokens(config) ?? textTokens);

function frequenciesOf({ headWidth, ropeTheta, ropeScaling }: LlamaConfig, isLong: boolean): Frequencies {
  const perPlace = Array.from({ length: headWidth / 2 }, (_, pair) => ropeTheta ** ((-2 * pair) / headWidth));
  switch (ropeScaling?.type) {
    case undefined:
    case "dynamic":
      return { perPlace, factor: 1 };
    case "linear":
      return { perPlace: perPlace.map((f) => f / ropeScaling.factor), factor: 1 };
    case "llama3":
      return { perPlace: perPlace.map((f) => llama3Frequency(f, ropeScaling)), factor: 1 };
    case "yarn": {
      const share = yarnShares(ropeScaling, headWidth, ropeTheta);
      const scaled = perPlace.map((f, pair) => f * share[pair]! + (f / ropeScaling.factor) * (1 - share[pair]!));
      return { perPlace: scaled, factor: ropeScaling.attentionFactor };
    }
    case "longrope": {
      const by = isLong ? ropeScaling.longFactors : ropeScaling.shortFactors;
      return { perPlace: perPlace.map((f, pair) => f / by[pair]!), factor: ropeScaling.attentionFactor };
    }
  }
}

/** Llama 3.1: short waves stay, those longer than the original positions allow are stretched, and between them it fades. */
function llama3Frequency(frequency: number, scaling: RopeScaling & { readonly type: "llama3" }): number {
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalPositions } = scaling;
  const waves = (originalPositions * frequency) / (2 * Math.PI);
  if (waves > highFrequencyFactor) return frequency;
  if (waves < lowFrequencyFactor) return frequency / factor;
  const smooth = (waves - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
  return ((1 - smooth) * frequency) / factor + smooth * frequency;
}

/** YaRN (Peng et al., 2023, section 3.2): the share of its own frequency that each pair keeps, a ramp over pairs. */
function yarnShares(
  scaling: RopeScaling & { readonly type: "yarn" },
  headWidth: number,
  theta: number,
): readonly number[] {
  const pairOf = (rotations: number): number =>
    (headWidth * Math.log(scaling.originalPositions / (rotations * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(Math.floor(pairOf(scaling.betaFast)), 0);
  const high = Math.min(Math.ceil(pairOf(scaling.betaSlow)), headWidth - 1);
  const width = high === low ? 0.001 : high - low;
  return Array.from({ length: headWidth / 2 }, (_, pair) => 1 - Math.min(1, Math.max(0, (pair - low) / width)));
}
