// Operations of attention: a pair of a query and a key that it sees costs two products, forward; pairs are counted one by one here.
import { expect, test } from "vitest";
import { operationsOf } from "../../src/device/operations.ts";
import type { OpArgs } from "../../src/device/ops.ts";

const heads = { batch: 3, heads: 4, kvHeads: 2, headDim: 8 } as const;

test.each([
  { seq: 10, keys: 10, window: 10 },
  { seq: 10, keys: 10, window: 99 },
  { seq: 10, keys: 10, window: 1 },
  { seq: 10, keys: 10, window: 4 },
  { seq: 5, keys: 12, window: 12 },
  { seq: 5, keys: 12, window: 10 },
  { seq: 5, keys: 12, window: 3 },
  { seq: 1, keys: 12, window: 3 },
])("$seq queries, $keys keys, a window of $window", ({ seq, keys, window }) => {
  let pairs = 0;
  for (let query = keys - seq; query < keys; query++)
    for (let key = 0; key <= query; key++) if (key > query - window) pairs++;
  const args = { ...heads, seq, keys, window } as OpArgs<"attention">;
  expect(operationsOf("attention", args)).toBe(3 * 4 * pairs * 2 * (2 * 8));
});

test("backward five products, also in a window", () => {
  const args = { ...heads, seq: 10, window: 4 } as OpArgs<"attentionBackward">;
  const pairs = 1 + 2 + 3 + 7 * 4;
  expect(operationsOf("attentionBackward", args)).toBe(3 * 4 * pairs * 5 * (2 * 8));
});
