/** Published decoder-only models. Widths from each model's paper or card; parameters are counted from them. */
import { type ArchitectureName, architectures, shapeOf, type Widths } from "./layout.ts";
import type { TransformerShape } from "./shape.ts";

type Row = readonly [name: string, layers: number, hidden: number, heads: number];

interface Family {
  readonly architecture: ArchitectureName;
  readonly vocabulary: number;
  readonly positions: number;
  readonly isTied: boolean;
}

/** Four times the width between the products; every head has its own keys and values. */
const classic = ({ architecture, ...rest }: Family, rows: readonly Row[]): TransformerShape[] =>
  rows.map(([name, layers, hidden, heads]) =>
    shapeOf(name, widthsOf({ ...rest, layers, hidden, heads }), architectures[architecture]),
  );

type GroupedRow = readonly [...Row, keyValueHeads: number, feedForward: number];

const grouped = ({ architecture, ...rest }: Family, rows: readonly GroupedRow[]): TransformerShape[] =>
  rows.map(([name, layers, hidden, heads, keyValueHeads, feedForward]) =>
    shapeOf(
      name,
      { ...widthsOf({ ...rest, layers, hidden, heads }), keyValueHeads, feedForward },
      architectures[architecture],
    ),
  );

const widthsOf = (
  widths: Pick<Widths, "layers" | "hidden" | "heads" | "vocabulary" | "positions" | "isTied">,
): Widths => ({
  ...widths,
  keyValueHeads: widths.heads,
  headWidth: widths.hidden / widths.heads,
  feedForward: 4 * widths.hidden,
});

const gpt2Family: Family = { architecture: "gpt2", vocabulary: 50257, positions: 1024, isTied: true };
const gpt3Family: Family = { ...gpt2Family, positions: 2048 };
const llamaFamily: Family = { architecture: "llama", vocabulary: 32000, positions: 2048, isTied: false };
const llama2Family: Family = { ...llamaFamily, positions: 4096 };
const llama3Family: Family = { ...llamaFamily, vocabulary: 128256, positions: 8192 };
const qwenFamily: Family = { architecture: "qwen2", vocabulary: 151936, positions: 32768, isTied: true };
const largeQwenFamily: Family = { ...qwenFamily, vocabulary: 152064, positions: 131072, isTied: false };

export const publishedShapes: readonly TransformerShape[] = [
  ...classic(gpt2Family, [
    ["gpt2", 12, 768, 12],
    ["gpt2-medium", 24, 1024, 16],
    ["gpt2-large", 36, 1280, 20],
    ["gpt2-xl", 48, 1600, 25],
  ]),
  // Brown et al. 2020, table 2.1; XL's 24 heads of 128 do not make its width, so it has 16 here.
  ...classic(gpt3Family, [
    ["gpt3-small", 12, 768, 12],
    ["gpt3-medium", 24, 1024, 16],
    ["gpt3-large", 24, 1536, 16],
    ["gpt3-xl", 24, 2048, 16],
    ["gpt3-2.7b", 32, 2560, 32],
    ["gpt3-6.7b", 32, 4096, 32],
    ["gpt3-13b", 40, 5120, 40],
    ["gpt3-175b", 96, 12288, 96],
  ]),
  ...classic({ architecture: "opt", vocabulary: 50272, positions: 2048, isTied: true }, [
    ["opt-1.3b", 24, 2048, 32],
    ["opt-6.7b", 32, 4096, 32],
    ["opt-13b", 40, 5120, 40],
    ["opt-30b", 48, 7168, 56],
    ["opt-66b", 64, 9216, 72],
  ]),
  ...classic({ architecture: "gptj", vocabulary: 50400, positions: 2048, isTied: false }, [["gpt-j-6b", 28, 4096, 16]]),
  ...classic({ architecture: "gpt_neox", vocabulary: 50432, positions: 2048, isTied: false }, [
    ["gpt-neox-20b", 44, 6144, 64],
  ]),
  ...classic({ architecture: "bloom", vocabulary: 250880, positions: 2048, isTied: true }, [
    ["bloom-176b", 70, 14336, 112],
  ]),
  ...grouped({ architecture: "falcon", vocabulary: 65024, positions: 2048, isTied: true }, [
    ["falcon-7b", 32, 4544, 71, 1, 18176],
  ]),
  ...grouped(llamaFamily, [
    ["llama-7b", 32, 4096, 32, 32, 11008],
    ["llama-13b", 40, 5120, 40, 40, 13824],
    ["llama-33b", 60, 6656, 52, 52, 17920],
    ["llama-65b", 80, 8192, 64, 64, 22016],
  ]),
  ...grouped(llama2Family, [
    ["llama-2-7b", 32, 4096, 32, 32, 11008],
    ["llama-2-13b", 40, 5120, 40, 40, 13824],
    ["llama-2-70b", 80, 8192, 64, 8, 28672],
  ]),
  ...grouped(llama3Family, [
    ["llama-3-8b", 32, 4096, 32, 8, 14336],
    ["llama-3-70b", 80, 8192, 64, 8, 28672],
  ]),
  ...grouped({ ...llamaFamily, architecture: "mistral", positions: 32768 }, [["mistral-7b", 32, 4096, 32, 8, 14336]]),
  ...grouped(qwenFamily, [
    ["qwen2.5-0.5b", 24, 896, 14, 2, 4864],
    ["qwen2.5-1.5b", 28, 1536, 12, 2, 8960],
    ["qwen2.5-3b", 36, 2048, 16, 2, 11008],
  ]),
  ...grouped(largeQwenFamily, [
    ["qwen2.5-7b", 28, 3584, 28, 4, 18944],
    ["qwen2.5-14b", 48, 5120, 40, 8, 13824],
    ["qwen2.5-32b", 64, 5120, 40, 8, 27648],
    ["qwen2.5-72b", 80, 8192, 64, 8, 29568],
  ]),
];

/** By name, in any case. */
export const publishedShape = (name: string): TransformerShape | undefined =>
  publishedShapes.find((shape) => shape.name === name.toLowerCase());
