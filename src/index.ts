/** Public names. */
export { type AdapterFolder, openAdapterFolder, withAdapter } from "./checkpoint/adapter-folder.ts";
export { type ModelFolder, openModelFolder } from "./checkpoint/huggingface.ts";
export { type AdapterOfEngine, saveAdapter, saveModel } from "./checkpoint/save-model.ts";
export { type SavedCheckpoint, type SaveOptions, saveCheckpoint } from "./checkpoint/save-training.ts";
export { type ConfigInput, defineConfig, type ParameterGroupInput } from "./config/define.ts";
export type { Precision, ResolvedConfig, Stage } from "./config/types.ts";
export * from "./errors/errors.ts";
export { type OpenGeneratorOptions, openGenerator } from "./generation/open-generator.ts";
export { type GenerateOptions, type GenerationEnd, TextGenerator } from "./generation/text-generator.ts";
export { downloadModel } from "./hub/download.ts";
export type { FetchTeller } from "./hub/fetch-model.ts";
export { type InitializeOptions, initialize } from "./launch/initialize.ts";
export { joinWorld, type World, type WorldOptions } from "./launch/world.ts";
export { KeyValueCache, type KeyValueShape } from "./nn/key-value-cache.ts";
export * from "./nn/layers.ts";
export { Gpt2 } from "./nn/models/gpt2.ts";
export { type Gpt2Config, type Gpt2Name, gpt2Configs } from "./nn/models/gpt2-config.ts";
export type { LanguageBatch, LanguageModel } from "./nn/models/language-model.ts";
export { Llama } from "./nn/models/llama.ts";
export type { LlamaConfig } from "./nn/models/llama-config.ts";
export { createModel, type ModelConfig, modelConfigs } from "./nn/models/models.ts";
export { Module, ModuleList } from "./nn/module.ts";
export { type Initialiser, Parameter } from "./nn/parameter.ts";
export type { Plan } from "./plan/plan.ts";
export * from "./planner/activation-formulas.ts";
export * from "./planner/infinity.ts";
export * from "./planner/offload-time.ts";
export * from "./planner/utilisation.ts";
export { zeroStageMemory } from "./planner/zero-formulas.ts";
export { causalAttention, groupedAttention } from "./tensor/ops/attention.ts";
export { add, dropout, gelu, multiply, reshape, scale, siluMultiply } from "./tensor/ops/elementwise.ts";
export { embedding } from "./tensor/ops/embedding.ts";
export { linear } from "./tensor/ops/linear.ts";
export { headLoss } from "./tensor/ops/loss.ts";
export { layerNorm, rmsNorm } from "./tensor/ops/norm.ts";
export { rope } from "./tensor/ops/rope.ts";
export { Tape } from "./tensor/tape.ts";
export { Tensor } from "./tensor/tensor.ts";
export { type ChatMessage, type ChatOptions, type ChatText, renderAnswers, renderChat } from "./tokenizer/chat.ts";
export {
  byteTokenizer,
  type DecodeOptions,
  type EncodeOptions,
  openTokenizer,
  type Tokenizer,
  type TokenizerSettings,
  type TokenStream,
} from "./tokenizer/tokenizer.ts";
export type { ForwardOptions, HostBatch, HostTensor, Loss } from "./zero/batch.ts";
export { Engine } from "./zero/engine.ts";
export { type Forecast, forecast } from "./zero/forecast.ts";
export type { HeldModel } from "./zero/hold.ts";
export type { RankReport, StepRecord } from "./zero/record.ts";
