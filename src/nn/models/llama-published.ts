/** Published sizes of Llama's family, to train from scratch: widths and positions as the config.json beside their weights has them. */
import type { LlamaConfig } from "./llama-config.ts";

const llama = {
  architecture: "llama",
  vocabularySize: 32000,
  positions: 2048,
  normEpsilon: 1e-5,
  initializerRange: 0.02,
  attentionDropout: 0,
  attentionBias: "none",
  feedForwardBias: false,
  normsQueryAndKey: false,
  ropeTheta: 10000,
  ropeScaling: undefined,
  slidingWindow: undefined,
  tied: false,
  specialTokens: { bos_token_id: 1, eos_token_id: 2 },
} as const;

const llama3 = {
  ...llama,
  vocabularySize: 128256,
  positions: 8192,
  ropeTheta: 500000,
  specialTokens: { bos_token_id: 128000, eos_token_id: 128001 },
} as const;
const llama31Scaling = {
  type: "llama3",
  factor: 8,
  lowFrequencyFactor: 1,
  highFrequencyFactor: 4,
  originalPositions: 8192,
} as const;
const llama31 = { ...llama3, positions: 131072, ropeScaling: llama31Scaling } as const;
const llama32 = { ...llama31, ropeScaling: { ...llama31Scaling, factor: 32 }, tied: true } as const;
const mistral = { ...llama, architecture: "mistral", positions: 32768 } as const;
const smollm = {
  ...llama,
  vocabularySize: 49152,
  tied: true,
  specialTokens: { bos_token_id: 0, eos_token_id: 0 },
} as const;
const smollm2 = { ...smollm, positions: 8192, ropeTheta: 100000 } as const;
const qwen25 = {
  ...llama,
  architecture: "qwen2",
  vocabularySize: 151936,
  positions: 32768,
  normEpsilon: 1e-6,
  attentionBias: "queryKeyValue",
  ropeTheta: 1000000,
  tied: true,
  specialTokens: { bos_token_id: 151643, eos_token_id: 151643 },
} as const;
const largeQwen25 = { ...qwen25, vocabularySize: 152064, positions: 131072, normEpsilon: 1e-5, tied: false } as const;
const qwen3 = { ...qwen25, architecture: "qwen3", attentionBias: "none", normsQueryAndKey: true } as const;

/** @param headWidth hidden / heads where it is left out */
function sized(
  family: Omit<LlamaConfig, "layers" | "hidden" | "heads" | "keyValueHeads" | "headWidth" | "feedForward">,
  [layers, hidden, heads, keyValueHeads, feedForward]: readonly [number, number, number, number, number],
  headWidth = hidden / heads,
): LlamaConfig {
  return { ...family, layers, hidden, heads, keyValueHeads, headWidth, feedForward };
}

export const llamaConfigs: Readonly<Record<string, LlamaConfig>> = {
  "llama-2-7b": sized({ ...llama, positions: 4096 }, [32, 4096, 32, 32, 11008]),
  "llama-2-13b": sized({ ...llama, positions: 4096 }, [40, 5120, 40, 40, 13824]),
  "llama-2-70b": sized({ ...llama, positions: 4096 }, [80, 8192, 64, 8, 28672]),
  "llama-3-8b": sized(llama3, [32, 4096, 32, 8, 14336]),
  "llama-3-70b": sized(llama3, [80, 8192, 64, 8, 28672]),
  "llama-3.1-8b": sized(llama31, [32, 4096, 32, 8, 14336]),
  "llama-3.1-70b": sized(llama31, [80, 8192, 64, 8, 28672]),
  "llama-3.2-1b": sized(llama32, [16, 2048, 32, 8, 8192]),
  "llama-3.2-3b": sized(llama32, [28, 3072, 24, 8, 8192]),
  // Version 0.1, whose layers see 4096 tokens.
  "mistral-7b": sized({ ...mistral, slidingWindow: { tokens: 4096, fromLayer: 0 } }, [32, 4096, 32, 8, 14336]),
  "tinyllama-1.1b": sized(llama, [22, 2048, 32, 4, 5632]),
  "smollm-135m": sized(smollm, [30, 576, 9, 3, 1536]),
  "smollm-360m": sized(smollm, [32, 960, 15, 5, 2560]),
  "smollm-1.7b": sized(smollm, [24, 2048, 32, 32, 8192]),
  "smollm2-135m": sized(smollm2, [30, 576, 9, 3, 1536]),
  "smollm2-360m": sized(smollm2, [32, 960, 15, 5, 2560]),
  "smollm2-1.7b": sized({ ...smollm2, ropeTheta: 130000 }, [24, 2048, 32, 32, 8192]),
  "qwen2.5-0.5b": sized(qwen25, [24, 896, 14, 2, 4864]),
  "qwen2.5-1.5b": sized(qwen25, [28, 1536, 12, 2, 8960]),
  "qwen2.5-3b": sized(qwen25, [36, 2048, 16, 2, 11008]),
  "qwen2.5-7b": sized({ ...largeQwen25, normEpsilon: 1e-6 }, [28, 3584, 28, 4, 18944]),
  "qwen2.5-14b": sized(largeQwen25, [48, 5120, 40, 8, 13824]),
  "qwen2.5-32b": sized(largeQwen25, [64, 5120, 40, 8, 27648]),
  "qwen2.5-72b": sized(largeQwen25, [80, 8192, 64, 8, 29568]),
  "qwen3-0.6b": sized(qwen3, [28, 1024, 16, 8, 3072], 128),
  "qwen3-1.7b": sized(qwen3, [28, 2048, 16, 8, 6144], 128),
  "qwen3-4b": sized(qwen3, [36, 2560, 32, 8, 9728], 128),
  "qwen3-8b": sized({ ...qwen3, tied: false }, [36, 4096, 32, 8, 12288], 128),
  "qwen3-14b": sized({ ...qwen3, tied: false }, [40, 5120, 40, 8, 17408], 128),
  "qwen3-32b": sized({ ...qwen3, tied: false }, [64, 5120, 64, 8, 25600], 128),
};
