// The models that laws are tried on. Each is made from plain data, so that a rank process can be told which one to build.
import { LayerNorm, Linear } from "../../src/nn/layers.ts";
import { Gpt2, type LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { Gpt2Config } from "../../src/nn/models/gpt2-config.ts";
import { Llama } from "../../src/nn/models/llama.ts";
import type { LlamaConfig } from "../../src/nn/models/llama-config.ts";
import { Module } from "../../src/nn/module.ts";
import { Parameter } from "../../src/nn/parameter.ts";
import { add } from "../../src/tensor/ops/elementwise.ts";
import { embedding } from "../../src/tensor/ops/embedding.ts";
import { headLoss } from "../../src/tensor/ops/loss.ts";
import type { Tape } from "../../src/tensor/tape.ts";
import type { Tensor } from "../../src/tensor/tensor.ts";
import type { EngineOptions } from "../../src/zero/engine.ts";

export type LawModel = EngineOptions<LanguageBatch>["model"];

export type ModelSpec =
  | { readonly kind: "gpt2"; readonly config: Gpt2Config }
  | { readonly kind: "llama"; readonly config: LlamaConfig }
  /** One block run several times, and a branch that every second micro-batch leaves out. */
  | { readonly kind: "shared"; readonly hidden: number; readonly vocabulary: number; readonly runs: number }
  /** Tensors smaller than the world, frozen ones, one that is never used, one that two units use. */
  | { readonly kind: "odd"; readonly hidden: number; readonly vocabulary: number }
  /** Two blocks that rank 1 runs in the other order. */
  | { readonly kind: "crossed"; readonly hidden: number; readonly vocabulary: number }
  /** Reads a block's parameter outside the block, from the second pass on. */
  | { readonly kind: "peeking"; readonly hidden: number; readonly vocabulary: number };

/** A GPT-2 that trains in milliseconds. */
export const tinyGpt2: Gpt2Config = {
  vocabularySize: 67,
  positions: 32,
  hidden: 32,
  layers: 2,
  heads: 2,
  layerNormEpsilon: 1e-5,
  initializerRange: 0.05,
  embeddingDropout: 0,
  attentionDropout: 0,
  residualDropout: 0,
  tied: true,
};

export const gpt2 = (changes: Partial<Gpt2Config> = {}): ModelSpec => ({
  kind: "gpt2",
  config: { ...tinyGpt2, ...changes },
});

export function buildModel(spec: ModelSpec, rank: number): LawModel {
  switch (spec.kind) {
    case "gpt2":
      return new Gpt2(spec.config);
    case "llama":
      return new Llama(spec.config);
    case "shared":
      return new SharedBlockModel(spec.hidden, spec.vocabulary, spec.runs);
    case "odd":
      return new OddModel(spec.hidden, spec.vocabulary);
    case "crossed":
      return new CrossedModel(spec.hidden, spec.vocabulary, rank === 1);
    case "peeking":
      return new PeekingModel(spec.hidden, spec.vocabulary);
  }
}

export const vocabularyOf = (spec: ModelSpec): number =>
  spec.kind === "gpt2" || spec.kind === "llama" ? spec.config.vocabularySize : spec.vocabulary;

const table = (vocabulary: number, hidden: number): Parameter =>
  new Parameter([vocabulary, hidden], { kind: "normal", mean: 0, std: 0.1 });

class ResidualBlock extends Module {
  readonly norm: LayerNorm;
  readonly up: Linear;
  readonly down: Linear;

  constructor(hidden: number, inner: number) {
    super();
    this.norm = new LayerNorm(hidden);
    this.up = new Linear(hidden, inner);
    this.down = new Linear(inner, hidden);
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return tape.scope(() =>
      add(tape, x, this.down.forward(tape, this.up.forwardGelu(tape, this.norm.forward(tape, x)))),
    );
  }
}

/** Embeddings and an output head around whatever `body` does with the stream. */
abstract class StreamModel extends Module {
  readonly tokens: Parameter;
  readonly head: Parameter;

  constructor(hidden: number, vocabulary: number) {
    super();
    this.tokens = table(vocabulary, hidden);
    this.head = table(vocabulary, hidden);
  }

  protected abstract body(tape: Tape, x: Tensor): Promise<Tensor>;

  async forward(tape: Tape, { inputs, targets }: LanguageBatch): Promise<Tensor> {
    const x = await this.segment(tape, [], () => embedding(tape, inputs, this.tokens));
    const y = await this.body(tape, x);
    return this.segment(tape, [y], (y) => headLoss(tape, y, this.head, targets!));
  }
}

/** ALBERT's way (Lan et al. 2020): the same block again and again. */
class SharedBlockModel extends StreamModel {
  readonly block: ResidualBlock;
  readonly branch: ResidualBlock;
  readonly #runs: number;
  #microBatches = 0;

  constructor(hidden: number, vocabulary: number, runs: number) {
    super(hidden, vocabulary);
    this.block = new ResidualBlock(hidden, 2 * hidden).unit();
    this.branch = new ResidualBlock(hidden, hidden).unit();
    this.#runs = runs;
  }

  protected async body(tape: Tape, x: Tensor): Promise<Tensor> {
    let y = x;
    for (let run = 0; run < this.#runs; run++) y = await this.block.run(tape, y);
    return this.#microBatches++ % 2 === 0 ? this.branch.run(tape, y) : y;
  }
}

class CrossedModel extends StreamModel {
  readonly first: ResidualBlock;
  readonly second: ResidualBlock;
  readonly #crossed: boolean;

  constructor(hidden: number, vocabulary: number, crossed: boolean) {
    super(hidden, vocabulary);
    this.first = new ResidualBlock(hidden, 2 * hidden).unit();
    this.second = new ResidualBlock(hidden, 2 * hidden).unit();
    this.#crossed = crossed;
  }

  protected async body(tape: Tape, x: Tensor): Promise<Tensor> {
    const [a, b] = this.#crossed ? [this.second, this.first] : [this.first, this.second];
    return b.run(tape, await a.run(tape, x));
  }
}

class PeekingModel extends StreamModel {
  readonly block: ResidualBlock;
  #passes = 0;

  constructor(hidden: number, vocabulary: number) {
    super(hidden, vocabulary);
    this.block = new ResidualBlock(hidden, 2 * hidden).unit();
  }

  protected async body(tape: Tape, x: Tensor): Promise<Tensor> {
    const y = await this.block.run(tape, x);
    // Not in the first pass: what comes next, and so what may be kept, is learned from it.
    if (this.#passes++ === 0) return y;
    return this.segment(tape, [y], (y) => add(tape, y, this.block.norm.forward(tape, y)));
  }
}

class Tied extends Module {
  readonly norm: LayerNorm;
  readonly weight: Parameter;

  constructor(hidden: number, weight: Parameter) {
    super();
    this.norm = new LayerNorm(hidden);
    this.weight = weight;
  }

  forward(tape: Tape, x: Tensor, targets: Tensor): Tensor {
    return tape.scope(() => headLoss(tape, this.norm.forward(tape, x), this.weight, targets));
  }
}

class Tokens extends Module {
  readonly weight: Parameter;

  constructor(hidden: number, vocabulary: number) {
    super();
    this.weight = table(vocabulary, hidden);
  }

  forward(tape: Tape, ids: Tensor): Tensor {
    return embedding(tape, ids, this.weight);
  }
}

class Narrow extends Module {
  readonly down: Linear;
  readonly up: Linear;
  readonly never: Linear;

  constructor(hidden: number) {
    super();
    this.down = new Linear(hidden, 3);
    this.up = new Linear(3, hidden);
    this.never = new Linear(2, 1);
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return tape.scope(() => add(tape, x, this.up.forward(tape, this.down.forwardGelu(tape, x))));
  }
}

class OddModel extends Module {
  readonly tokens: Tokens;
  readonly narrow: Narrow;
  readonly frozen: ResidualBlock;
  readonly head: Tied;
  readonly idle: Linear;

  constructor(hidden: number, vocabulary: number) {
    super();
    this.tokens = new Tokens(hidden, vocabulary).unit();
    this.narrow = new Narrow(hidden).unit();
    this.frozen = new ResidualBlock(hidden, hidden).unit();
    for (const [, parameter] of this.frozen.up.namedParameters()) parameter.trainable = false;
    this.frozen.norm.bias.trainable = false;
    this.head = new Tied(hidden, this.tokens.weight).unit();
    this.idle = new Linear(hidden, 5).unit();
  }

  async forward(tape: Tape, { inputs, targets }: LanguageBatch): Promise<Tensor> {
    let x = await this.tokens.run(tape, inputs);
    x = await this.narrow.run(tape, x);
    x = await this.frozen.run(tape, x);
    return this.head.run(tape, x, targets!);
  }
}
