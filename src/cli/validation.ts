/** The loss on data that are not trained on: every row, the same ones each time, dealt to the ranks. */
import type { PreparedSource } from "../data/prepare.ts";
import { placesOf, type RowPlaces } from "../data/row-places.ts";
import type { Rows } from "../data/rows.ts";
import type { LanguageBatch } from "../nn/models/language-model.ts";
import type { Engine } from "../zero/engine.ts";

export interface ValidationRecord {
  /** Mean over all targets of all rows. */
  readonly loss: number;
  readonly rows: number;
  /** What a row is, in the singular. */
  readonly rowName: string;
  readonly seconds: number;
}

/** Held-out data, opened. */
export interface ValidationData {
  readonly rows: Rows;
  readonly places: RowPlaces;
}

const words = {
  name: "the validation data",
  advice: "hold out a larger part with --validation, or name more with --validation-data",
} as const;

/** @param sources that the rows are of @throws DataError where there is no row */
export const validationData = (rows: Rows, sources: readonly PreparedSource[]): ValidationData => ({
  rows,
  places: placesOf(sources, rows.seqLength, words),
});

/**
 * Every rank calls it, between two steps. In each round rank r has the r-th m rows; what is missing in the last one are rows without
 * targets, so that all ranks run equal shapes: nothing is left out and nothing counts twice. The sum is in rank order, so it is the same at
 * every stage.
 */
export async function validate(
  engine: Engine<LanguageBatch>,
  { rows: data, places }: ValidationData,
  microBatch: number,
): Promise<ValidationRecord> {
  const begin = performance.now();
  const { rank, worldSize } = engine.group;
  const { count: rows } = places;
  let [sum, counted] = [0, 0];
  for (let round = 0; round * worldSize * microBatch < rows; round++) {
    const { inputs, targets } = await readRows(data, places, {
      first: (round * worldSize + rank) * microBatch,
      microBatch,
    });
    const shape = [microBatch, data.seqLength];
    const loss = await engine.evaluate({ inputs: { data: inputs, shape }, targets: { data: targets, shape } });
    const count = targets.reduce((total, target) => total + Number(target >= 0), 0);
    sum += count * loss;
    counted += count;
  }
  const parts = await engine.group.exchange(Float64Array.of(sum, counted), "validation losses");
  const [total, targets] = [0, 1].map((i) => parts.reduce((all, part) => all + part[i]!, 0));
  return { loss: total! / targets!, rows, rowName: data.rowName, seconds: (performance.now() - begin) / 1000 };
}

/** Rows that follow each other, and after the last one rows of which nothing counts. */
async function readRows(
  rows: Rows,
  { count, stride }: ValidationData["places"],
  { first, microBatch }: { readonly first: number; readonly microBatch: number },
): Promise<{ inputs: Int32Array; targets: Int32Array }> {
  const { seqLength } = rows;
  const inputs = new Int32Array(microBatch * seqLength);
  const targets = new Int32Array(microBatch * seqLength).fill(-1);
  const read = Array.from({ length: Math.max(0, Math.min(microBatch, count - first)) }, (_, i) => {
    const [from, end] = [i * seqLength, (i + 1) * seqLength];
    return rows.read((first + i) * stride, inputs.subarray(from, end), targets.subarray(from, end));
  });
  await Promise.all(read);
  return { inputs, targets };
}
