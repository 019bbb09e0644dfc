/** Causal self-attention on a packed projection. */
import { ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";

export interface AttentionOptions {
  readonly heads: number;
  /** Probability of dropping an attention weight while training, and the op's name for the random numbers. */
  readonly dropout?: number;
  readonly name: string;
}

/**
 * softmax(q k' / sqrt(headDim), causal) v for qkv: [batch, seq, 3 x width] (queries, keys, values side by side, each heads x
 * headDim); returns [batch, seq, width]. Keeps one fp32 number per row for backward, never the seq x seq matrix.
 */
export function causalAttention(tape: Tape, qkv: Tensor, options: AttentionOptions): Tensor {
  const [batch, seq] = qkv.shape as [number, number, number];
  const width = qkv.cols / 3;
  const { heads } = options;
  if (qkv.shape.length !== 3 || !Number.isInteger(width) || width % heads !== 0)
    throw new ShapeError(
      "causalAttention",
      `[${qkv.shape.join(", ")}] with ${heads} heads`,
      "[batch, seq, 3 x heads x headDim]",
    );
  const dropProbability = tape.training ? (options.dropout ?? 0) : 0;
  const out = tape.make([batch, seq, width], qkv.dtype, qkv.requiresGradient);
  const lse = tape.make([batch, heads, seq], "f32");
  const forward = {
    batch,
    seq,
    heads,
    kvHeads: heads,
    headDim: width / heads,
    scale: 1 / Math.sqrt(width / heads),
    dtype: qkv.dtype,
    qStride: qkv.cols,
    kvStride: qkv.cols,
    outStride: width,
    dropProbability,
    dropKey: dropProbability > 0 ? tape.random.dropout(options.name) : 0,
    firstSample: tape.random.firstSample,
  };
  const operands = (): { q: ReturnType<Tensor["at"]>; k: ReturnType<Tensor["at"]>; v: ReturnType<Tensor["at"]> } => ({
    q: qkv.at(0),
    k: qkv.at(width),
    v: qkv.at(2 * width),
  });
  tape.device.issue("compute", "attention", { ...forward, ...operands(), out: out.span, lse: lse.span });
  return tape.record(
    "attention",
    [qkv],
    out,
    [qkv, out, lse],
    (dy) => {
      const dqkv = Tensor.allocate(tape.device, qkv.shape, qkv.dtype);
      tape.device.issue("compute", "attentionBackward", {
        ...forward,
        ...operands(),
        out: out.span,
        lse: lse.span,
        dOut: dy.span,
        dOutStride: width,
        dq: dqkv.at(0),
        dk: dqkv.at(width),
        dv: dqkv.at(2 * width),
        dqStride: qkv.cols,
        dkvStride: qkv.cols,
      });
      return [dqkv];
    },
    false,
  );
}
