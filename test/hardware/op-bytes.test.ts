// Bytes that ops read and write, by hand, and for every op of the table.
import { expect, test } from "vitest";
import { type FieldKind, type OpArgs, type OpName, opFields, opNames } from "../../src/device/ops.ts";
import { touchedBytes } from "../../src/hardware/op-bytes.ts";
import { opOf } from "./machines.ts";

const bytesOf = <K extends OpName>(name: K, given: Partial<OpArgs<K>>): number =>
  touchedBytes(name, opOf(name, given).args);

const somewhere = { region: 0, offset: 0 };
const product = { m: 3, n: 5, k: 7, dtype: "bf16", cType: "bf16", accumulate: false, preActivation: null } as const;
const rows = { rows: 4, cols: 10, dtype: "bf16" } as const;

test("a product reads both operands and writes the result", () => {
  // 3 x 7 and 5 x 7 elements of 2 bytes, 3 x 5 written.
  expect(bytesOf("matmul", product)).toBe(42 + 70 + 30);
  expect(bytesOf("matmul", { ...product, cType: "f32" })).toBe(42 + 70 + 60);
  expect(bytesOf("matmul", { ...product, accumulate: true })).toBe(42 + 70 + 60);
  expect(bytesOf("matmul", { ...product, preActivation: somewhere })).toBe(42 + 70 + 60);
});

test("attention reads q, k and v and writes what q is the size of; backward, as much again and the gradients", () => {
  const shape = { batch: 2, seq: 16, window: 99, heads: 4, kvHeads: 2, headDim: 8, dtype: "f16" } as const;
  const [queries, keys] = [2 * 16 * 4 * 8 * 2, 2 * 16 * 2 * 8 * 2];
  expect(bytesOf("attention", { ...shape, keys: 16 })).toBe(2 * queries + 2 * keys);
  expect(bytesOf("attention", { ...shape, keys: 48 })).toBe(2 * queries + 6 * keys);
  // The first query sees 17 keys, and the others one more each.
  expect(bytesOf("attention", { ...shape, keys: 48, window: 17 })).toBe(2 * queries + 4 * keys);
  // q, out, its gradient, dq; k, v, dk, dv.
  expect(bytesOf("attentionBackward", shape)).toBe(4 * queries + 4 * keys);
});

test("ops of one element at a time", () => {
  expect(bytesOf("gelu", { count: 10, dtype: "bf16" })).toBe(40);
  expect(bytesOf("geluBackward", { count: 10, dtype: "bf16" })).toBe(60);
  expect(bytesOf("add", { count: 10, dtype: "f32" })).toBe(120);
  expect(bytesOf("cast", { count: 10, srcType: "f32", dstType: "bf16" })).toBe(60);
  expect(bytesOf("copy", { bytes: 10 })).toBe(20);
  expect(bytesOf("copyRows", { rows: 3, bytes: 10 })).toBe(60);
  expect(bytesOf("fill", { count: 10, dtype: "f32" })).toBe(40);
  expect(bytesOf("accumulate", { count: 10, srcType: "bf16", dstType: "f32", accumulate: false })).toBe(60);
  expect(bytesOf("accumulate", { count: 10, srcType: "bf16", dstType: "f32", accumulate: true })).toBe(100);
});

test("ops of rows", () => {
  expect(bytesOf("layerNorm", rows)).toBe(160);
  expect(bytesOf("layerNormBackward", { ...rows, accumulateInput: false })).toBe(240);
  expect(bytesOf("layerNormBackward", { ...rows, accumulateInput: true })).toBe(320);
  expect(bytesOf("crossEntropy", { ...rows, gradient: false })).toBe(80);
  expect(bytesOf("crossEntropy", { ...rows, gradient: true })).toBe(160);
  // A table of 100 rows is set to zero before the first rows are added to it.
  expect(bytesOf("embeddingBackward", { ...rows, vocabulary: 100, accumulate: true })).toBe(240);
  expect(bytesOf("embeddingBackward", { ...rows, vocabulary: 100, accumulate: false })).toBe(240 + 2000);
});

test("an optimizer reads a gradient, and reads and writes its fp32 states", () => {
  const update = { count: 1, gradientType: "bf16", parameterType: "bf16", parameter: somewhere } as const;
  // ZeRO-Offload's CPU-Adam: master and two moments both ways, gradient and 16-bit copy.
  expect(bytesOf("adam", update)).toBe(3 * 8 + 2 + 2);
  expect(bytesOf("adam", { ...update, gradientType: "f32", parameter: null })).toBe(3 * 8 + 4);
  expect(bytesOf("lion", update)).toBe(2 * 8 + 4);
  expect(bytesOf("adagrad", update)).toBe(2 * 8 + 4);
  expect(bytesOf("sgd", { ...update, firstMoment: somewhere })).toBe(2 * 8 + 4);
  expect(bytesOf("sgd", { ...update, firstMoment: null })).toBe(8 + 4);
});

/** A value for every field: sizes of `size`, everything else as small as can be. */
const fieldValue = (kind: FieldKind, size: number): unknown => {
  if (kind === "size") return size;
  if (kind === "dtype") return "bf16";
  if (kind === "flag") return false;
  if (kind === "segments") return [];
  return kind === "span" ? somewhere : kind === "span?" ? null : 1;
};
const sized = (name: OpName, size: number): OpArgs<OpName> =>
  Object.fromEntries(
    Object.entries(opFields[name]).map(([field, kind]) => [field, fieldValue(kind, size)]),
  ) as unknown as OpArgs<OpName>;

/** Their time is that of their links. */
const collectives: readonly OpName[] = ["reduceScatter", "allGather", "broadcast", "barrier"];

test.each(opNames)("%s: no op of the table is forgotten, and more work touches more bytes", (name) => {
  const [few, many] = [touchedBytes(name, sized(name, 8)), touchedBytes(name, sized(name, 16))];
  if (collectives.includes(name)) expect([few, many]).toEqual([0, 0]);
  else {
    expect(few).toBeGreaterThan(0);
    expect(many).toBeGreaterThanOrEqual(2 * few);
  }
});
