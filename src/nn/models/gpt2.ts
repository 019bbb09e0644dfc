/**
 * GPT-2 (Radford et al. 2019) with Hugging Face's tensor names. Units: every block, and the rest (embeddings, last norm, head)
 * as the root unit, which runs twice: before the blocks and after them.
 */
import { ShapeError } from "../../errors/errors.ts";
import { checkOptions } from "../../errors/options.ts";
import type { EarlierKeys } from "../../tensor/ops/attention.ts";
import { add, dropout, row } from "../../tensor/ops/elementwise.ts";

import { linear } from "../../tensor/ops/linear.ts";
import { headLoss } from "../../tensor/ops/loss.ts";
import type { Tape } from "../../tensor/tape.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { KeyValueCache, KeyValueShape } from "../key-value-cache.ts";
import { CausalSelfAttention, Embedding, LayerNorm, Mlp } from "../layers.ts";
import { Module, ModuleList } from "../module.ts";
import type { Parameter } from "../parameter.ts";
import { type Gpt2Config, gpt2Kinds } from "./gpt2-config.ts";
import type { LanguageBatch, LanguageModel } from "./language-model.ts";

export type { LanguageBatch } from "./language-model.ts";

/** `first` to first + seq - 1, for every sequence of a batch. */
function placesOf(batch: number, seq: number, first: number): Int32Array {
  const places = new Int32Array(batch * seq);
  for (let i = 0; i < places.length; i++) places[i] = first + (i % seq);
  return places;
}

export class Gpt2Block extends Module {
  readonly ln_1: LayerNorm;
  readonly attn: CausalSelfAttention;
  readonly ln_2: LayerNorm;
  readonly mlp: Mlp;

  constructor(config: Gpt2Config, index: number) {
    super();
    const { hidden, heads, layerNormEpsilon, residualDropout, attentionDropout } = config;
    const std = config.initializerRange;
    const projectionStd = std / Math.sqrt(2 * config.layers);
    const shared = { hidden, layout: "inOut", std, projectionStd, residualDropout, name: `h.${index}` } as const;
    this.ln_1 = new LayerNorm(hidden, layerNormEpsilon);
    this.attn = new CausalSelfAttention({ ...shared, heads, attentionDropout });
    this.ln_2 = new LayerNorm(hidden, layerNormEpsilon);
    this.mlp = new Mlp(shared);
  }

  /** x: [batch, seq, hidden] */
  forward(tape: Tape, x: Tensor): Tensor {
    return this.forwardAfter(tape, x, undefined);
  }

  /** @param earlier keys and values of the tokens before x */
  forwardAfter(tape: Tape, x: Tensor, earlier: EarlierKeys | undefined): Tensor {
    const attended = add(tape, x, this.attn.forwardAfter(tape, this.ln_1.forward(tape, x), earlier));
    return add(tape, attended, this.mlp.forward(tape, this.ln_2.forward(tape, attended)));
  }
}

class Gpt2Transformer extends Module {
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly h: ModuleList<Gpt2Block>;
  readonly ln_f: LayerNorm;

  constructor(config: Gpt2Config) {
    super();
    this.wte = new Embedding(config.vocabularySize, config.hidden, config.initializerRange);
    this.wpe = new Embedding(config.positions, config.hidden, config.initializerRange);
    this.h = new ModuleList(Array.from({ length: config.layers }, (_, i) => new Gpt2Block(config, i)));
    this.ln_f = new LayerNorm(config.hidden, config.layerNormEpsilon);
  }
}

export class Gpt2 extends Module implements LanguageModel {
  readonly transformer: Gpt2Transformer;
  /** The output projection; absent where it is the token embedding (tied). */
  readonly lm_head?: Embedding;
  readonly config: Gpt2Config;

  /** @throws UsageError, ShapeError where the width is not a multiple of the heads */
  constructor(config: Gpt2Config) {
    super();
    checkOptions("Gpt2", config, gpt2Kinds);
    if (config.hidden % config.heads !== 0)
      throw new ShapeError("Gpt2", `a width of ${config.hidden} with ${config.heads} heads`, "a multiple of the heads");
    this.config = config;
    this.transformer = new Gpt2Transformer(config);
    if (!config.tied) this.lm_head = new Embedding(config.vocabularySize, config.hidden, config.initializerRange);
  }

  get #headWeight(): Parameter {
    return (this.lm_head ?? this.transformer.wte).weight;
  }

  async forward(tape: Tape, batch: LanguageBatch): Promise<Tensor> {
    const { targets } = batch;
    if (!targets) throw new ShapeError("Gpt2", "a batch without targets", "inputs and targets");
    const x = await this.#hidden(tape, batch.inputs);
    return this.segment(tape, [x], (x) => {
      const normed = this.transformer.ln_f.forward(tape, x);
      return headLoss(tape, normed, this.#headWeight, targets);
    });
  }

  async nextLogits(tape: Tape, inputs: Tensor, cache?: KeyValueCache): Promise<Tensor> {
    const x = await this.#hidden(tape, inputs, cache);
    cache?.add(x.rows);
    return this.segment(tape, [x], (x) => {
      const last = this.transformer.ln_f.forward(tape, row(tape, x, x.rows - 1));
      return linear(tape, last, this.#headWeight, undefined, { layout: "outIn" });
    });
  }

  get longestSequence(): number {
    return this.config.positions;
  }

  get keyValueShape(): KeyValueShape {
    return { layers: this.config.layers, width: this.config.hidden };
  }

  twin(): Gpt2 {
    return new Gpt2(this.config);
  }

  /** The residual stream after the last block. */
  async #hidden(tape: Tape, inputs: Tensor, cache?: KeyValueCache): Promise<Tensor> {
    const [batch, seq] = inputs.shape as [number, number];
    if (inputs.shape.length !== 2)
      throw new ShapeError("Gpt2", `inputs [${inputs.shape.join(", ")}]`, "token ids [batch, seq]");
    const { positions, embeddingDropout } = this.config;
    const first = cache?.length ?? 0;
    if (first + seq > positions)
      throw new ShapeError(
        "Gpt2",
        `a sequence of ${first + seq} tokens`,
        `at most ${positions}, the model's positions (--seq-length)`,
      );
    let x = await this.segment(tape, [], () => {
      const places = tape.integers(placesOf(batch, seq, first), [batch, seq]);
      const tokens = this.transformer.wte.forward(tape, inputs);
      return dropout(tape, this.transformer.wpe.forward(tape, places, tokens), embeddingDropout, "embd");
    });
    for (const [i, block] of this.transformer.h.modules.entries())
      x = cache
        ? await block.segment(tape, [x], (x) => block.forwardAfter(tape, x, cache.layer(i)))
        : await block.run(tape, x);
    return x;
  }
}
