/** Adapters and their model as one: W + scale B A, in the order of elements of each layer's weight. */
import type { LoraConfig } from "../config/types.ts";
import { loraScale } from "../nn/lora.ts";
import { isLlama, type ModelConfig } from "../nn/models/models.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { adapterShapes } from "./adapter-folder.ts";
import { tensorNamesOf } from "./architectures.ts";
import type { ExportSource } from "./export-model.ts";

/** The product that one layer's weight gets: rows x rank and rank x columns of its element order. */
interface Product {
  readonly layer: string;
  readonly left: Float32Array;
  readonly right: Float32Array;
  readonly columns: number;
}

/**
 * The model with its adapters in it. A value is made in fp64 from fp32 ones and rounded once.
 * @param read fp32 values of the model's tensors and of the adapters'
 */
export function mergedModel(model: ModelConfig, lora: LoraConfig, read: ExportSource["read"]): ExportSource {
  const shapes = adapterShapes(model, lora, "the adapter");
  const scale = loraScale(lora);
  let held: Product | undefined;
  const productOf = async (layer: string): Promise<Product> => {
    if (held?.layer !== layer) held = await readProduct(layer, shapes, read, isLlama(model));
    return held;
  };
  return {
    tensors: tensorNamesOf(model).shapes,
    read: async (name, first, count) => {
      const values = await read(name, first, count);
      const layer = name.replace(/\.weight$/, "");
      if (!shapes.has(`${layer}.lora_A.weight`)) return values;
      return added(values, first, await productOf(layer), scale, lora.rank);
    },
  };
}

/** @param outIn whether the layer's weight is [out, in], as its factors are */
async function readProduct(
  layer: string,
  shapes: ReadonlyMap<string, readonly number[]>,
  read: ExportSource["read"],
  outIn: boolean,
): Promise<Product> {
  const factor = async (which: "A" | "B") => {
    const name = `${layer}.lora_${which}.weight`;
    const shape = shapes.get(name) as readonly [number, number];
    return { shape, values: await read(name, 0, elementsOf(shape)) };
  };
  const [a, b] = [await factor("A"), await factor("B")]; // [rank, in] and [out, rank]
  if (outIn) return { layer, left: b.values, right: a.values, columns: a.shape[1] };
  return { layer, left: transposed(a.values, a.shape), right: transposed(b.values, b.shape), columns: b.shape[0] };
}

function transposed(values: Float32Array, [rows, columns]: readonly [number, number]): Float32Array {
  return Float32Array.from(values, (_, i) => values[(i % rows) * columns + Math.floor(i / rows)]!);
}

/** @param first element of `values` within the weight */
function added(values: Float32Array, first: number, product: Product, scale: number, rank: number): Float32Array {
  const { left, right, columns } = product;
  const merged = new Float32Array(values.length);
  for (let done = 0; done < values.length; ) {
    const row = Math.floor((first + done) / columns);
    const column = (first + done) % columns;
    const count = Math.min(columns - column, values.length - done);
    const sums = Float64Array.from(values.subarray(done, done + count));
    for (let k = 0; k < rank; k++) {
      const factor = scale * left[row * rank + k]!;
      const begin = k * columns + column;
      for (let i = 0; i < count; i++) sums[i]! += factor * right[begin + i]!;
    }
    merged.set(sums, done);
    done += count;
  }
  return merged;
}
