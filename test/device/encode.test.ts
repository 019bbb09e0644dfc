// Ops as the native core reads them: field order, spans as two numbers, null spans, segments, and what scratch depends on.
import { describe, expect, test } from "vitest";
import { dtypeCode } from "../../src/device/dtype.ts";
import { encode, scratchKey } from "../../src/device/encode.ts";
import { type OpArgs, opNames, type Segment } from "../../src/device/ops.ts";
import { InternalError } from "../../src/errors/errors.ts";

const span = (offset: number) => ({ region: 3, offset });

describe("encode", () => {
  test("fields come in the table's order, whatever the order they are given in", () => {
    const { code, values } = encode("fill", { dst: span(512), value: 1.5, count: 7, dtype: "bf16" }, null);
    expect(opNames[code]).toBe("fill");
    expect([...values]).toEqual([7, dtypeCode.bf16, 1.5, 3, 512]);
  });

  test("an absent span is region -1; flags are 0 and 1; scratch is filled in", () => {
    const args: OpArgs<"columnSum"> = {
      rows: 2,
      cols: 3,
      ld: 4,
      dtype: "f32",
      x: span(0),
      out: span(256),
      accumulate: true,
    };
    expect([...encode("columnSum", args, null).values]).toEqual([2, 3, 4, 0, 3, 0, 3, 256, 1, -1, 0]);
    expect([...encode("columnSum", args, span(1024)).values].slice(-2)).toEqual([3, 1024]);
  });

  test("segments: their number, then whole, stride, start, count, own of each", () => {
    const segments: Segment[] = [
      { whole: span(0), stride: 10, start: 2, count: 5, own: span(2048) },
      { whole: span(4096), stride: 6, start: 0, count: 6, own: span(8192) },
    ];
    const { values } = encode("allGather", { group: 1, tag: 99, dtype: "f32", segments }, null);
    expect([...values]).toEqual([1, 99, 0, 2, 3, 0, 10, 2, 5, 3, 2048, 3, 4096, 6, 0, 6, 3, 8192]);
  });

  test("more segments than the wire holds are our own bug", () => {
    const one: Segment = { whole: span(0), stride: 1, start: 0, count: 1, own: span(0) };
    const args = { group: 0, tag: 0, dtype: "f32", segments: Array.from({ length: 2000 }, () => one) } as const;
    expect(() => encode("allGather", args, null)).toThrow(InternalError);
  });
});

describe("what scratch depends on", () => {
  const args: OpArgs<"dropout"> = {
    count: 8,
    dtype: "f32",
    x: span(0),
    out: span(256),
    probability: 0.1,
    key: 5,
    firstElement: 0,
  };

  test("sizes, types and flags, but no address, factor or name of random numbers", () => {
    const key = scratchKey("dropout", args);
    expect(scratchKey("dropout", { ...args, x: span(512), key: 6, firstElement: 9, probability: 0.5 })).toBe(key);
    expect(scratchKey("dropout", { ...args, count: 9 })).not.toBe(key);
    expect(scratchKey("dropout", { ...args, dtype: "bf16" })).not.toBe(key);
  });

  test("whether an optional span is there", () => {
    const layerNorm = {
      rows: 2,
      cols: 4,
      dtype: "f32",
      dy: span(0),
      x: span(0),
      gamma: span(0),
      mean: span(0),
      rstd: span(0),
      dx: span(0),
      accumulateInput: false,
      accumulateParameters: false,
    } as const;
    const without = scratchKey("layerNormBackward", { ...layerNorm, dgamma: null, dbeta: null });
    const given = scratchKey("layerNormBackward", { ...layerNorm, dgamma: span(0), dbeta: span(256) });
    expect(given).not.toBe(without);
  });
});
