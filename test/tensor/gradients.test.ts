// Every op's backward against central differences of its forward.
import { describe, expect, test } from "vitest";
import { causalAttention, groupedAttention } from "../../src/tensor/ops/attention.ts";
import { add, dropout, gelu, multiply, reshape, row, scale, siluMultiply } from "../../src/tensor/ops/elementwise.ts";
import { embedding } from "../../src/tensor/ops/embedding.ts";
import { linear } from "../../src/tensor/ops/linear.ts";
import { headLoss } from "../../src/tensor/ops/loss.ts";
import { layerNorm, rmsNorm } from "../../src/tensor/ops/norm.ts";
import { rope } from "../../src/tensor/ops/rope.ts";
import type { Tape } from "../../src/tensor/tape.ts";
import type { Shape, Tensor } from "../../src/tensor/tensor.ts";
import { checkGradients, type PlainWeight } from "./support.ts";

/** A weight as an input tensor whose gradient can be looked at: a table of which every row is taken once, in order. */
function input(tape: Tape, weight: PlainWeight, shape: Shape = weight.shape): Tensor {
  const rows = weight.shape[0]!;
  const ids = tape.integers(
    Int32Array.from({ length: rows }, (_, i) => i),
    [rows],
  );
  return reshape(tape, embedding(tape, ids, weight), shape);
}

/** Angles that tell places and pairs apart: cosines, then sines. */
function anglesOn(tape: Tape, places: number, headDim: number): Tensor {
  const half = headDim / 2;
  const angles = Float32Array.from({ length: places * headDim }, (_, i) => {
    const angle = Math.floor(i / headDim) / (1 + (i % half));
    return i % headDim < half ? Math.cos(angle) : Math.sin(angle);
  });
  return tape.numbers(angles, [places, headDim]);
}

describe("gradients by central differences", () => {
  for (const layout of ["inOut", "outIn"] as const)
    for (const gelu of [false, true])
      test(`linear, ${layout}${gelu ? ", gelu" : ""}`, () =>
        checkGradients({
          weights: { x: [5, 4], w: layout === "inOut" ? [4, 3] : [3, 4], b: [3] },
          forward: (tape, { x, w, b }) => linear(tape, input(tape, x!), w!, b!, { layout, gelu }),
        }));

  test("linear without bias, and with a frozen weight", async () => {
    await checkGradients({
      weights: { x: [5, 4], w: [4, 3] },
      forward: (tape, { x, w }) => linear(tape, input(tape, x!), w!, undefined, { layout: "inOut" }),
    });
    await checkGradients({
      weights: { x: [5, 4], w: [4, 3], b: [3] },
      frozen: ["w"],
      forward: (tape, { x, w, b }) => linear(tape, input(tape, x!), w!, b!, { layout: "inOut", gelu: true }),
    });
  });

  test("linear added to another's result, as an adapter is: both trained, and the first frozen on a plain input", async () => {
    const weights = { x: [5, 4], w: [3, 4], b: [3], down: [2, 4], up: [3, 2] };
    for (const frozen of [[], ["w", "b"], ["x", "w", "b"]])
      await checkGradients({
        weights,
        frozen,
        forward: (tape, { x, w, b, down, up }) => {
          const from = input(tape, x!);
          const narrow = linear(tape, from, down!, undefined, { layout: "outIn" });
          const onto = linear(tape, from, w!, b!, { layout: "outIn" });
          return linear(tape, narrow, up!, undefined, { layout: "outIn", onto });
        },
      });
  });

  test("a weight used twice", () =>
    checkGradients({
      weights: { x: [5, 4], w: [4, 4], b: [4] },
      forward: (tape, { x, w, b }) => {
        const once = linear(tape, input(tape, x!), w!, b!, { layout: "inOut", gelu: true });
        return linear(tape, once, w!, b!, { layout: "outIn" });
      },
    }));

  test("layerNorm", () =>
    checkGradients(
      {
        weights: { x: [6, 5], g: [5], b: [5] },
        forward: (tape, { x, g, b }) => layerNorm(tape, input(tape, x!), g!, b!, 1e-5),
      },
      5e-3,
    ));

  test("layerNorm with one of its parameters frozen, or only one shared", async () => {
    for (const frozen of [["g"], ["b"], ["g", "b"]])
      await checkGradients(
        {
          weights: { x: [6, 5], g: [5], b: [5] },
          frozen,
          forward: (tape, { x, g, b }) => layerNorm(tape, input(tape, x!), g!, b!, 1e-5),
        },
        5e-3,
      );
    await checkGradients(
      {
        weights: { x: [6, 5], g: [5], b: [5], c: [5] },
        forward: (tape, { x, g, b, c }) =>
          layerNorm(tape, layerNorm(tape, input(tape, x!), g!, b!, 1e-5), g!, c!, 1e-5),
      },
      1e-2,
    );
  });

  test("layerNorm adds into a gradient that is there already", () =>
    checkGradients(
      {
        weights: { x: [6, 5], g: [5], b: [5] },
        forward: (tape, { x, g, b }) => {
          const stream = scale(tape, input(tape, x!), 1.5);
          return add(tape, stream, layerNorm(tape, stream, g!, b!, 1e-5));
        },
      },
      5e-3,
    ));

  test("several products of one input: the later ones add to its gradient", () =>
    checkGradients({
      weights: { x: [5, 4], a: [3, 4], b: [3, 4], c: [3, 4] },
      forward: (tape, { x, a, b, c }) => {
        const shared = scale(tape, input(tape, x!), 1.5);
        const [p, q, r] = [a!, b!, c!].map((w) => linear(tape, shared, w, undefined, { layout: "outIn" }));
        return add(tape, multiply(tape, p!, q!), r!);
      },
    }));

  test("rmsNorm: with a frozen weight, a shared one, and into a gradient that is there already", async () => {
    const weights = { x: [6, 5], g: [5] };
    await checkGradients({ weights, forward: (tape, { x, g }) => rmsNorm(tape, input(tape, x!), g!, 1e-5) }, 5e-3);
    await checkGradients(
      { weights, frozen: ["g"], forward: (tape, { x, g }) => rmsNorm(tape, input(tape, x!), g!, 1e-5) },
      5e-3,
    );
    await checkGradients(
      {
        weights,
        forward: (tape, { x, g }) => {
          const stream = scale(tape, input(tape, x!), 1.5);
          return add(tape, stream, rmsNorm(tape, rmsNorm(tape, stream, g!, 1e-2), g!, 1e-2));
        },
      },
      1e-2,
    );
  });

  test("rope", () =>
    checkGradients({
      weights: { x: [6, 8] },
      forward: (tape, { x }) => rope(tape, input(tape, x!, [2, 3, 8]), anglesOn(tape, 3, 4)),
    }));

  test("silu(gate) * up", () =>
    checkGradients({
      weights: { x: [4, 3], y: [4, 3] },
      forward: (tape, { x, y }) => siluMultiply(tape, input(tape, x!), input(tape, y!)),
      spread: 3,
    }));

  test("grouped-query attention", async () => {
    for (const kvHeads of [1, 2, 4])
      await checkGradients(
        {
          weights: { q: [10, 8], k: [10, 2 * kvHeads], v: [10, 2 * kvHeads] },
          forward: (tape, { q, k, v }) =>
            groupedAttention(
              tape,
              input(tape, q!, [2, 5, 8]),
              input(tape, k!, [2, 5, 2 * kvHeads]),
              input(tape, v!, [2, 5, 2 * kvHeads]),
              { heads: 4, kvHeads, name: "a" },
            ),
          spread: 1.5,
        },
        5e-3,
      );
  });

  test("grouped-query attention in a window", () =>
    checkGradients(
      {
        weights: { q: [14, 8], k: [14, 4], v: [14, 4] },
        forward: (tape, { q, k, v }) =>
          groupedAttention(tape, input(tape, q!, [2, 7, 8]), input(tape, k!, [2, 7, 4]), input(tape, v!, [2, 7, 4]), {
            heads: 4,
            kvHeads: 2,
            name: "a",
            window: 3,
          }),
        spread: 1.5,
      },
      5e-3,
    ));

  test("attention", () =>
    checkGradients(
      {
        weights: { x: [10, 12] },
        forward: (tape, { x }) => causalAttention(tape, input(tape, x!, [2, 5, 12]), { heads: 2, name: "a" }),
        spread: 1.5,
      },
      5e-3,
    ));

  test("attention with dropout: the same weights are dropped in both passes", () =>
    checkGradients(
      {
        weights: { x: [10, 12] },
        forward: (tape, { x }) =>
          causalAttention(tape, input(tape, x!, [2, 5, 12]), { heads: 2, name: "a", dropout: 0.4 }),
        spread: 1.5,
      },
      5e-3,
    ));

  test("embedding: rows used never, once and more often, alone and onto a stream", async () => {
    const ids = (tape: Tape): Tensor => tape.integers(Int32Array.of(2, 0, 2, 2, 4, 0), [2, 3]);
    await checkGradients({
      weights: { w: [5, 4] },
      forward: (tape, { w }) => embedding(tape, ids(tape), w!),
    });
    await checkGradients({
      weights: { w: [5, 4], v: [7, 4] },
      forward: (tape, { w, v }) => {
        const places = tape.integers(Int32Array.of(0, 1, 2, 0, 1, 2), [2, 3]);
        return embedding(tape, places, v!, embedding(tape, ids(tape), w!));
      },
    });
  });

  test("headLoss, tied to the table that made its input, with targets that are ignored", () =>
    checkGradients(
      {
        weights: { w: [7, 4] },
        forward: (tape, { w }) => {
          const x = embedding(tape, tape.integers(Int32Array.of(1, 5, 2, 6, 1), [5]), w!);
          return headLoss(tape, x, w!, tape.integers(Int32Array.of(5, -1, 6, 1, 0), [5]));
        },
        spread: 2,
      },
      5e-3,
    ));

  test("add of two, and of one with itself", async () => {
    await checkGradients({
      weights: { x: [3, 4], y: [3, 4] },
      forward: (tape, { x, y }) => add(tape, input(tape, x!), input(tape, y!)),
    });
    await checkGradients({
      weights: { x: [3, 4] },
      forward: (tape, { x }) => {
        const a = input(tape, x!);
        return add(tape, a, add(tape, a, a));
      },
    });
  });

  test("multiply of two, and of one with itself", async () => {
    await checkGradients({
      weights: { x: [3, 4], y: [3, 4] },
      forward: (tape, { x, y }) => multiply(tape, input(tape, x!), input(tape, y!)),
    });
    await checkGradients({
      weights: { x: [3, 4] },
      forward: (tape, { x }) => {
        const a = input(tape, x!);
        return multiply(tape, a, a);
      },
    });
  });

  test("scale, gelu, row, reshape", async () => {
    await checkGradients({ weights: { x: [3, 4] }, forward: (tape, { x }) => scale(tape, input(tape, x!), -2.5) });
    await checkGradients({
      weights: { x: [3, 4] },
      forward: (tape, { x }) => gelu(tape, input(tape, x!)),
      spread: 3,
    });
    await checkGradients({
      weights: { x: [4, 3] },
      forward: (tape, { x }) => {
        const a = input(tape, x!);
        return add(tape, row(tape, a, 2), row(tape, scale(tape, a, 3), 0));
      },
    });
    await checkGradients({
      weights: { x: [4, 3] },
      forward: (tape, { x }) => multiply(tape, input(tape, x!, [2, 6]), input(tape, x!, [2, 6])),
    });
  });

  test("dropout", () =>
    checkGradients({
      weights: { x: [8, 4] },
      forward: (tape, { x }) => dropout(tape, scale(tape, input(tape, x!), 1.5), 0.3, "d"),
    }));

  test("the check can fail", async () => {
    const check = checkGradients({
      weights: { x: [3, 4] },
      forward: (tape, { x }) => {
        const a = input(tape, x!);
        // A forward of 2x whose backward says x.
        const y = tape.make(a.shape, "f32", true);
        tape.device.issue("compute", "scale", { count: 12, dtype: "f32", x: a.span, factor: 2, out: y.span });
        return tape.record("wrong", [a], y, [], (dy) => [dy.retain()]);
      },
    });
    await expect(check).rejects.toThrow(/x\[\d+\]/);
  });
});
