/** The layers of transformers. Weights keep the element order of the files they come from (contracts 9). */
import {
  checkArgument,
  checkOptions,
  dropShare,
  type Kinds,
  numberThat,
  oneOf,
  required,
  text,
  truth,
  wholeNumber,
} from "../errors/options.ts";
import { causalAttention, type EarlierKeys } from "../tensor/ops/attention.ts";
import { dropout, gelu, scale } from "../tensor/ops/elementwise.ts";
import { embedding } from "../tensor/ops/embedding.ts";
import { linear, type WeightLayout } from "../tensor/ops/linear.ts";
import { layerNorm, rmsNorm } from "../tensor/ops/norm.ts";
import type { Tape } from "../tensor/tape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { type AdapterOptions, downFactor, type LoraFactor, upFactor } from "./low-rank.ts";
import { Module } from "./module.ts";
import { Parameter } from "./parameter.ts";

export interface LinearOptions {
  /** Defaults to true. */
  readonly bias?: boolean;
  /** Memory order of the weight. Defaults to "outIn", as in PyTorch; GPT-2's files are "inOut". */
  readonly layout?: WeightLayout;
  /** Standard deviation of the initial weights. Defaults to 1 / sqrt(3 inputs), the variance of PyTorch's default. */
  readonly std?: number;
}

const size = required(wholeNumber(1));
const layout = oneOf(["outIn", "inOut"]);
const std = numberThat("a number of at least 0", (value) => value >= 0 && Number.isFinite(value));

const linearKinds: Kinds<LinearOptions> = { bias: truth, layout, std };

/** y = x W + b, or gelu of it. With an adapter (LoRA), W is W plus the product of two small matrices. */
export class Linear extends Module {
  readonly weight: Parameter;
  readonly bias?: Parameter;
  lora_A?: LoraFactor;
  lora_B?: LoraFactor;
  readonly #layout: WeightLayout;
  #adapter: AdapterOptions | undefined;

  constructor(inputs: number, outputs: number, options: LinearOptions = {}) {
    super();
    checkArgument("Linear", "inputs", inputs, size);
    checkArgument("Linear", "outputs", outputs, size);
    checkOptions("Linear", options, linearKinds);
    this.#layout = options.layout ?? "outIn";
    const shape = this.#layout === "outIn" ? [outputs, inputs] : [inputs, outputs];
    this.weight = new Parameter(shape, { kind: "normal", mean: 0, std: options.std ?? 1 / Math.sqrt(3 * inputs) });
    if (options.bias ?? true) this.bias = new Parameter([outputs], { kind: "constant", value: 0 });
  }

  /** Freezes the layer and gives it an adapter. */
  adapt(adapter: AdapterOptions): void {
    const [first, second] = this.weight.shape as [number, number];
    const [outputs, inputs] = this.#layout === "outIn" ? [first, second] : [second, first];
    for (const own of [this.weight, this.bias]) if (own) own.trainable = false;
    this.lora_A = downFactor(inputs, adapter.rank);
    this.lora_B = upFactor(adapter.rank, outputs);
    this.#adapter = adapter;
  }

  get adapter(): AdapterOptions | undefined {
    return this.#adapter;
  }

  /** Of its adapter; undefined where it has none. */
  get rank(): number | undefined {
    return this.#adapter?.rank;
  }

  forward(tape: Tape, x: Tensor): Tensor {
    const adapter = this.#adapter;
    if (!adapter) return linear(tape, x, this.weight, this.bias, { layout: this.#layout });
    return tape.scope(() => {
      const y = linear(tape, x, this.weight, this.bias, { layout: this.#layout });
      const dropped = dropout(tape, x, adapter.dropout, adapter.name);
      const narrow = linear(tape, dropped, this.lora_A!.weight, undefined, { layout: "outIn" });
      const scaled = scale(tape, narrow, adapter.scale);
      return linear(tape, scaled, this.lora_B!.weight, undefined, { layout: "outIn", onto: y });
    });
  }

  /** gelu(x W + b), in one pass over the product where there is no adapter. */
  forwardGelu(tape: Tape, x: Tensor): Tensor {
    if (this.#adapter) return tape.scope(() => gelu(tape, this.forward(tape, x)));
    return linear(tape, x, this.weight, this.bias, { layout: this.#layout, gelu: true });
  }
}

export class LayerNorm extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;
  readonly #epsilon: number;

  constructor(width: number, epsilon = 1e-5) {
    super();
    this.weight = new Parameter([width], { kind: "constant", value: 1 });
    this.bias = new Parameter([width], { kind: "constant", value: 0 });
    this.#epsilon = epsilon;
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return layerNorm(tape, x, this.weight, this.bias, this.#epsilon);
  }
}

/** A norm without a centre: x / sqrt(mean(x^2) + epsilon) * weight. */
export class RmsNorm extends Module {
  readonly weight: Parameter;
  readonly #epsilon: number;

  constructor(width: number, epsilon = 1e-6) {
    super();
    this.weight = new Parameter([width], { kind: "constant", value: 1 });
    this.#epsilon = epsilon;
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return rmsNorm(tape, x, this.weight, this.#epsilon);
  }
}

export class Embedding extends Module {
  readonly weight: Parameter;

  constructor(count: number, width: number, std = 0.02) {
    super();
    this.weight = new Parameter([count, width], { kind: "normal", mean: 0, std });
  }

  /** Rows of the table, added to `onto` where given. ids: i32 of any shape. */
  forward(tape: Tape, ids: Tensor, onto?: Tensor): Tensor {
    return embedding(tape, ids, this.weight, onto);
  }
}

export class Dropout extends Module {
  readonly #probability: number;
  readonly #name: string;

  /** @param name tells this dropout from the model's others; random numbers depend on it */
  constructor(probability: number, name: string) {
    super();
    checkArgument("Dropout", "probability", probability, required(dropShare));
    checkArgument("Dropout", "name", name, required(text));
    this.#probability = probability;
    this.#name = name;
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return dropout(tape, x, this.#probability, this.#name);
  }
}

export interface AttentionLayerOptions {
  readonly hidden: number;
  readonly heads: number;
  readonly name: string;
  readonly attentionDropout?: number;
  readonly residualDropout?: number;
  readonly layout?: WeightLayout;
  readonly std?: number;
  readonly projectionStd?: number;
}

const attentionKinds: Kinds<AttentionLayerOptions> = {
  hidden: size,
  heads: size,
  name: required(text),
  attentionDropout: dropShare,
  residualDropout: dropShare,
  layout,
  std,
  projectionStd: std,
};

const withStd = (layout: WeightLayout | undefined, std: number | undefined): LinearOptions => ({
  ...(layout && { layout }),
  ...(std !== undefined && { std }),
});

/** Causal multi-head self-attention, with GPT-2's names: one packed projection in, one out. x: [batch, seq, hidden]. */
export class CausalSelfAttention extends Module {
  readonly c_attn: Linear;
  readonly c_proj: Linear;
  readonly #options: AttentionLayerOptions;
  readonly #dropout: Dropout;

  constructor(options: AttentionLayerOptions) {
    super();
    checkOptions("CausalSelfAttention", options, attentionKinds);
    const { hidden, layout, std, projectionStd } = options;
    this.c_attn = new Linear(hidden, 3 * hidden, withStd(layout, std));
    this.c_proj = new Linear(hidden, hidden, withStd(layout, projectionStd));
    this.#options = options;
    this.#dropout = new Dropout(options.residualDropout ?? 0, `${options.name}.resid`);
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return this.forwardAfter(tape, x, undefined);
  }

  /** @param earlier keys and values of the tokens before x */
  forwardAfter(tape: Tape, x: Tensor, earlier: EarlierKeys | undefined): Tensor {
    return tape.scope(() => {
      const { heads, name, attentionDropout: dropout = 0 } = this.#options;
      const qkv = this.c_attn.forward(tape, x);
      const mixed = causalAttention(tape, qkv, { heads, name: `${name}.attn`, dropout, earlier });
      return this.#dropout.forward(tape, this.c_proj.forward(tape, mixed));
    });
  }
}

export interface MlpOptions {
  readonly hidden: number;
  /** Defaults to 4 x hidden. */
  readonly inner?: number;
  readonly name: string;
  readonly residualDropout?: number;
  readonly layout?: WeightLayout;
  readonly std?: number;
  readonly projectionStd?: number;
}

const mlpKinds: Kinds<MlpOptions> = {
  hidden: size,
  inner: wholeNumber(1),
  name: required(text),
  residualDropout: dropShare,
  layout,
  std,
  projectionStd: std,
};

/** The feed-forward half of a block, with GPT-2's names: up, GELU, down. */
export class Mlp extends Module {
  readonly c_fc: Linear;
  readonly c_proj: Linear;
  readonly #dropout: Dropout;

  constructor(options: MlpOptions) {
    super();
    checkOptions("Mlp", options, mlpKinds);
    const inner = options.inner ?? 4 * options.hidden;
    this.c_fc = new Linear(options.hidden, inner, withStd(options.layout, options.std));
    this.c_proj = new Linear(inner, options.hidden, withStd(options.layout, options.projectionStd));
    this.#dropout = new Dropout(options.residualDropout ?? 0, `${options.name}.mlp`);
  }

  forward(tape: Tape, x: Tensor): Tensor {
    return tape.scope(() => this.#dropout.forward(tape, this.c_proj.forward(tape, this.c_fc.forwardGelu(tape, x))));
  }
}
