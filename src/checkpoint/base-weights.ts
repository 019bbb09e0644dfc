/**
 * The base of a checkpoint: the model folder with the frozen tensors that its files do not hold. A tensor is in the files or in the base,
 * and whoever reads states need not know which. That the base is still what it was, its digests tell.
 */
import { stat } from "node:fs/promises";
import type { Exchanger } from "../comm/group.ts";
import { CheckpointError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { elementsOf } from "../tensor/tensor.ts";
import { TensorDigest } from "../zero/base-tensors.ts";
import { pieceElements, type StateSource } from "../zero/state.ts";
import { type WeightSource, weightsOnly } from "../zero/weights.ts";
import { together } from "./agree.ts";
import { type ModelFolder, openModelFolder } from "./huggingface.ts";
import type { TrainingCheckpoint } from "./open-training.ts";
import type { Manifest, SavedTensor } from "./training-manifest.ts";

/** What is told of a checkpoint's base; undefined where all of it is in its files. */
export interface BaseOfCheckpoint {
  readonly folder: string;
  readonly tensors: ReadonlyMap<string, SavedTensor>;
}

export function baseIn({ base, tensors }: Manifest): BaseOfCheckpoint | undefined {
  const inBase = new Map(Object.entries(tensors).filter(([, { baseDigest }]) => baseDigest !== undefined));
  return base && inBase.size > 0 ? { folder: base.folder, tensors: inBase } : undefined;
}

type Named = Pick<TrainingCheckpoint, "folder" | "manifest">;

const advice =
  "give the base as it was, its folder or owner/name, to --model of train or checkpoint export (in code: weights)";

/** The weights of a base, and what they are called in errors. */
export interface OpenedBase extends AsyncDisposable {
  readonly weights: WeightSource;
  /** The folder that later checkpoints name. */
  readonly folder: string;
}

/**
 * The base's weights: those that are given, or else those in the folder that the checkpoint names. They are not compared yet.
 * @returns undefined where the checkpoint has no base @throws CheckpointError where they are not there, or of another model
 */
export async function openBase(
  { folder, manifest }: Named,
  given: WeightSource | undefined,
): Promise<OpenedBase | undefined> {
  const base = baseIn(manifest);
  if (!base) return undefined;
  if (given) {
    const missing = [...base.tensors.keys()].find((name) => !given.has(name));
    if (missing !== undefined)
      throw new CheckpointError(
        `${folder} leaves frozen tensors in its base, and the given weights have no ${missing}: ${advice}`,
      );
    const [first] = base.tensors.keys();
    return {
      weights: given,
      folder: given.folderOf?.(first!) ?? base.folder,
      [Symbol.asyncDispose]: async () => {},
    };
  }
  const opened = await openFolder(folder, base);
  return { weights: opened.weights!, folder: base.folder, [Symbol.asyncDispose]: () => opened.close() };
}

async function openFolder(checkpoint: string, { folder, tensors }: BaseOfCheckpoint): Promise<ModelFolder> {
  const fail = (why: string, cause?: unknown): never => {
    throw new CheckpointError(
      `${checkpoint} leaves ${tensors.size} frozen tensors in its base ${folder}, ${why}: ${advice}`,
      { cause },
    );
  };
  if (!(await isThere(folder))) fail("which is not there");
  const opened = await openModelFolder(folder).catch((error: Error) =>
    fail(`which cannot be read (${reasonOf(error)})`, error),
  );
  try {
    const { weights } = opened;
    if (!weights) return fail("which holds no weights");
    for (const [name, { shape }] of tensors) {
      if (!weights.has(name)) fail(`which has no tensor ${name}`);
      const found = weights.shape(name);
      if (found.join() !== shape.join())
        fail(`where tensor ${name} has shape [${found.join(", ")}]; wanted [${shape.join(", ")}]`);
    }
    return opened;
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Whether there is a folder of that name. */
export const isThere = async (folder: string): Promise<boolean> =>
  (await stat(folder).catch(() => undefined))?.isDirectory() ?? false;

/** The states of a checkpoint's files, and of frozen tensors that it leaves in its base. */
export function statesWith({ manifest, states }: TrainingCheckpoint, base: OpenedBase | undefined): StateSource {
  if (!base) return states;
  const weights = weightsOnly(base.weights);
  const of = (name: string): StateSource => (manifest.tensors[name]?.baseDigest === undefined ? states : weights);
  return {
    has: (name, kind) => of(name).has(name, kind),
    read: (name, kind, first, into) => of(name).read(name, kind, first, into),
    folderOf: (name) => (of(name) === weights ? base.folder : undefined),
  };
}

/**
 * A checkpoint whose `states` have all tensors. Disposing of it disposes of `checkpoint`.
 * @param given the base's weights, instead of those in the folder that the checkpoint names @throws CheckpointError
 */
export async function withBase(
  checkpoint: TrainingCheckpoint,
  given: WeightSource | undefined,
): Promise<TrainingCheckpoint> {
  const base = await openBase(checkpoint, given);
  return {
    ...checkpoint,
    states: statesWith(checkpoint, base),
    [Symbol.asyncDispose]: async () => {
      await base?.[Symbol.asyncDispose]();
      await checkpoint[Symbol.asyncDispose]();
    },
  };
}

/**
 * `withBase` on every rank; closed where it fails on one.
 * @param check what else all ranks want of it @throws CheckpointError, on every rank alike
 */
export async function withBaseTogether(
  group: Exchanger | undefined,
  checkpoint: TrainingCheckpoint,
  weights: WeightSource | undefined,
  check: (whole: TrainingCheckpoint) => Promise<void> = async () => {},
): Promise<TrainingCheckpoint> {
  let whole: TrainingCheckpoint | undefined;
  try {
    await together(group, `the base of checkpoint ${checkpoint.folder}`, async () => {
      whole = await withBase(checkpoint, weights);
      await check(whole);
      return [];
    });
    return whole!;
  } catch (error) {
    await whole?.[Symbol.asyncDispose]();
    throw error;
  }
}

const mostNamed = 3;

type Whole = Pick<TrainingCheckpoint, "folder" | "manifest" | "states">;

/**
 * @param checkpoint whose `states` have the base @param digests of what was read from there @param tensors that were read
 * @throws CheckpointError that names tensors of the base which are not what they were
 */
export function checkDigests(
  { folder, manifest, states }: Whole,
  digests: ReadonlyMap<string, string>,
  tensors = [...(baseIn(manifest)?.tensors ?? [])],
): void {
  const changed = tensors.flatMap(([name, { baseDigest }]) => (digests.get(name) === baseDigest ? [] : [name]));
  if (changed.length === 0) return;
  const shown = changed.slice(0, mostNamed).join(", ");
  const more = changed.length > mostNamed ? ` and ${changed.length - mostNamed} more` : "";
  throw new CheckpointError(
    `${states.folderOf?.(changed[0]!)} is not the base that ${folder} was saved with: other values in ${changed.length} of its ` +
      `${tensors.length} frozen tensors (${shown}${more}): ${advice}`,
  );
}

/**
 * Reads all of the base and compares it; of several who do, each every `parts`-th tensor from `part` on.
 * @param checkpoint whose `states` have the base @throws CheckpointError
 */
export async function checkBase(checkpoint: Whole, part = 0, parts = 1): Promise<void> {
  const digests = new Map<string, string>();
  const piece = new Float32Array(pieceElements);
  const tensors = [...(baseIn(checkpoint.manifest)?.tensors ?? [])].filter((_, i) => i % parts === part);
  for (const [name, { shape }] of tensors) {
    const digest = new TensorDigest();
    const elements = elementsOf(shape);
    for (let done = 0; done < elements; done += pieceElements) {
      const values = piece.subarray(0, elements - done);
      await checkpoint.states.read(name, "master", done, values);
      digest.add(values, done);
    }
    digests.set(name, digest.hex);
  }
  checkDigests(checkpoint, digests, tensors);
}
