/** Causal self-attention on a packed projection, or on queries, keys and values apart. */

import { dtypeBytes } from "../../device/dtype.ts";
import type { OpArgs } from "../../device/ops.ts";
import { InternalError, ShapeError } from "../../errors/errors.ts";
import { anObject, checkOptions, dropShare, type Kinds, required, text, wholeNumber } from "../../errors/options.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";

export interface AttentionOptions {
  readonly heads: number;
  /** Probability of dropping an attention weight while training, and the op's name for the random numbers. */
  readonly dropout?: number;
  readonly name: string;
  /** Where the sequence began before this pass; without it the pass has all of it. Needs a batch of 1 and no backward pass. */
  readonly earlier?: EarlierKeys | undefined;
  /** Tokens that a query sees, its own the last of them. Left out: all before it. What lies outside is not computed. */
  readonly window?: number | undefined;
}

const kinds: Kinds<AttentionOptions> = {
  heads: required(wholeNumber(1)),
  dropout: dropShare,
  name: required(text),
  earlier: anObject,
  window: wholeNumber(1),
};

/** Keys and values of the tokens of a sequence that earlier passes read, and room for those of the next. */
export interface EarlierKeys {
  /** [rows, kvHeads x headDim] each. */
  readonly keys: Tensor;
  readonly values: Tensor;
  /** Rows that are filled: the place of the first query. */
  readonly count: number;
}

export interface GroupedAttentionOptions extends AttentionOptions {
  /** A divisor of `heads`: so many neighbouring heads read the same keys and values (Ainslie et al., 2023). */
  readonly kvHeads: number;
}

const groupedKinds: Kinds<GroupedAttentionOptions> = { ...kinds, kvHeads: required(wholeNumber(1)) };

/**
 * softmax(q k' / sqrt(headDim), causal) v for qkv: [batch, seq, 3 x width] (queries, keys, values side by side, each heads x
 * headDim); returns [batch, seq, width]. Keeps one fp32 number per row for backward, never the seq x seq matrix.
 */
export function causalAttention(tape: Tape, qkv: Tensor, options: AttentionOptions): Tensor {
  checkOptions("causalAttention", options, kinds);
  const width = qkv.cols / 3;
  const { heads } = options;
  if (qkv.shape.length !== 3 || !Number.isInteger(width) || width % heads !== 0)
    throw new ShapeError(
      "causalAttention",
      `[${qkv.shape.join(", ")}] with ${heads} heads`,
      "[batch, seq, 3 x heads x headDim]",
    );
  const parts = { q: [qkv, 0], k: [qkv, width], v: [qkv, 2 * width] } as const;
  return attend(tape, [qkv], parts, { ...options, kvHeads: heads, headDim: width / heads });
}

/** The same for q: [batch, seq, heads x headDim], k and v: [batch, seq, kvHeads x headDim]; returns what q is the size of. */
export function groupedAttention(
  tape: Tape,
  q: Tensor,
  k: Tensor,
  v: Tensor,
  options: GroupedAttentionOptions,
): Tensor {
  checkOptions("groupedAttention", options, groupedKinds);
  const { heads, kvHeads } = options;
  const headDim = q.cols / heads;
  const fits = [k, v].every(
    ({ shape, rows, cols }) => shape.length === 3 && rows === q.rows && cols === kvHeads * headDim,
  );
  if (q.shape.length !== 3 || !Number.isInteger(headDim) || heads % kvHeads !== 0 || !fits)
    throw new ShapeError(
      "groupedAttention",
      `${[q, k, v].map(({ shape }) => `[${shape.join(", ")}]`).join(", ")} with ${heads} and ${kvHeads} heads`,
      "[batch, seq, heads x headDim] and twice [batch, seq, kvHeads x headDim], kvHeads a divisor of heads",
    );
  const parts = { q: [q, 0], k: [k, 0], v: [v, 0] } as const;
  return attend(tape, [q, k, v], parts, { ...options, headDim });
}

/** Where queries, keys and values lie: a tensor, and the element of it at which each row's begin. */
type Parts = Readonly<Record<"q" | "k" | "v", readonly [tensor: Tensor, first: number]>>;

function attend(
  tape: Tape,
  inputs: readonly Tensor[],
  parts: Parts,
  options: GroupedAttentionOptions & { readonly headDim: number },
): Tensor {
  const { heads, kvHeads, headDim } = options;
  const [queries] = parts.q;
  const [batch, seq] = queries.shape as [number, number];
  const width = heads * headDim;
  const known = options.earlier ? withEarlier(tape, parts, kvHeads * headDim, options.earlier) : parts;
  const keys = (options.earlier?.count ?? 0) + seq;
  const dropProbability = tape.training ? (options.dropout ?? 0) : 0;
  const wanted = inputs.some((input) => input.requiresGradient);
  const out = tape.make([batch, seq, width], queries.dtype, wanted);
  const lse = tape.make([batch, heads, seq], "f32");
  const strides = { query: queries.cols, keyValue: known.k[0].cols };
  const shape = {
    ...{ batch, seq, heads, kvHeads, headDim },
    scale: 1 / Math.sqrt(headDim),
    dtype: queries.dtype,
    qStride: strides.query,
    kvStride: strides.keyValue,
    outStride: width,
    window: Math.min(options.window ?? keys, keys),
    dropProbability,
    dropKey: dropProbability > 0 ? tape.random.dropout(options.name) : 0,
    firstSample: tape.random.firstSample,
  };
  const forward = (): OpArgs<"attention"> => ({ ...shape, ...spansOf(known), out: out.span, lse: lse.span, keys });
  tape.device.issue("compute", "attention", forward());
  const backward = (dy: Tensor): Tensor[] => {
    const gradients = new Map(inputs.map((i) => [i, Tensor.allocate(tape.device, i.shape, i.dtype)]));
    const gradientAt = ([tensor, first]: Parts["q"]) => gradients.get(tensor)!.at(first);
    tape.device.issue("compute", "attentionBackward", {
      ...forward(),
      dOut: dy.span,
      dOutStride: width,
      dq: gradientAt(parts.q),
      dk: gradientAt(parts.k),
      dv: gradientAt(parts.v),
      dqStride: strides.query,
      dkvStride: strides.keyValue,
    });
    return [...gradients.values()];
  };
  return tape.record("attention", inputs, out, [...inputs, out, lse], backward, false);
}

/** Puts the new keys and values behind the earlier ones, and tells where all of them are. */
function withEarlier(tape: Tape, parts: Parts, width: number, { keys, values, count }: EarlierKeys): Parts {
  const [batch, seq] = parts.q[0].shape as [number, number];
  if (batch !== 1 || keys.cols !== width || count + seq > keys.rows)
    throw new ShapeError(
      "attention",
      `${batch} sequences of ${seq} tokens after ${count}, with room for [${keys.shape.join(", ")}]`,
      `one sequence, and room for [${count + seq}, ${width}]`,
    );
  if (tape.recording) throw new InternalError("attention over earlier keys has no backward pass");
  for (const [[from, first], to] of [
    [parts.k, keys],
    [parts.v, values],
  ] as const) {
    const bytes = width * dtypeBytes[to.dtype];
    const strides = { srcStride: from.cols * dtypeBytes[from.dtype], dstStride: bytes };
    const spans = { src: from.at(first), dst: to.at(count * width) };
    tape.device.issue("compute", "copyRows", { rows: seq, bytes, ...strides, ...spans });
  }
  return { q: parts.q, k: [keys, 0], v: [values, 0] };
}

const spansOf = ({ q, k, v }: Parts) => ({ q: q[0].at(q[1]), k: k[0].at(k[1]), v: v[0].at(v[1]) });
