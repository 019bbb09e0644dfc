/** Writes the states of another engine's run as a checkpoint that runs go on from here. */
import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ResolvedConfig } from "../config/types.ts";
import type { DType } from "../device/dtype.ts";
import { CheckpointError } from "../errors/errors.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { pieceElements } from "../zero/state.ts";
import { writeAtomically } from "./atomic-file.ts";
import { beginFolder, partialFolder, publishedSteps, publishFolder } from "./checkpoint-folders.ts";
import type { Part } from "./deepspeed-layout.ts";
import type { ForeignCheckpoint } from "./deepspeed-read.ts";
import { plainConfig } from "./settings.ts";
import {
  formatName,
  formatVersion,
  type JsonObject,
  type Manifest,
  manifestName,
  rankFileName,
  renderManifest,
  stepFolderName,
} from "./training-manifest.ts";
import { shunyaVersion } from "./version.ts";
import { savedFile, type WrittenFile, writeStates } from "./write-states.ts";

export interface ConvertOptions {
  /** Gets the checkpoint's folder. */
  readonly folder: string;
  /** The name of a tensor here. */
  readonly rename: (name: string) => string;
  /** Undefined: it cannot be told, so nothing is compared when a run goes on. */
  readonly config: ResolvedConfig | undefined;
  readonly run: JsonObject;
  /** What the other engine does not have: the seed that runs here have where none is given. */
  readonly seed: number;
}

const dtypes: Readonly<Record<string, DType>> = { F32: "f32", F16: "f16", BF16: "bf16" };

/** Streams: a piece of a tensor is in memory at a time. @returns the checkpoint's folder and its file's bytes @throws CheckpointError */
export async function convertTraining(
  source: ForeignCheckpoint,
  options: ConvertOptions,
): Promise<{ readonly folder: string; readonly bytes: number }> {
  const { folder: parent } = options;
  const step = source.progress.attempted;
  const [newest] = await publishedSteps(parent);
  if (newest !== undefined)
    throw new CheckpointError(`${parent} holds a checkpoint of step ${newest.step} already; give another --output`);
  const partial = partialFolder(parent, step, randomBytes(4).readUInt32LE());
  await beginFolder(parent, partial);
  try {
    const states = [...source.tensors].flatMap(([name, { states }]) =>
      [...states].map(([kind, parts]) => {
        const count = parts.reduce((sum, part) => sum + part.count, 0);
        return { name: options.rename(name), kind, first: 0, count, parts };
      }),
    );
    const written = await writeStates(join(partial, rankFileName(0, 1)), states, ({ parts }) => bytesOf(parts));
    const text = renderManifest(manifestOf(source, options, written));
    await writeAtomically(join(partial, manifestName), [new TextEncoder().encode(text)]);
    await publishFolder(parent, partial, step);
    return { folder: join(parent, stepFolderName(step)), bytes: written.bytes };
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => undefined);
    throw error;
  }
}

async function* bytesOf(parts: readonly Part[]): AsyncGenerator<Uint8Array> {
  for (const { archive, tensor, first, count } of parts)
    for (let done = 0; done < count; done += pieceElements) {
      const values = await archive.readFloat32(tensor, first + done, Math.min(pieceElements, count - done));
      yield new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    }
}

function manifestOf(
  { tensors, kinds, dtype, progress, samples }: ForeignCheckpoint,
  { rename, config, run, seed }: ConvertOptions,
  written: WrittenFile,
): Manifest {
  return {
    format: formatName,
    formatVersion,
    shunyaVersion,
    step: progress.attempted,
    worldSize: 1,
    seed,
    progress,
    nextSample: samples,
    config: config ? plainConfig(config) : {},
    run,
    kinds,
    tensors: Object.fromEntries(
      [...tensors].map(([name, { shape, trainable }]) => [rename(name), { shape, dtype: dtypes[dtype]!, trainable }]),
    ),
    files: [savedFile(rankFileName(0, 1), written)],
  };
}

/** Elements of all tensors. */
export const elementsIn = ({ tensors }: ForeignCheckpoint): number =>
  [...tensors.values()].reduce((sum, { shape }) => sum + elementsOf(shape), 0);
