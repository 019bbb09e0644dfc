/** Causal self-attention on a packed projection, or on queries, keys and values apart. */
import type { OpArgs } from "../../device/ops.ts";
import { ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";

export interface AttentionOptions {
  readonly heads: number;
  /** Probability of dropping an attention weight while training, and the op's name for the random numbers. */
  readonly dropout?: number;
  readonly name: string;
}

export interface GroupedAttentionOptions extends AttentionOptions {
  /** A divisor of `heads`: so many neighbouring heads read the same keys and values (Ainslie et al., 2023). */
  readonly kvHeads: number;
}

/**
 * softmax(q k' / sqrt(headDim), causal) v for qkv: [batch, seq, 3 x width] (queries, keys, values side by side, each heads x
 * headDim); returns [batch, seq, width]. Keeps one fp32 number per row for backward, never the seq x seq matrix.
 */
export function causalAttention(tape: Tape, qkv: Tensor, options: AttentionOptions): Tensor {
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
  const dropProbability = tape.training ? (options.dropout ?? 0) : 0;
  const wanted = inputs.some((input) => input.requiresGradient);
  const out = tape.make([batch, seq, width], queries.dtype, wanted);
  const lse = tape.make([batch, heads, seq], "f32");
  const strides = { query: queries.cols, keyValue: parts.k[0].cols };
  const shape = {
    ...{ batch, seq, heads, kvHeads, headDim },
    scale: 1 / Math.sqrt(headDim),
    dtype: queries.dtype,
    qStride: strides.query,
    kvStride: strides.keyValue,
    outStride: width,
    dropProbability,
    dropKey: dropProbability > 0 ? tape.random.dropout(options.name) : 0,
    firstSample: tape.random.firstSample,
  };
  const forward = (): OpArgs<"attention"> => ({ ...shape, ...spansOf(parts), out: out.span, lse: lse.span });
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

const spansOf = ({ q, k, v }: Parts) => ({ q: q[0].at(q[1]), k: k[0].at(k[1]), v: v[0].at(v[1]) });
