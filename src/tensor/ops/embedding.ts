/** Rows of a table by index. */
import { dtypeBytes } from "../../device/dtype.ts";
import { DTypeError, ShapeError } from "../../errors/errors.ts";
import type { Tape } from "../tape.ts";
import type { Tensor } from "../tensor.ts";
import type { Weight } from "../weight.ts";

/**
 * table[ids] for ids (i32) of any shape; returns [...ids.shape, width], plus `onto` where given (one rounding for the sum of
 * the two where the table's rows are exact in the result's type).
 */
export function embedding(tape: Tape, ids: Tensor, table: Weight, onto?: Tensor): Tensor {
  if (ids.dtype !== "i32") throw new DTypeError(`embedding ${table.name}`, ids.dtype, "i32 indices");
  const [vocabulary, cols] = table.shape as [number, number];
  const rows = ids.elements;
  if (onto && onto.elements !== rows * cols)
    throw new ShapeError(
      `embedding ${table.name}`,
      `onto [${onto.shape.join(", ")}]`,
      `${rows} rows of ${cols}, as looked up`,
    );
  const out = tape.make([...ids.shape, cols], tape.dtype, table.trainable || (onto?.requiresGradient ?? false));
  const { device, dtype } = tape;
  if (onto)
    device.issue("compute", "copy", { bytes: onto.elements * dtypeBytes[dtype], src: onto.span, dst: out.span });
  device.issue("compute", "embedding", {
    rows,
    cols,
    vocabulary,
    dtype,
    ids: ids.span,
    table: table.value.span,
    out: out.span,
    accumulate: onto !== undefined,
  });
  const inputs = onto ? [onto] : [];
  return tape.record(
    "embedding",
    inputs,
    out,
    [ids],
    (dy) => {
      if (table.trainable) {
        const { tensor: dtable, accumulate } = table.takeGradient();
        device.issue("compute", "embeddingBackward", {
          rows,
          cols,
          vocabulary,
          dtype,
          ids: ids.span,
          dy: dy.span,
          dtable: dtable.span,
          accumulate,
        });
      }
      return onto ? [dy.retain()] : [];
    },
    false,
  );
}
