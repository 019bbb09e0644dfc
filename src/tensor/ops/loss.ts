/** The output head: projection and cross-entropy in one, chunk by chunk, with its gradients made in the forward pass. */
import { dtypeBytes } from "../../device/dtype.ts";
import { DTypeError, ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import { Tensor } from "../tensor.ts";
import type { Weight } from "../weight.ts";

/** Rows of logits that exist at once, where the head works in chunks. */
const chunkRows = 512;

/**
 * Rows of a chunk that take the least scratch. A 16-bit weight gradient needs an fp32 sum over chunks as soon as there are
 * two; so a single chunk is smaller as long as its logits are not larger than that sum.
 */
export function headChunkRows(rows: number, hidden: number, elementBytes: number): number {
  const oneChunk = elementBytes === 2 && rows * elementBytes <= hidden * 4 + chunkRows * elementBytes;
  return oneChunk ? rows : Math.min(rows, chunkRows);
}

/**
 * Cross-entropy of softmax(x W') against `targets` (i32, made by tape.integers; negative: ignored), summed over the targets that
 * count and divided by the tape's loss divisor, or else by their number: then it is their mean, and 0 where there are none. x: [...,
 * hidden]; weight: [vocabulary, hidden]. Returns one fp32 number. While training, the gradients of x and W are made at once, seeded
 * with the tape's loss seed (contracts 10); W's is summed in fp32 over chunks and rounded once.
 */
export function headLoss(tape: Tape, x: Tensor, weight: Weight, targets: Tensor): Tensor {
  const [vocabulary, hidden] = weight.shape as [number, number];
  if (x.cols !== hidden)
    throw new ShapeError(`headLoss ${weight.name}`, `an input of width ${x.cols}`, `width ${hidden}`);
  if (targets.dtype !== "i32" || targets.elements !== x.rows)
    throw new DTypeError(
      "headLoss",
      `${targets.elements} ${targets.dtype} targets`,
      `${x.rows} i32 targets, one a row`,
    );
  const targetCount = tape.nonNegativeOf(targets);
  if (targetCount === undefined)
    throw new DTypeError("headLoss", "targets that came from elsewhere", "targets that tape.integers made");
  const divisor = tape.lossDivisor ?? Math.max(1, targetCount);
  if (tape.recording) tape.lossTargets += targetCount;
  const { device } = tape;
  const { rows } = x;
  const chunk = headChunkRows(rows, hidden, dtypeBytes[x.dtype]);
  const training = tape.recording;
  const loss = tape.make([1], "f32", x.requiresGradient || weight.trainable);
  const rowLoss = Tensor.allocate(device, [rows], "f32", { label: "scratch" });
  const dx = training && x.requiresGradient ? tape.make(x.shape, x.dtype) : undefined;
  const weightSum = training && weight.trainable ? startWeightGradient(tape, weight, x, chunk < rows) : undefined;
  const ld = Math.ceil(vocabulary / 32) * 32;
  const logits = Tensor.allocate(device, [chunk, ld], x.dtype, { label: "scratch" });
  for (let first = 0; first < rows; first += chunk) {
    const piece = { first, count: Math.min(chunk, rows - first), ld, vocabulary, hidden };
    projectChunk(tape, x, weight, logits, piece);
    device.issue("compute", "crossEntropy", {
      rows: piece.count,
      cols: vocabulary,
      ld,
      dtype: x.dtype,
      logits: logits.span,
      targets: targets.at(first),
      rowLoss: rowLoss.at(first),
      gradient: training,
      gradientScale: tape.lossSeed / divisor,
    });
    if (dx) inputGradientChunk(tape, weight, logits, dx, piece);
    weightSum?.add(logits, piece);
  }
  logits.release();
  weightSum?.finish();
  const factor = 1 / divisor;
  device.issue("compute", "sum", { count: rows, x: rowLoss.span, factor, dst: loss.span, accumulate: false });
  rowLoss.release();
  return tape.record("headLoss", [x], loss, dx ? [dx] : [], () => [dx?.retain()], false);
}

interface Piece {
  readonly first: number;
  readonly count: number;
  readonly ld: number;
  readonly vocabulary: number;
  readonly hidden: number;
}

const plain = { bias: null, gelu: false, preActivation: null } as const;

function projectChunk(tape: Tape, x: Tensor, weight: Weight, logits: Tensor, p: Piece): void {
  tape.device.issue("compute", "matmul", {
    m: p.count,
    n: p.vocabulary,
    k: p.hidden,
    dtype: x.dtype,
    a: x.at(p.first * p.hidden),
    aRowStride: p.hidden,
    aDepthStride: 1,
    b: weight.value.span,
    bRowStride: p.hidden,
    bDepthStride: 1,
    c: logits.span,
    ldc: p.ld,
    cType: logits.dtype,
    accumulate: false,
    biasType: x.dtype,
    ...plain,
  });
}

function inputGradientChunk(tape: Tape, weight: Weight, dLogits: Tensor, dx: Tensor, p: Piece): void {
  tape.device.issue("compute", "matmul", {
    m: p.count,
    n: p.hidden,
    k: p.vocabulary,
    dtype: dx.dtype,
    a: dLogits.span,
    aRowStride: p.ld,
    aDepthStride: 1,
    b: weight.value.span,
    bRowStride: 1,
    bDepthStride: p.hidden,
    c: dx.at(p.first * p.hidden),
    ldc: p.hidden,
    cType: dx.dtype,
    accumulate: false,
    biasType: dx.dtype,
    ...plain,
  });
}

/** The weight gradient: straight into its place where that is one product or fp32, else through an fp32 sum. */
function startWeightGradient(tape: Tape, weight: Weight, x: Tensor, chunked: boolean) {
  const { tensor: dw, accumulate } = weight.takeGradient();
  const apart = chunked && dw.dtype !== "f32";
  const sum = apart ? Tensor.allocate(tape.device, dw.shape, "f32", { label: "scratch" }) : dw;
  let started = apart ? false : accumulate;
  return {
    add(dLogits: Tensor, p: Piece): void {
      tape.device.issue("compute", "matmul", {
        m: p.vocabulary,
        n: p.hidden,
        k: p.count,
        dtype: x.dtype,
        a: dLogits.span,
        aRowStride: 1,
        aDepthStride: p.ld,
        b: x.at(p.first * p.hidden),
        bRowStride: 1,
        bDepthStride: p.hidden,
        c: sum.span,
        ldc: p.hidden,
        cType: sum.dtype,
        accumulate: started,
        biasType: x.dtype,
        ...plain,
      });
      started = true;
    },
    finish(): void {
      if (!apart) return;
      tape.device.issue("compute", "accumulate", {
        count: dw.elements,
        srcType: "f32",
        dstType: dw.dtype,
        src: sum.span,
        dst: dw.span,
        factor: 1,
        accumulate,
      });
      sum.release();
    },
  };
}
