/** The GPT of a given size: depth and heads of the nearest published one, and the width that comes nearest to the size. */
import { UsageError } from "../errors/errors.ts";
import { architectures, countParameters, type Widths } from "./layout.ts";
import type { TransformerShape } from "./shape.ts";

interface Depth {
  readonly parameters: number;
  readonly layers: number;
  readonly heads: number;
  readonly headWidth: number;
  readonly source: string;
}

/**
 * GPT-2 (Radford et al. 2019, table 2); GPT-3 (Brown et al. 2020, table 2.1); Korthikanti et al. 2022, table 3 (22B, 530B, 1T); ZeRO
 * (Rajbhandari et al., SC20, table 4 and figure 3); ZeRO-Infinity (Rajbhandari et al., SC21, tables 1 and 2).
 */
const depths: readonly Depth[] = [
  { parameters: 124e6, layers: 12, heads: 12, headWidth: 64, source: "GPT-2" },
  { parameters: 355e6, layers: 24, heads: 16, headWidth: 64, source: "GPT-2 Medium" },
  { parameters: 774e6, layers: 36, heads: 20, headWidth: 64, source: "GPT-2 Large" },
  { parameters: 1.56e9, layers: 48, heads: 25, headWidth: 64, source: "GPT-2 XL" },
  { parameters: 2.65e9, layers: 32, heads: 32, headWidth: 80, source: "GPT-3 2.7B" },
  { parameters: 6.7e9, layers: 32, heads: 32, headWidth: 128, source: "GPT-3 6.7B" },
  { parameters: 13e9, layers: 40, heads: 40, headWidth: 128, source: "GPT-3 13B" },
  { parameters: 22e9, layers: 48, heads: 64, headWidth: 96, source: "Megatron's 22B" },
  { parameters: 40e9, layers: 88, heads: 48, headWidth: 128, source: "ZeRO's 40B" },
  { parameters: 60e9, layers: 75, heads: 64, headWidth: 128, source: "ZeRO's 60B" },
  { parameters: 80e9, layers: 100, heads: 64, headWidth: 128, source: "ZeRO's 80B" },
  { parameters: 100e9, layers: 125, heads: 64, headWidth: 128, source: "ZeRO's 100B" },
  { parameters: 175e9, layers: 96, heads: 96, headWidth: 128, source: "GPT-3 175B" },
  { parameters: 530e9, layers: 105, heads: 128, headWidth: 160, source: "Megatron's 530B" },
  { parameters: 1e12, layers: 128, heads: 160, headWidth: 160, source: "Megatron's 1T" },
  { parameters: 10e12, layers: 200, heads: 512, headWidth: 128, source: "ZeRO-Infinity's 10T" },
  { parameters: 100e12, layers: 315, heads: 1024, headWidth: 160, source: "ZeRO-Infinity's 100T" },
];

const vocabulary = 50257;
/** GPT-2's positions up to this size, GPT-3's from there. */
const gpt3FromParameters = 2e9;

export interface SizedShape extends TransformerShape {
  /** What the shape as laid out really has: near to `parameters`, which is what was asked for. */
  readonly laidOutParameters: number;
}

/** Errors: UsageError where `parameters` is no positive number. */
export function shapeForParameters(parameters: number): SizedShape {
  if (!(Number.isFinite(parameters) && parameters >= 1))
    throw new UsageError(`parameters: found ${parameters}; wanted a positive number, such as 1.5e9`);
  const distance = (depth: Depth): number => Math.abs(Math.log(depth.parameters / parameters));
  const depth = depths.reduce((nearest, other) => (distance(other) < distance(nearest) ? other : nearest));
  const widths = nearestWidths(depth, parameters);
  const { layers, hidden, heads, keyValueHeads, feedForward, positions } = widths;
  return {
    name: `a GPT of ${sizeText(parameters)} parameters: ${layers} layers (${depth.source}'s depth), ${hidden} wide, ${heads} ${heads === 1 ? "head" : "heads"}`,
    parameters,
    laidOutParameters: countParameters(widths, architectures.gpt2),
    layers,
    hidden,
    heads,
    keyValueHeads,
    feedForward,
    isGated: false,
    vocabulary,
    positions,
    isTied: true,
    hasDropout: true,
  };
}

/** "1.5e9", "13e9", "124439808". */
const sizeText = (parameters: number): string => {
  const exponent = 3 * Math.floor(Math.log10(parameters) / 3);
  const mantissa = Number((parameters / 10 ** exponent).toPrecision(12));
  return exponent < 6 || String(mantissa).length > 5 ? String(parameters) : `${mantissa}e${exponent}`;
};

/** A published shape as near as this is taken as it is. */
const nearEnough = 0.05;

/** Else as many heads of the published width as come nearest. */
function nearestWidths({ layers, heads: published, headWidth }: Depth, parameters: number): Widths {
  const positions = parameters < gpt3FromParameters ? 1024 : 2048;
  const of = (heads: number): Widths => ({
    layers,
    hidden: heads * headWidth,
    heads,
    keyValueHeads: heads,
    headWidth,
    feedForward: 4 * heads * headWidth,
    vocabulary,
    positions,
    isTied: true,
  });
  const miss = (heads: number): number => Math.abs(countParameters(of(heads), architectures.gpt2) - parameters);
  if (miss(published) <= nearEnough * parameters) return of(published);
  // Without embeddings a GPT has 12 x layers x hidden² parameters, so this many heads are always enough.
  let heads = Math.max(1, Math.ceil(Math.sqrt(parameters / (12 * layers)) / headWidth));
  while (heads > 1 && miss(heads - 1) <= miss(heads)) heads--;
  return of(heads);
}
