/**
 * Memory-bound kernels against passes that stream the same bytes without arithmetic, alternating in one process so that
 * both see the same machine. Native core only: queue, region, op codes.
 */
import { type DType, dtypeBytes } from "../src/device/dtype.ts";
import { encode } from "../src/device/encode.ts";
import { loadNative, type Native } from "../src/device/native.ts";
import { type OpArgs, type OpName, opFields, type Span } from "../src/device/ops.ts";

/** One op with its operands, bound to a queue. */
type Call = () => Promise<void>;

export interface Pass {
  readonly bytes: number;
  readonly run: Call;
}

export interface MemoryKernel {
  readonly name: string;
  /** Bytes that must cross the memory bus: every operand once, results once more where they are also read. */
  readonly bytes: number;
  readonly kernel: Call;
  /** Passes over the same operands that only load and store (a multiplication by 1, or a sum). */
  readonly stream: readonly Pass[];
}

export interface MemoryResult {
  readonly name: string;
  /** Medians, in 10^9 bytes per second. */
  readonly kernelGBs: number;
  readonly streamGBs: number;
  /** kernelGBs / streamGBs: 1 is a kernel whose arithmetic hides behind the memory. */
  readonly share: number;
}

const elements = 16 << 20;

/** A region with a queue of `threads` workers. */
class Memory {
  private readonly native: Native;
  private readonly region: number;
  private readonly queue: number;
  private readonly threads: number;
  private used = 0;

  constructor(threads: number) {
    this.native = loadNative();
    this.threads = threads;
    this.region = this.native.createRegion(640 << 20);
    this.queue = this.native.createQueue(threads);
  }

  /** Arrays a power of two apart compete for the same cache sets and memory banks; 80 KiB of padding keeps them apart. */
  space(count: number, dtype: DType): Span {
    const offset = this.used;
    this.used = Math.ceil((offset + count * dtypeBytes[dtype]) / 4096) * 4096 + (80 << 10);
    return { region: this.region, offset };
  }

  call<K extends OpName>(op: K, args: OpArgs<K>): Call {
    const query = encode(op, args, null);
    const needsScratch = "scratch" in opFields[op];
    const bytes = needsScratch ? this.native.scratchBytes(query.code, query.values, this.threads) : 0;
    const { code, values } = encode(op, args, bytes > 0 ? this.space(bytes, "bf16") : null);
    const given = values.slice();
    return () => this.native.reached(this.queue, this.native.issue(this.queue, code, given));
  }

  close(): void {
    this.native.destroyQueue(this.queue);
    this.native.closeRegion(this.region);
  }
}

/** Reads x and writes out. */
const pass = (memory: Memory, count: number, dtype: DType, x: Span, out: Span): Pass => ({
  bytes: 2 * count * dtypeBytes[dtype],
  run: memory.call("scale", { count, dtype, x, factor: 1, out }),
});

/** Reads a and b and writes out, in bf16. */
const sumPass = (memory: Memory, a: Span, b: Span, out: Span): Pass => ({
  bytes: 6 * elements,
  run: memory.call("add", { count: elements, dtype: "bf16", a, b, out }),
});

/** Optimizer rules over the same range: fp32 master and states are read and written, gradients read, 16-bit weights written. */
function optimizerCases(memory: Memory): MemoryKernel[] {
  const [master, firstMoment, secondMoment] = [0, 1, 2].map(() => memory.space(elements, "f32")) as [Span, Span, Span];
  const [gradient, parameter] = [0, 1].map(() => memory.space(elements, "bf16")) as [Span, Span];
  const types = { gradientType: "bf16", parameterType: "bf16" } as const;
  const numbers = { gradientScale: 1, learningRate: 1e-4, weightDecay: 0.1 };
  const update = { count: elements, master, gradient, parameter, ...types, ...numbers };
  const betas = { beta1: 0.9, beta2: 0.95 };
  const corrections = { epsilon: 1e-8, correction1: 0.5, correction2: 0.5, decoupled: true };
  const rule = (name: string, kernel: Call, ...states: Span[]): MemoryKernel => {
    const stream = [master, ...states].map((x) => pass(memory, elements, "f32", x, x));
    stream.push(pass(memory, elements, "bf16", gradient, parameter));
    const bytesEach = 4 + 8 * (1 + states.length);
    return { name: `${name}, ${bytesEach} B a parameter`, bytes: bytesEach * elements, kernel, stream };
  };
  const adam = memory.call("adam", { ...update, firstMoment, secondMoment, ...betas, ...corrections });
  const lion = memory.call("lion", { ...update, firstMoment, ...betas });
  const sgd = memory.call("sgd", { ...update, firstMoment, momentum: 0.9, gradientShare: 1, nesterov: false });
  const adagrad = memory.call("adagrad", { ...update, secondMoment, epsilon: 1e-10, initialSum: 0 });
  return [
    rule("adam", adam, firstMoment, secondMoment),
    rule("lion", lion, firstMoment),
    rule("sgd with momentum", sgd, firstMoment),
    rule("adagrad", adagrad, secondMoment),
  ];
}

/** `x`, `y`, `z`: three bf16 arrays of `elements`. */
function rowCases(memory: Memory, x: Span, y: Span, z: Span): MemoryKernel[] {
  const cols = 1024;
  const rows = elements / cols;
  const parameters = () => memory.space(cols, "bf16");
  const statistics = () => memory.space(rows, "f32");
  const norm = { rows, cols, dtype: "bf16", x, gamma: parameters(), mean: statistics(), rstd: statistics() } as const;
  const forward = memory.call("layerNorm", { ...norm, epsilon: 1e-5, beta: parameters(), y });
  const backward = memory.call("layerNormBackward", {
    ...{ ...norm, dy: y, dx: z, dgamma: parameters(), dbeta: parameters() },
    ...{ accumulateInput: false, accumulateParameters: false },
  });
  const vocabulary = 50257;
  const tokens = Math.floor(elements / vocabulary);
  const loss = memory.call("crossEntropy", {
    ...{
      rows: tokens,
      cols: vocabulary,
      ld: vocabulary,
      dtype: "bf16",
      logits: x,
      targets: memory.space(tokens, "i32"),
    },
    ...{ rowLoss: memory.space(tokens, "f32"), gradient: true, gradientScale: 1 },
  });
  const two = [pass(memory, elements, "bf16", x, y)];
  const three = [sumPass(memory, x, y, z)];
  const inPlace = [pass(memory, tokens * vocabulary, "bf16", x, x)];
  return [
    { name: "layerNorm", bytes: 4 * elements, kernel: forward, stream: two },
    { name: "layerNormBackward", bytes: 6 * elements, kernel: backward, stream: three },
    { name: "crossEntropy with gradient, 50257", bytes: 4 * tokens * vocabulary, kernel: loss, stream: inPlace },
  ];
}

/** What Llama's family has beside that: 16 heads of 64 in each row, 512 places. */
function llamaCases(memory: Memory, x: Span, y: Span, z: Span): MemoryKernel[] {
  const cols = 1024;
  const rows = elements / cols;
  const count = elements;
  const norm = {
    rows,
    cols,
    dtype: "bf16",
    x,
    gamma: memory.space(cols, "bf16"),
    rstd: memory.space(rows, "f32"),
  } as const;
  const forward = memory.call("rmsNorm", { ...norm, epsilon: 1e-5, y });
  const dgamma = memory.space(cols, "bf16");
  const flags = { accumulateInput: false, accumulateParameter: false };
  const backward = memory.call("rmsNormBackward", { ...norm, ...flags, dy: y, dx: z, dgamma });
  const angles = memory.space(512 * 64, "f32");
  const turn = { rows, places: 512, heads: 16, headDim: 64, dtype: "bf16", angles, inverse: false } as const;
  const turned = memory.call("rope", { ...turn, x, y });
  const gated = memory.call("siluMultiply", { count, dtype: "bf16", gate: x, up: y, y: z });
  const [dgate, dup] = [0, 1].map(() => memory.space(count, "bf16")) as [Span, Span];
  const gradients = { gate: x, up: y, dy: z, dgate, dup };
  const gatedBackward = memory.call("siluMultiplyBackward", { count, dtype: "bf16", ...gradients });
  const two = [pass(memory, count, "bf16", x, y)];
  const three = [sumPass(memory, x, y, z)];
  return [
    { name: "rmsNorm", bytes: 4 * count, kernel: forward, stream: two },
    { name: "rmsNormBackward", bytes: 6 * count, kernel: backward, stream: three },
    { name: "rope", bytes: 4 * count, kernel: turned, stream: two },
    { name: "siluMultiply", bytes: 6 * count, kernel: gated, stream: three },
    { name: "siluMultiplyBackward", bytes: 10 * count, kernel: gatedBackward, stream: [...two, ...three] },
  ];
}

function flatCases(memory: Memory, x: Span, y: Span, z: Span): MemoryKernel[] {
  const count = elements;
  const sum = memory.space(count, "f32");
  const gelu = memory.call("gelu", { count, dtype: "bf16", x, y });
  const geluBackward = memory.call("geluBackward", { count, dtype: "bf16", dy: y, x, dx: z });
  const reduce = { count, src: x, factor: 0.5, accumulate: true } as const;
  const same = memory.call("accumulate", { ...reduce, srcType: "bf16", dstType: "bf16", dst: y });
  const widened = memory.call("accumulate", { ...reduce, srcType: "bf16", dstType: "f32", dst: sum });
  const norm = memory.call("squareSum", {
    count,
    dtype: "bf16",
    x,
    block: 4096,
    out: memory.space(2, "f64"),
    accumulate: false,
  });
  const two = [pass(memory, count, "bf16", x, y)];
  const three = [sumPass(memory, x, y, z)];
  const inPlace = [sumPass(memory, x, y, y)];
  return [
    { name: "gelu", bytes: 4 * count, kernel: gelu, stream: two },
    { name: "geluBackward", bytes: 6 * count, kernel: geluBackward, stream: three },
    { name: "reduce bf16 into bf16", bytes: 6 * count, kernel: same, stream: inPlace },
    {
      name: "reduce bf16 into fp32",
      bytes: 10 * count,
      kernel: widened,
      stream: [pass(memory, count, "f32", sum, sum)],
    },
    { name: "squareSum", bytes: 2 * count, kernel: norm, stream: two },
  ];
}

async function secondsOf(calls: readonly Call[]): Promise<number> {
  const start = performance.now();
  for (const call of calls) await call();
  return (performance.now() - start) / 1000;
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** Measures every kernel and its streaming passes, `rounds` times in turn after one unmeasured round. */
export async function measureMemoryKernels(threads = 1, rounds = 9): Promise<MemoryResult[]> {
  const memory = new Memory(threads);
  const [x, y, z] = [0, 1, 2].map(() => memory.space(elements, "bf16")) as [Span, Span, Span];
  // Ordinary values, and pages that exist.
  for (const [key, dst] of [x, y, z].entries())
    await memory.call("initNormal", { count: elements, dtype: "bf16", key, firstElement: 0, mean: 0, std: 1, dst })();
  const cases = [
    ...optimizerCases(memory),
    ...flatCases(memory, x, y, z),
    ...rowCases(memory, x, y, z),
    ...llamaCases(memory, x, y, z),
  ];
  const times = cases.map(() => ({ kernel: [] as number[], stream: [] as number[] }));
  for (let round = 0; round <= rounds; round++)
    for (const [i, c] of cases.entries()) {
      const kernel = await secondsOf([c.kernel]);
      const stream = await secondsOf(c.stream.map((p) => p.run));
      if (round === 0) continue;
      times[i]!.kernel.push(kernel);
      times[i]!.stream.push(stream);
    }
  memory.close();
  return cases.map((c, i) => {
    const kernelGBs = c.bytes / median(times[i]!.kernel) / 1e9;
    const streamGBs = c.stream.reduce((total, p) => total + p.bytes, 0) / median(times[i]!.stream) / 1e9;
    return { name: c.name, kernelGBs, streamGBs, share: kernelGBs / streamGBs };
  });
}
