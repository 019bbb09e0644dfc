/** `shunya checkpoint inspect`: what a checkpoint is of and what it holds. Its bytes are not compared; `verify` does that. */
import { baseIn } from "../checkpoint/base-weights.ts";
import { checkpointsIn } from "../checkpoint/find-training.ts";
import { openTraining } from "../checkpoint/open-training.ts";
import { savedModel } from "../checkpoint/saved-model.ts";
import { kindsOf, type Manifest } from "../checkpoint/training-manifest.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { printable } from "../errors/printable.ts";
import { architectureOf } from "../nn/models/models.ts";
import { formatBytes, formatCount, formatMany, formatReal } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import { wrap } from "../report/wrap.ts";
import { elementsOf } from "../tensor/tensor.ts";
import type { StateKind } from "../zero/state.ts";
import { shownModel } from "./model-flags.ts";

/** @throws CheckpointError */
export async function runInspect(path: string, isJson: boolean): Promise<void> {
  const [folder, ...older] = await checkpointsIn(path);
  await using checkpoint = await openTraining(folder!);
  const { manifest } = checkpoint;
  const text = isJson
    ? JSON.stringify(describe(folder!, manifest), undefined, 2)
    : render(folder!, manifest, older.length);
  process.stdout.write(`${text}\n`);
}

/** Bytes of fp32 values. */
const valueBytes = 4;

interface KindSum {
  readonly kind: StateKind;
  readonly tensors: number;
  readonly elements: number;
}

/** Each kind that any tensor has. */
function sumKinds(manifest: Manifest): KindSum[] {
  const sums = new Map<StateKind, { tensors: number; elements: number }>();
  for (const tensor of Object.values(manifest.tensors))
    for (const kind of kindsOf(manifest, tensor)) {
      const sum = sums.get(kind) ?? { tensors: 0, elements: 0 };
      sums.set(kind, { tensors: sum.tensors + 1, elements: sum.elements + elementsOf(tensor.shape) });
    }
  return [...sums].map(([kind, sum]) => ({ kind, ...sum }));
}

function describe(folder: string, manifest: Manifest): object {
  const { crc32: _, files, ...rest } = manifest as Manifest & { crc32?: string };
  return {
    folder,
    ...rest,
    kinds: sumKinds(manifest).map((sum) => ({ ...sum, bytes: valueBytes * sum.elements })),
    files: files.map(({ name, bytes, crc32 }) => ({ name, bytes, crc32 })),
  };
}

function render(folder: string, manifest: Manifest, older: number): string {
  const parts = [renderHead(folder, manifest, older), renderKinds(manifest), renderTensors(manifest)];
  return parts.join("\n\n");
}

const labelWidth = 11;
const line = (label: string, text: string): string =>
  label.padEnd(labelWidth) + wrap(printable(text), { indent: labelWidth });

function renderHead(folder: string, manifest: Manifest, older: number): string {
  const { files, progress, seed, nextSample, shunyaVersion, worldSize } = manifest;
  const skipped = progress.attempted - progress.updates;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const others = older === 0 ? "" : `, the newest of ${older + 1} there`;
  const steps = `${formatCount(progress.attempted)}${skipped > 0 ? ` (${formatMany(progress.updates, "update")}, ${formatCount(skipped)} skipped)` : ""}`;
  return [
    line("folder", folder),
    line("step", `${steps}${others}; the next sample is number ${formatCount(nextSample)}, seed ${seed}`),
    ...renderModel(manifest),
    ...renderSettings(manifest),
    ...renderBase(manifest),
    line("written by", `Shunya ${shunyaVersion} on ${formatMany(worldSize, "rank")}`),
    line("files", `${formatMany(files.length, "file")}, ${formatBytes(bytes)}`),
  ].join("\n");
}

function renderModel(manifest: Manifest): string[] {
  const model = savedModel(manifest);
  if (!model) return [];
  const { layers, hidden, heads, vocabularySize, positions } = model;
  const sizes = `${architectureOf(model)}: ${layers} layers, width ${hidden}, ${heads} heads, ${vocabularySize} tokens, ${positions} positions`;
  return [line("model", sizes)];
}

function renderBase(manifest: Manifest): string[] {
  const base = baseIn(manifest);
  if (!base) return [];
  const elements = [...base.tensors.values()].reduce((sum, { shape }) => sum + elementsOf(shape), 0);
  const what = `${formatMany(base.tensors.size, "frozen tensor")} (${formatMany(elements, "element")}) stay in it and are not in the files`;
  return [line("base", `${shownModel(base.folder)}: ${what}`)];
}

/** A checkpoint that was converted may have no configuration. */
function renderSettings({ config: saved, progress }: Manifest): string[] {
  const config = saved as unknown as Partial<ResolvedConfig>;
  if (!config.optimizer) return [];
  const { optimizer, stage, precision, trainBatch, microBatch, gradientAccumulation, worldSize, schedule } = config;
  const batch = `batch ${trainBatch} (${microBatch} windows x ${gradientAccumulation} micro-batches x ${formatMany(worldSize ?? 1, "rank")})`;
  const rate = `${optimizer.type}, learning rate ${formatReal(optimizer.learningRate)}${schedule ? ` with ${schedule.type}` : ""}`;
  const scale = precision === "fp16" ? `, loss scale ${formatCount(progress.lossScale.scale)}` : "";
  return [line("settings", `stage ${stage}, ${precision}${scale}; ${rate}; ${batch}`)];
}

function renderKinds(manifest: Manifest): string {
  const right = (header: string) => ({ header, align: "right" as const });
  return renderTable({
    columns: [{ header: "kind of state", align: "left" }, right("tensors"), right("elements"), right("bytes (fp32)")],
    rows: sumKinds(manifest).map(({ kind, tensors, elements }) => [
      kind,
      formatCount(tensors),
      formatCount(elements),
      formatBytes(valueBytes * elements),
    ]),
  });
}

/** Tensors of equal layers are one row: `h.*.ln_1.weight`, and how many there are. */
function renderTensors({ tensors }: Manifest): string {
  const rows = new Map<string, { cells: readonly [name: string, shape: string, type: string]; count: number }>();
  for (const [name, { shape, dtype, trainable, baseDigest }] of Object.entries(tensors)) {
    const cells = [
      printable(name.replace(/(?<=\.)\d+(?=\.)/g, "*")),
      `[${shape.join(", ")}]`,
      `${dtype}${trainable ? "" : baseDigest === undefined ? ", frozen" : ", in the base"}`,
    ] as const;
    const key = cells.join(" ");
    rows.set(key, { cells, count: (rows.get(key)?.count ?? 0) + 1 });
  }
  return renderTable({
    columns: [
      { header: "tensor", align: "left" },
      { header: "shape", align: "right" },
      { header: "in training", align: "left" },
      { header: "number", align: "right" },
    ],
    rows: [...rows.values()].map(({ cells, count }) => [...cells, formatCount(count)]),
  });
}
