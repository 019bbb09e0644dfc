/**
 * Llama and its family (Touvron et al., 2023; Jiang et al., 2023; Qwen, 2024 and 2025) with Hugging Face's tensor names. Units:
 * every block, and the rest (embedding, last norm, head) as the root unit, which runs before the blocks and after them.
 */
import { ShapeError } from "../../errors/errors.ts";
import { checkOptions } from "../../errors/options.ts";
import { type EarlierKeys, groupedAttention } from "../../tensor/ops/attention.ts";
import { add, reshape, row, siluMultiply } from "../../tensor/ops/elementwise.ts";
import { linear } from "../../tensor/ops/linear.ts";
import { headLoss } from "../../tensor/ops/loss.ts";
import { rope } from "../../tensor/ops/rope.ts";
import type { Tape } from "../../tensor/tape.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { KeyValueCache, KeyValueShape } from "../key-value-cache.ts";
import { Embedding, Linear, RmsNorm } from "../layers.ts";
import { Module, ModuleList } from "../module.ts";
import type { Parameter } from "../parameter.ts";
import type { LanguageBatch, LanguageModel } from "./language-model.ts";
import { type LlamaConfig, llamaKinds, shortTextTokens, windowOf } from "./llama-config.ts";
import { isLongText, ropeAngles } from "./rope-angles.ts";

/** A text that grows by one token makes new angles this seldom. */
const placesAtOnce = 256;

class LlamaAttention extends Module {
  readonly q_proj: Linear;
  readonly k_proj: Linear;
  readonly v_proj: Linear;
  readonly o_proj: Linear;
  readonly q_norm?: RmsNorm;
  readonly k_norm?: RmsNorm;
  readonly #config: LlamaConfig;
  readonly #name: string;
  readonly #window: number | undefined;

  constructor(config: LlamaConfig, index: number) {
    super();
    const { hidden, heads, keyValueHeads, headWidth, attentionBias, initializerRange: std, normEpsilon } = config;
    const inner = { bias: attentionBias !== "none", std };
    this.q_proj = new Linear(hidden, heads * headWidth, inner);
    this.k_proj = new Linear(hidden, keyValueHeads * headWidth, inner);
    this.v_proj = new Linear(hidden, keyValueHeads * headWidth, inner);
    this.o_proj = new Linear(heads * headWidth, hidden, { bias: attentionBias === "all", std });
    if (config.normsQueryAndKey) {
      this.q_norm = new RmsNorm(headWidth, normEpsilon);
      this.k_norm = new RmsNorm(headWidth, normEpsilon);
    }
    this.#config = config;
    this.#name = `layers.${index}.attn`;
    this.#window = windowOf(config, index);
  }

  /** @param angles of the places of x @param earlier keys and values of the tokens before x */
  forward(tape: Tape, x: Tensor, angles: Tensor, earlier: EarlierKeys | undefined): Tensor {
    return tape.scope(() => {
      const { heads, keyValueHeads: kvHeads, attentionDropout: dropout } = this.#config;
      const q = this.#turned(tape, this.q_proj.forward(tape, x), this.q_norm, angles);
      const k = this.#turned(tape, this.k_proj.forward(tape, x), this.k_norm, angles);
      const v = this.v_proj.forward(tape, x);
      const seen = { earlier, window: this.#window };
      const mixed = groupedAttention(tape, q, k, v, { heads, kvHeads, dropout, name: this.#name, ...seen });
      return this.o_proj.forward(tape, mixed);
    });
  }

  /** Each head normalised, where this model does, and turned to its place. */
  #turned(tape: Tape, x: Tensor, norm: RmsNorm | undefined, angles: Tensor): Tensor {
    return tape.scope(() => {
      if (!norm) return rope(tape, x, angles);
      const { headWidth } = this.#config;
      const byHead = reshape(tape, x, [x.elements / headWidth, headWidth]);
      return rope(tape, reshape(tape, norm.forward(tape, byHead), x.shape), angles);
    });
  }
}

/** SwiGLU (Shazeer, "GLU variants improve transformer", 2020). */
class LlamaMlp extends Module {
  readonly gate_proj: Linear;
  readonly up_proj: Linear;
  readonly down_proj: Linear;

  constructor({ hidden, feedForward, feedForwardBias: bias, initializerRange: std }: LlamaConfig) {
    super();
    this.gate_proj = new Linear(hidden, feedForward, { bias, std });
    this.up_proj = new Linear(hidden, feedForward, { bias, std });
    this.down_proj = new Linear(feedForward, hidden, { bias, std });
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return tape.scope(() => {
      const gate = this.gate_proj.forward(tape, x);
      return this.down_proj.forward(tape, siluMultiply(tape, gate, this.up_proj.forward(tape, x)));
    });
  }
}

class LlamaBlock extends Module {
  readonly self_attn: LlamaAttention;
  readonly mlp: LlamaMlp;
  readonly input_layernorm: RmsNorm;
  readonly post_attention_layernorm: RmsNorm;

  constructor(config: LlamaConfig, index: number) {
    super();
    this.self_attn = new LlamaAttention(config, index);
    this.mlp = new LlamaMlp(config);
    this.input_layernorm = new RmsNorm(config.hidden, config.normEpsilon);
    this.post_attention_layernorm = new RmsNorm(config.hidden, config.normEpsilon);
  }

  /** x: [batch, seq, hidden]; angles: of the places of x */
  forward(tape: Tape, x: Tensor, angles: Tensor): Tensor {
    return this.forwardAfter(tape, x, angles, undefined);
  }

  /** @param earlier keys and values of the tokens before x */
  forwardAfter(tape: Tape, x: Tensor, angles: Tensor, earlier: EarlierKeys | undefined): Tensor {
    const attended = add(tape, x, this.self_attn.forward(tape, this.input_layernorm.forward(tape, x), angles, earlier));
    return add(tape, attended, this.mlp.forward(tape, this.post_attention_layernorm.forward(tape, attended)));
  }
}

class LlamaStack extends Module {
  readonly embed_tokens: Embedding;
  readonly layers: ModuleList<LlamaBlock>;
  readonly norm: RmsNorm;

  constructor(config: LlamaConfig) {
    super();
    this.embed_tokens = new Embedding(config.vocabularySize, config.hidden, config.initializerRange);
    this.layers = new ModuleList(Array.from({ length: config.layers }, (_, i) => new LlamaBlock(config, i)));
    this.norm = new RmsNorm(config.hidden, config.normEpsilon);
  }
}

export class Llama extends Module implements LanguageModel {
  readonly model: LlamaStack;
  /** The output projection; absent where it is the token embedding (tied). */
  readonly lm_head?: Embedding;
  readonly config: LlamaConfig;
  /** Of the longest sequence of each kind so far. */
  readonly #angles: Record<"short" | "long", Float32Array<ArrayBuffer>> = {
    short: new Float32Array(),
    long: new Float32Array(),
  };

  /** @throws UsageError, ShapeError where heads do not go together */
  constructor(config: LlamaConfig) {
    super();
    checkOptions("Llama", config, llamaKinds);
    const { heads, keyValueHeads, headWidth, vocabularySize, hidden } = config;
    if (heads % keyValueHeads !== 0 || headWidth % 2 !== 0)
      throw new ShapeError(
        "Llama",
        `${heads} heads ${headWidth} wide with ${keyValueHeads} heads of keys and values`,
        "heads of an even width, and a divisor of their number",
      );
    this.config = config;
    this.model = new LlamaStack(config);
    if (!config.tied) this.lm_head = new Embedding(vocabularySize, hidden, config.initializerRange);
  }

  get #headWeight(): Parameter {
    return (this.lm_head ?? this.model.embed_tokens).weight;
  }

  async forward(tape: Tape, batch: LanguageBatch): Promise<Tensor> {
    const { targets } = batch;
    if (!targets) throw new ShapeError("Llama", "a batch without targets", "inputs and targets");
    const x = await this.#hidden(tape, batch.inputs);
    return this.segment(tape, [x], (x) => {
      const normed = this.model.norm.forward(tape, x);
      return headLoss(tape, normed, this.#headWeight, targets);
    });
  }

  async nextLogits(tape: Tape, inputs: Tensor, cache?: KeyValueCache): Promise<Tensor> {
    const x = await this.#hidden(tape, inputs, cache);
    cache?.add(x.rows);
    return this.segment(tape, [x], (x) => {
      const last = this.model.norm.forward(tape, row(tape, x, x.rows - 1));
      return linear(tape, last, this.#headWeight, undefined, { layout: "outIn" });
    });
  }

  get longestSequence(): number {
    return this.config.positions;
  }

  get shortTextTokens(): number | undefined {
    return shortTextTokens(this.config);
  }

  get keyValueShape(): KeyValueShape {
    const { layers, keyValueHeads, headWidth } = this.config;
    return { layers, width: keyValueHeads * headWidth };
  }

  twin(): Llama {
    return new Llama(this.config);
  }

  /** The residual stream after the last block. */
  async #hidden(tape: Tape, inputs: Tensor, cache?: KeyValueCache): Promise<Tensor> {
    const [, seq] = inputs.shape as [number, number];
    if (inputs.shape.length !== 2)
      throw new ShapeError("Llama", `inputs [${inputs.shape.join(", ")}]`, "token ids [batch, seq]");
    const first = cache?.length ?? 0;
    const textTokens = cache?.textTokens(seq) ?? seq;
    this.#checkLength(first + seq);
    if (first > 0) this.#checkGrowth(cache!.textTokens(0), textTokens);
    const angles = this.#anglesOn(tape, first, seq, textTokens);
    let x = await this.segment(tape, [], () => this.model.embed_tokens.forward(tape, inputs));
    for (const [i, block] of this.model.layers.modules.entries())
      x = cache
        ? await block.segment(tape, [x, angles], (x, angles) => block.forwardAfter(tape, x, angles, cache.layer(i)))
        : await block.run(tape, x, angles);
    return x;
  }

  #checkLength(seq: number): void {
    const { positions } = this.config;
    if (seq <= positions) return;
    const wanted = `at most ${positions}, the model's positions (--seq-length)`;
    throw new ShapeError("Llama", `a sequence of ${seq} tokens`, wanted);
  }

  /** Keys that were turned as those of a short text are no part of a long one. */
  #checkGrowth(before: number, after: number): void {
    if (isLongText(this.config, before) === isLongText(this.config, after)) return;
    throw new ShapeError(
      "Llama",
      `a text that grows from ${before} tokens to ${after} in a cache`,
      `the whole text anew, in passes after clear(${after}): beyond ${this.shortTextTokens} tokens longrope turns every position otherwise`,
    );
  }

  /** Made once a pass, for all blocks. */
  #anglesOn(tape: Tape, first: number, seq: number, textTokens: number): Tensor {
    const { headWidth } = this.config;
    const end = first + seq;
    const kind = isLongText(this.config, textTokens) ? "long" : "short";
    if (this.#angles[kind].length < end * headWidth) {
      const places = Math.ceil(end / placesAtOnce) * placesAtOnce;
      this.#angles[kind] = ropeAngles(this.config, places, textTokens);
    }
    const angles = tape.make([seq, headWidth], "f32");
    tape.device.upload(angles.span, this.#angles[kind].subarray(first * headWidth, end * headWidth));
    return angles;
  }
}
