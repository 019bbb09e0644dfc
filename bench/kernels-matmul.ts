/**
 * Matrix products and attention against the peak of the processor's multiply-add instructions. Every run of a kernel lies
 * between two measurements of the peak, on the same thread's core, so that a change of clock or a neighbour's load hits both.
 */
import { dtypeBytes, dtypeCode } from "../src/device/dtype.ts";
import { encode } from "../src/device/encode.ts";
import { loadNative, type Native } from "../src/device/native.ts";
import { operationsOf } from "../src/device/operations.ts";
import type { OpArgs, OpName, Span } from "../src/device/ops.ts";

export type ProductType = "f32" | "bf16" | "f16";

/** Weights [outputs, inputs] of GPT-2 (768) and GPT-2 XL (1600): qkv, projection, both halves of the MLP, the head. */
export const gpt2Shapes: readonly { outputs: number; inputs: number }[] = [768, 1600].flatMap((width) => [
  { outputs: 3 * width, inputs: width },
  { outputs: width, inputs: width },
  { outputs: 4 * width, inputs: width },
  { outputs: width, inputs: 4 * width },
  { outputs: 50257, inputs: width },
]);

export type Form = "Y = X W'" | "dX = dY W" | "dW += dY' X";
export const forms: readonly Form[] = ["Y = X W'", "dX = dY W", "dW += dY' X"];

export interface KernelResult {
  readonly name: string;
  /** Median of (operations a second / peak of all threads) over the rounds. */
  readonly share: number;
  /** Median, in 10^9 operations a second. Of attention only operations on or below the diagonal and in the window count. */
  readonly gigaOperations: number;
  /** Of one run. */
  readonly seconds: number;
}

/** One op bound to its operands, and how much it computes. */
interface Work {
  readonly name: string;
  readonly operations: number;
  readonly code: number;
  readonly args: Float64Array;
}

/** A region filled with ordinary values, and a queue of `threads` workers. */
class Workplace {
  readonly native: Native = loadNative();
  readonly threads: number;
  private readonly region: number;
  private readonly queue: number;
  private used = 0;

  constructor(threads: number, bytes: number) {
    this.threads = threads;
    this.region = this.native.createRegion(bytes);
    this.queue = this.native.createQueue(threads);
  }

  space(bytes: number): Span {
    const offset = this.used;
    this.used = Math.ceil((offset + bytes) / 4096) * 4096;
    return { region: this.region, offset };
  }

  /** Frees what was taken after `mark` bytes were in use. */
  rewind(mark: number): void {
    this.used = mark;
  }

  get mark(): number {
    return this.used;
  }

  async normal(count: number, dtype: ProductType, key: number): Promise<Span> {
    const dst = this.space(count * dtypeBytes[dtype]);
    const { code, values } = encode("initNormal", { count, dtype, key, firstElement: 0, mean: 0, std: 1, dst }, null);
    await this.native.reached(this.queue, this.native.issue(this.queue, code, values));
    return dst;
  }

  prepare<K extends OpName>(name: string, operations: number, op: K, args: OpArgs<K>): Work {
    const query = encode(op, args, null);
    const scratchBytes = this.native.scratchBytes(query.code, query.values, this.threads);
    const { code, values } = encode(op, args, scratchBytes > 0 ? this.space(scratchBytes) : null);
    return { name, operations, code, args: values.slice() };
  }

  async seconds(work: Work): Promise<number> {
    const start = performance.now();
    await this.native.reached(this.queue, this.native.issue(this.queue, work.code, work.args));
    return (performance.now() - start) / 1000;
  }

  close(): void {
    this.native.destroyQueue(this.queue);
    this.native.closeRegion(this.region);
  }
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** The geometric mean of shares. */
export const meanShare = (results: readonly KernelResult[]): number =>
  Math.exp(results.reduce((sum, r) => sum + Math.log(r.share), 0) / results.length);

/** Runs `work` once unmeasured, then for at least three rounds and about `secondsEach`. */
async function measure(place: Workplace, work: Work, dtype: ProductType, secondsEach: number): Promise<KernelResult> {
  const peak = () => place.native.measurePeak(dtypeCode[dtype]) * place.threads;
  const first = await place.seconds(work);
  const rounds = Math.max(3, Math.min(25, Math.round(secondsEach / first)));
  const [shares, rates]: [number[], number[]] = [[], []];
  let before = peak();
  for (let round = 0; round < rounds; round++) {
    const rate = work.operations / (await place.seconds(work));
    const after = peak();
    shares.push((2 * rate) / (before + after));
    rates.push(rate);
    before = after;
  }
  const rate = median(rates);
  return { name: work.name, share: median(shares), gigaOperations: rate / 1e9, seconds: work.operations / rate };
}

interface ProductOperands {
  readonly activations: Span;
  readonly gradients: Span;
  readonly weights: Span;
  readonly result: Span;
}

/** The arguments of one of the three products of a linear layer in training, over `tokens` rows. */
function productArgs(
  form: Form,
  tokens: number,
  shape: (typeof gpt2Shapes)[number],
  dtype: ProductType,
  s: ProductOperands,
) {
  const { outputs, inputs } = shape;
  const byRow = (stride: number, side: "a" | "b") => ({ [`${side}RowStride`]: stride, [`${side}DepthStride`]: 1 });
  const byColumn = (stride: number, side: "a" | "b") => ({ [`${side}RowStride`]: 1, [`${side}DepthStride`]: stride });
  const common = { dtype, c: s.result, bias: null, biasType: dtype, gelu: false, preActivation: null } as const;
  const forward = { m: tokens, n: outputs, k: inputs, a: s.activations, b: s.weights, ldc: outputs };
  const input = { m: tokens, n: inputs, k: outputs, a: s.gradients, b: s.weights, ldc: inputs };
  const weight = { m: outputs, n: inputs, k: tokens, a: s.gradients, b: s.activations, ldc: inputs };
  const stored = { cType: dtype, accumulate: false };
  const summed = { cType: "f32", accumulate: true };
  const args =
    form === "Y = X W'"
      ? { ...forward, ...byRow(inputs, "a"), ...byRow(inputs, "b"), ...stored }
      : form === "dX = dY W"
        ? { ...input, ...byRow(outputs, "a"), ...byColumn(inputs, "b"), ...stored }
        : { ...weight, ...byColumn(outputs, "a"), ...byColumn(inputs, "b"), ...summed };
  return { ...common, ...args } as OpArgs<"matmul">;
}

/** Every shape in every form with `tokens` rows: thirty results for the ten shapes of GPT-2. */
export async function measureProducts(
  dtype: ProductType,
  { threads = 1, tokens = 1024, shapes = gpt2Shapes, secondsEach = 0.3 } = {},
): Promise<KernelResult[]> {
  const widest = Math.max(...shapes.map((s) => Math.max(s.outputs, s.inputs)));
  const largest = Math.max(...shapes.map((s) => s.outputs * s.inputs));
  const place = new Workplace(threads, 4 * (largest * 2 + tokens * widest * 3) + (64 << 20));
  const operands = {
    activations: await place.normal(tokens * widest, dtype, 1),
    gradients: await place.normal(tokens * widest, dtype, 2),
    weights: await place.normal(largest, dtype, 3),
    result: await place.normal(Math.max(largest, tokens * widest), "f32", 4),
  };
  const results: KernelResult[] = [];
  const { mark } = place;
  for (const shape of shapes)
    for (const form of forms) {
      const name = `${form}, ${shape.outputs} x ${shape.inputs}, ${tokens} tokens`;
      const operations = 2 * tokens * shape.outputs * shape.inputs;
      const work = place.prepare(name, operations, "matmul", productArgs(form, tokens, shape, dtype, operands));
      results.push(await measure(place, work, dtype, secondsEach));
      place.rewind(mark);
    }
  place.close();
  return results;
}

export interface AttentionResult {
  readonly forward: KernelResult;
  readonly backward: KernelResult;
  /** Operations of both passes over the time of both, of the peak. */
  readonly share: number;
}

/** Causal attention over a fused qkv buffer. @param options.window tokens that a query sees; left out: all before it */
export async function measureAttention(
  dtype: ProductType,
  { threads = 1, seq = 1024, window = Infinity, heads = 12, headDim = 64, secondsEach = 0.5 } = {},
): Promise<AttentionResult> {
  const hidden = heads * headDim;
  const place = new Workplace(threads, 4 * seq * hidden * 10 + (128 << 20));
  const qkv = await place.normal(3 * seq * hidden, dtype, 1);
  const gradient = await place.normal(3 * seq * hidden, dtype, 2);
  const part = (span: Span, which: number): Span => ({
    ...span,
    offset: span.offset + which * hidden * dtypeBytes[dtype],
  });
  const forward: OpArgs<"attention"> = {
    ...{ batch: 1, seq, heads, kvHeads: heads, headDim, scale: headDim ** -0.5, dtype },
    ...{ q: part(qkv, 0), k: part(qkv, 1), v: part(qkv, 2), qStride: 3 * hidden, kvStride: 3 * hidden },
    ...{ out: place.space(4 * seq * hidden), outStride: hidden, lse: place.space(4 * heads * seq) },
    ...{ dropProbability: 0, dropKey: 0, firstSample: 0, keys: seq, window: Math.min(window, seq) },
  };
  const backward: OpArgs<"attentionBackward"> = {
    ...forward,
    ...{ dOut: await place.normal(seq * hidden, dtype, 3), dOutStride: hidden },
    ...{ dq: part(gradient, 0), dk: part(gradient, 1), dv: part(gradient, 2) },
    ...{ dqStride: 3 * hidden, dkvStride: 3 * hidden },
  };
  const name = `${heads} heads of ${headDim}, ${seq} positions${window < seq ? `, window ${window}` : ""}`;
  const product = operationsOf("attention", forward) / 2;
  const there = await measure(
    place,
    place.prepare(`attention, ${name}`, 2 * product, "attention", forward),
    dtype,
    secondsEach,
  );
  const work = place.prepare(`attentionBackward, ${name}`, 5 * product, "attentionBackward", backward);
  const back = await measure(place, work, dtype, secondsEach);
  place.close();
  return { forward: there, backward: back, share: 7 / (2 / there.share + 5 / back.share) };
}
