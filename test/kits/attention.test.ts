/** Causal attention and its gradients against the textbook formulas in fp64, on every instruction set. */
import { expect, it } from "vitest";
import { dtypeBytes } from "../../src/device/dtype.ts";
import type { OpArgs } from "../../src/device/ops.ts";
import { wordsOf } from "./philox-reference.ts";
import {
  describeKernels,
  type FloatType,
  floatTypes,
  noise,
  rounded,
  sameForAnyWorkers,
  Workbench,
} from "./support.ts";

interface Case {
  readonly batch: number;
  readonly seq: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly drop: number;
  /** Left out: none. */
  readonly window?: number;
}

const dropKey = 0x1234567890;
const firstSample = 3;

/**
 * Odd lengths, head sizes on and off the tiles, shared key heads, dropout, and more keys than one chunk or block; windows of few
 * tokens, on and off the tiles, of a block and more, and one that hides nothing.
 */
const cases: readonly Case[] = [
  { batch: 1, seq: 1, heads: 1, kvHeads: 1, headDim: 8, drop: 0 },
  { batch: 2, seq: 7, heads: 2, kvHeads: 1, headDim: 5, drop: 0 },
  { batch: 1, seq: 50, heads: 2, kvHeads: 2, headDim: 16, drop: 0.25 },
  { batch: 2, seq: 33, heads: 6, kvHeads: 2, headDim: 20, drop: 0 },
  { batch: 1, seq: 131, heads: 2, kvHeads: 1, headDim: 64, drop: 0.1 },
  { batch: 1, seq: 67, heads: 1, kvHeads: 1, headDim: 80, drop: 0 },
  { batch: 1, seq: 49, heads: 2, kvHeads: 2, headDim: 128, drop: 0 },
  { batch: 1, seq: 14, heads: 1, kvHeads: 1, headDim: 256, drop: 0 },
  { batch: 1, seq: 541, heads: 2, kvHeads: 1, headDim: 8, drop: 0 },
  { batch: 1, seq: 70, heads: 2, kvHeads: 1, headDim: 16, drop: 0, window: 2 },
  { batch: 2, seq: 131, heads: 4, kvHeads: 2, headDim: 20, drop: 0, window: 7 },
  { batch: 1, seq: 131, heads: 2, kvHeads: 2, headDim: 16, drop: 0.25, window: 50 },
  { batch: 1, seq: 50, heads: 1, kvHeads: 1, headDim: 16, drop: 0, window: 1000 },
  { batch: 1, seq: 1045, heads: 2, kvHeads: 1, headDim: 8, drop: 0, window: 48 },
  { batch: 1, seq: 911, heads: 1, kvHeads: 1, headDim: 8, drop: 0.1, window: 333 },
];
const title = (c: Case) =>
  `${c.batch} x ${c.seq}, heads ${c.heads}/${c.kvHeads} of ${c.headDim}, dropout ${c.drop}, window ${c.window ?? "none"}`;

/** Row strides in elements: operands lie in wider rows, as they do in a fused qkv buffer. */
const strides = (c: Case) => ({
  q: c.heads * c.headDim + 3,
  kv: c.kvHeads * c.headDim + 1,
  out: c.heads * c.headDim + 2,
});

interface Inputs {
  readonly q: Float64Array;
  readonly k: Float64Array;
  readonly v: Float64Array;
  readonly dOut: Float64Array;
}

function inputsOf(c: Case, dtype: FloatType): Inputs {
  const rows = c.batch * c.seq;
  const stride = strides(c);
  const draw = (count: number, seed: number) => rounded(noise(count, seed, 1.5), dtype);
  return {
    q: draw(rows * stride.q, 1),
    k: draw(rows * stride.kv, 2),
    v: draw(rows * stride.kv, 3),
    dOut: draw(rows * stride.out, 4),
  };
}

interface Answers {
  readonly out: Float64Array;
  readonly lse: Float64Array;
  readonly dq: Float64Array;
  readonly dk: Float64Array;
  readonly dv: Float64Array;
}

/** Adds factor * from[fromAt ..] to to[toAt ..]. */
function addScaled(to: Float64Array, toAt: number, factor: number, from: Float64Array, fromAt: number, count: number) {
  for (let d = 0; d < count; d++) to[toAt + d]! += factor * from[fromAt + d]!;
}
function dot(a: Float64Array, aAt: number, b: Float64Array, bAt: number, count: number): number {
  let sum = 0;
  for (let d = 0; d < count; d++) sum += a[aAt + d]! * b[bAt + d]!;
  return sum;
}

/** One row of the score matrix, forwards and backwards: query `i` of sample `b` and head `h`. */
function referenceRow(c: Case, x: Inputs, y: Answers, b: number, h: number, i: number) {
  const { seq, heads, headDim, drop } = c;
  const stride = strides(c);
  const kvHead = Math.floor(h / (heads / c.kvHeads));
  const qAt = (b * seq + i) * stride.q + h * headDim;
  const outAt = (b * seq + i) * stride.out + h * headDim;
  const first = Math.max(0, i + 1 - (c.window ?? seq));
  const kvAt = (j: number) => (b * seq + first + j) * stride.kv + kvHead * headDim;
  const scale = headDim ** -0.5;
  const scores = Array.from({ length: i + 1 - first }, (_, j) => scale * dot(x.q, qAt, x.k, kvAt(j), headDim));
  const largest = Math.max(...scores);
  const sum = scores.reduce((s, score) => s + Math.exp(score - largest), 0);
  y.lse[(b * heads + h) * seq + i] = largest + Math.log(sum);
  const words = drop > 0 ? wordsOf(dropKey, (((firstSample + b) * heads + h) * seq + i) * seq, i + 1).slice(first) : [];
  const threshold = Math.floor(Math.fround(drop) * 2 ** 32);
  const factors = scores.map((_, j) => (drop > 0 ? (words[j]! < threshold ? 0 : 1 / (1 - Math.fround(drop))) : 1));
  const p = scores.map((score) => Math.exp(score - largest) / sum);
  for (const [j, pj] of p.entries()) addScaled(y.out, outAt, pj * factors[j]!, x.v, kvAt(j), headDim);
  const dp = p.map((_, j) => dot(x.dOut, outAt, x.v, kvAt(j), headDim) * factors[j]!);
  const mean = p.reduce((s, pj, j) => s + pj * dp[j]!, 0);
  for (const [j, pj] of p.entries()) {
    const ds = pj * (dp[j]! - mean) * scale;
    addScaled(y.dv, kvAt(j), pj * factors[j]!, x.dOut, outAt, headDim);
    addScaled(y.dq, qAt, ds, x.k, kvAt(j), headDim);
    addScaled(y.dk, kvAt(j), ds, x.q, qAt, headDim);
  }
}

function reference(c: Case, x: Inputs): Answers {
  const y: Answers = {
    out: new Float64Array(x.dOut.length),
    lse: new Float64Array(c.batch * c.heads * c.seq),
    dq: new Float64Array(x.q.length),
    dk: new Float64Array(x.k.length),
    dv: new Float64Array(x.v.length),
  };
  for (let b = 0; b < c.batch; b++)
    for (let h = 0; h < c.heads; h++) for (let i = 0; i < c.seq; i++) referenceRow(c, x, y, b, h, i);
  return y;
}

const answered = new Map<string, { inputs: Inputs; wanted: Answers }>();
/** Inputs and reference of a case: the same for every instruction set. */
function caseOf(c: Case, dtype: FloatType) {
  const key = `${title(c)} ${dtype}`;
  const inputs = answered.get(key)?.inputs ?? inputsOf(c, dtype);
  const found = answered.get(key) ?? { inputs, wanted: reference(c, inputs) };
  answered.set(key, found);
  return found;
}

/** Forward, then backward, from memory that held garbage. */
async function run(bench: Workbench, c: Case, dtype: FloatType, x: Inputs, scale = c.headDim ** -0.5) {
  const stride = strides(c);
  const garbage = (count: number) => bench.place(new Float64Array(count), dtype);
  const forward: OpArgs<"attention"> = {
    batch: c.batch,
    seq: c.seq,
    heads: c.heads,
    kvHeads: c.kvHeads,
    headDim: c.headDim,
    scale,
    dtype,
    q: bench.place(x.q, dtype),
    k: bench.place(x.k, dtype),
    v: bench.place(x.v, dtype),
    qStride: stride.q,
    kvStride: stride.kv,
    out: garbage(x.dOut.length),
    outStride: stride.out,
    lse: bench.space(4 * c.batch * c.heads * c.seq),
    window: c.window ?? c.seq,
    dropProbability: c.drop,
    dropKey,
    firstSample,
    keys: c.seq,
  };
  const gradients = { dq: garbage(x.q.length), dk: garbage(x.k.length), dv: garbage(x.v.length) };
  await bench.run("attention", forward);
  await bench.run("attentionBackward", {
    ...forward,
    ...gradients,
    dOut: bench.place(x.dOut, dtype),
    dOutStride: stride.out,
    dqStride: stride.q,
    dkvStride: stride.kv,
  });
  return { ...gradients, out: forward.out, lse: forward.lse };
}

/** Columns of padded rows that belong to heads. */
const inside = (values: Float64Array, stride: number, width: number) => values.filter((_, i) => i % stride < width);

/** The largest difference, as a part of the largest wanted value. */
function worstPart(found: Float64Array, wanted: Float64Array): number {
  let [difference, size] = [0, 0.1];
  for (const [i, w] of wanted.entries()) {
    const d = Math.abs(found[i]! - w);
    if (!(d <= difference)) difference = d;
    size = Math.max(size, Math.abs(w));
  }
  return difference / size;
}

/** Of the largest value: fp32 sums; rounded probabilities and results, and for gradients rounded outputs too. */
const allowed: Readonly<Record<FloatType, number>> = { f32: 3e-6, bf16: 0.015, f16: 0.002 };

describeKernels("attention", (isa) => {
  it.each(floatTypes.flatMap((dtype) => cases.map((c) => ({ dtype, c, name: title(c) }))))(
    "$dtype: $name",
    async ({ dtype, c }) => {
      const { inputs, wanted } = caseOf(c, dtype);
      const bench = new Workbench(isa);
      const spans = await run(bench, c, dtype, inputs);
      const stride = strides(c);
      const lse = bench.read(spans.lse, wanted.lse.length, "f32");
      expect(worstPart(lse, wanted.lse)).toBeLessThan(dtype === "bf16" ? 1e-5 : 3e-6);
      for (const [name, rowStride, heads] of [
        ["out", stride.out, c.heads],
        ["dq", stride.q, c.heads],
        ["dk", stride.kv, c.kvHeads],
        ["dv", stride.kv, c.kvHeads],
      ] as const) {
        const found = inside(bench.read(spans[name], wanted[name].length, dtype), rowStride, heads * c.headDim);
        const part = worstPart(found, inside(wanted[name], rowStride, heads * c.headDim));
        expect(part, name).toBeLessThan(allowed[dtype]);
      }
      bench.close();
    },
  );

  it.each(floatTypes)("%s: the number of workers changes no bit", async (dtype) => {
    for (const c of [cases[3]!, cases[4]!, cases[10]!])
      await sameForAnyWorkers(isa, async (bench) => {
        const inputs = inputsOf(c, dtype);
        const { q, k, v, dOut } = inputs;
        const spans = await run(bench, c, dtype, inputs);
        const bytes = (name: "out" | "dq" | "dk" | "dv", like: Float64Array) =>
          bench.bytes(spans[name], like.length * dtypeBytes[dtype]);
        return [bytes("out", dOut), bytes("dq", q), bytes("dk", k), bytes("dv", v)];
      });
  });

  it.each(floatTypes)("%s: queries after earlier keys have the bits that they have among all", async (dtype) => {
    const long: Case = { batch: 1, seq: 1045, heads: 4, kvHeads: 2, headDim: 20, drop: 0 };
    const all: readonly Case[] = [
      long,
      { batch: 2, seq: 70, heads: 2, kvHeads: 2, headDim: 128, drop: 0 },
      ...[1, 29, 600].map((window) => ({ ...long, heads: 1, kvHeads: 1, window })),
    ];
    for (const c of all) {
      const x = inputsOf(c, dtype);
      const stride = strides(c);
      const bytes = dtypeBytes[dtype];
      const bench = new Workbench(isa);
      const whole = await run(bench, c, dtype, x);
      for (const [first, seq] of [
        [0, 1],
        [8, 1],
        [13, 4],
        [c.seq - 5, 5],
        [c.seq - 1, 1],
        [c.seq - 62, 60],
        // Windows that begin in one chunk of keys, beside others that begin in the next.
        ...(c.window ? [512, 541].flatMap((at) => [[at, 1] as const, [at - 9, 20] as const]) : []),
      ] as const) {
        const keys = first + seq;
        const rowsOf = (all: Float64Array, rowStride: number, from: number, to: number) =>
          Array.from({ length: c.batch }, (_, b) => [
            ...all.subarray((b * c.seq + from) * rowStride, (b * c.seq + to) * rowStride),
          ]).flat();
        const out = bench.space(c.batch * seq * stride.out * bytes);
        await bench.run("attention", {
          ...{ batch: c.batch, seq, keys, heads: c.heads, kvHeads: c.kvHeads, headDim: c.headDim, dtype },
          ...{ scale: c.headDim ** -0.5, qStride: stride.q, kvStride: stride.kv, outStride: stride.out },
          q: bench.place(rowsOf(x.q, stride.q, first, keys), dtype),
          k: bench.place(rowsOf(x.k, stride.kv, 0, keys), dtype),
          v: bench.place(rowsOf(x.v, stride.kv, 0, keys), dtype),
          ...{ out, lse: bench.space(4 * c.batch * c.heads * seq), window: c.window ?? keys },
          ...{ dropProbability: 0, dropKey, firstSample },
        });
        for (let b = 0; b < c.batch; b++)
          for (let t = 0; t < seq; t++) {
            const at = ({ region, offset }: typeof out, row: number) =>
              bench.bytes({ region, offset: offset + row * stride.out * bytes }, c.heads * c.headDim * bytes);
            const [found, wanted] = [at(out, b * seq + t), at(whole.out, b * c.seq + first + t)];
            expect(Buffer.compare(found, wanted), `query ${first + t} of ${seq} in one call`).toBe(0);
          }
      }
      bench.close();
    }
  });

  it("what lies tiles outside of the window is not read: a probability of zero times NaN would be NaN", async () => {
    const c = { batch: 1, seq: 1045, heads: 2, kvHeads: 1, headDim: 8, drop: 0, window: 48 };
    const x = inputsOf(c, "f32");
    const stride = strides(c);
    const [v, dOut] = [x.v.slice(), x.dOut.slice()];
    v[100 * stride.kv] = Number.NaN;
    dOut[900 * stride.out] = Number.NaN;
    const bench = new Workbench(isa);
    const spans = await run(bench, c, "f32", { ...x, v, dOut });
    const broken = (name: "out" | "dk" | "dv", rowStride: number) => {
      const all = bench.read(spans[name], c.seq * rowStride, "f32");
      return Array.from({ length: c.seq }, (_, t) => t).filter((t) => Number.isNaN(all[t * rowStride]!));
    };
    // Three tiles are at most 144 positions.
    const out = broken("out", stride.out);
    expect(out).toContain(100 + 47);
    expect(Math.max(...out)).toBeLessThan(100 + 48 + 144);
    for (const name of ["dk", "dv"] as const) {
      const keys = broken(name, stride.kv).filter((t) => t > 500); // before it, those of broken outputs
      expect(keys).toContain(900 - 47);
      expect(Math.min(...keys), name).toBeGreaterThan(900 - 48 - 144);
    }
    bench.close();
  });

  it.each(floatTypes)("%s: scratch follows the window, and never shrinks while a text grows", (dtype) => {
    const bench = new Workbench(isa);
    const rows = bench.space(4 * 500 * 32);
    const scratchOf = (keys: number, window: number) =>
      bench.scratchBytes("attention", {
        ...{ batch: 1, seq: 40, keys, window, heads: 4, kvHeads: 1, headDim: 8, scale: 1, dtype },
        ...{ q: rows, k: rows, v: rows, out: rows, qStride: 32, kvStride: 8, outStride: 32, lse: rows },
        ...{ dropProbability: 0, dropKey, firstSample },
      });
    const sizes = Array.from({ length: 440 }, (_, i) => scratchOf(40 + i, 30));
    expect(sizes).toEqual(sizes.toSorted((a, b) => a - b));
    expect(sizes.at(-1)).toBe(sizes[100]);
    expect(scratchOf(479, 30)).toBeLessThan(scratchOf(479, 479));
    bench.close();
  });

  it("scores far apart neither overflow nor lose the largest", async () => {
    const c = { batch: 1, seq: 60, heads: 1, kvHeads: 1, headDim: 16, drop: 0 };
    const inputs = inputsOf(c, "f32");
    const large = {
      ...inputs,
      q: inputs.q.map((x) => Math.fround(x * 40)),
      k: inputs.k.map((x) => Math.fround(x * 40)),
    };
    const bench = new Workbench(isa);
    const spans = await run(bench, c, "f32", large);
    const wanted = reference(c, large);
    const found = inside(bench.read(spans.out, wanted.out.length, "f32"), strides(c).out, 16);
    expect(worstPart(found, inside(wanted.out, strides(c).out, 16))).toBeLessThan(1e-3);
    bench.close();
  });

  it("NaN in a query stays in its row; NaN in a key reaches that position and later ones in its window", async () => {
    const c = { batch: 2, seq: 130, heads: 1, kvHeads: 1, headDim: 16, drop: 0 };
    const x = inputsOf(c, "f32");
    const stride = strides(c);
    const rowsWithNaN = async (broken: Inputs, window = c.seq) => {
      const bench = new Workbench(isa);
      const spans = await run(bench, { ...c, window }, "f32", broken);
      const out = bench.read(spans.out, x.dOut.length, "f32");
      bench.close();
      return Array.from({ length: c.batch * c.seq }, (_, t) => t).filter((t) => Number.isNaN(out[t * stride.out]!));
    };
    const q = x.q.slice();
    q[100 * stride.q + 2] = Number.NaN;
    expect(await rowsWithNaN({ ...x, q })).toEqual([100]);
    const k = x.k.slice();
    k[100 * stride.kv + 2] = Number.NaN;
    expect(await rowsWithNaN({ ...x, k })).toEqual(Array.from({ length: 30 }, (_, i) => 100 + i));
    expect(await rowsWithNaN({ ...x, k }, 5)).toEqual([100, 101, 102, 103, 104]);
  });
});
