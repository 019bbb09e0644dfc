/**
 * Saves a running engine as a training checkpoint. Every rank writes what it owns into one file of its own, flushed to disk; when
 * all have, rank 0 adds checkpoint.json and publishes the folder by one rename. Until then the checkpoint before is the newest.
 */
import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointError } from "../errors/errors.ts";
import { anObject, checkArgument, checkOptions, type Kinds, path, required, wholeNumber } from "../errors/options.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import type { Plan } from "../plan/plan.ts";
import type { Engine } from "../zero/engine.ts";
import { pieceElements, type StateRange, type StateReader } from "../zero/state.ts";
import { together } from "./agree.ts";
import { writeAtomically } from "./atomic-file.ts";
import { beginFolder, partialFolder, publishFolder, removeOlder } from "./checkpoint-folders.ts";
import { plainConfig } from "./settings.ts";
import {
  formatName,
  formatVersion,
  type JsonObject,
  type Manifest,
  manifestName,
  rankFileName,
  renderManifest,
  type SavedTensor,
  stepFolderName,
} from "./training-manifest.ts";
import { shunyaVersion } from "./version.ts";
import { savedFile, writeStates } from "./write-states.ts";

export interface SaveOptions {
  /** What the run is made of beside the engine's configuration (model, data): kept, and compared when it is resumed. */
  readonly run?: JsonObject;
  /** How many checkpoints stay, the newest ones, this one included. Undefined: all. */
  readonly keep?: number;
  /** A checkpoint that stays in any case, such as the one that the run goes on from. */
  readonly alsoKept?: string;
}

export interface SavedCheckpoint {
  readonly folder: string;
  readonly step: number;
  /** Of all ranks' files. */
  readonly bytes: number;
  readonly seconds: number;
  /** The folder that its frozen parameters stay in; left out: it holds everything. */
  readonly base?: string;
}

/** The one that is saved stays. */
const kinds: Kinds<SaveOptions> = { run: anObject, keep: wholeNumber(1), alsoKept: path };

/**
 * Every rank calls it, between steps, with the same folder: the checkpoint of step 40 is `<folder>/step-00000040`, and a
 * checkpoint of the same step that is there already is replaced. Older ones than are to be kept go once it is there.
 *
 * It resolves when the checkpoint is published. Training may go on before that, and should: what is saved is what the engine held at
 * this call, whatever comes after. Saves come one after the other, and an engine is not disposed before they have ended. Training
 * may go on after a failure too: nothing has changed.
 * @throws CheckpointError, on every rank alike, where the disk does not take it: the checkpoints before it stay as they are
 * @throws DesyncError or CommError where a rank does not call it
 */
export async function saveCheckpoint<B extends object>(
  engine: Engine<B>,
  folder: string,
  options: SaveOptions = {},
): Promise<SavedCheckpoint> {
  checkArgument("saveCheckpoint", "folder", folder, required(path));
  checkOptions("saveCheckpoint", options, kinds);
  const started = performance.now();
  const { plan, progress, seed, group, base } = engine;
  const save = new Save({ plan, progress, seed, group, base }, folder, options);
  const step = progress.attempted;
  try {
    const bytes = await engine.saveStates((reader) => save.run(reader));
    const seconds = (performance.now() - started) / 1000;
    const saved = { folder: join(folder, stepFolderName(step)), step, bytes, seconds };
    return base ? { ...saved, base: base.folder } : saved;
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    const why = `the checkpoint of step ${step} could not be saved, and those before it are as they were: ${error.message}`;
    throw new CheckpointError(why, { cause: error });
  }
}

/** What is saved beside states, as it was when the save was asked for. */
type SavedEngine = Pick<Engine<object>, "plan" | "progress" | "seed" | "group" | "base">;

class Save {
  readonly #engine: SavedEngine;
  readonly #folder: string;
  readonly #options: SaveOptions;
  readonly #words: string;

  constructor(engine: SavedEngine, folder: string, options: SaveOptions) {
    this.#engine = engine;
    this.#folder = folder;
    this.#options = options;
    this.#words = `checkpoint of step ${engine.progress.attempted}`;
  }

  /** @returns bytes of all ranks' files */
  async run(reader: StateReader): Promise<number> {
    const { group, progress } = this.#engine;
    const isFirst = group.rank === 0;
    const [[id]] = (await this.#together("folder", async () => {
      const id = randomBytes(4).readUInt32LE();
      if (isFirst) await beginFolder(this.#folder, partialFolder(this.#folder, progress.attempted, id));
      return [id];
    })) as [[number]];
    const partial = partialFolder(this.#folder, progress.attempted, id);
    try {
      const written = await this.#together("files", () =>
        writeRankFile(join(partial, rankFileName(group.rank, group.worldSize)), reader),
      );
      await this.#together("publication", async () => {
        if (isFirst) await this.#publish(partial, written);
        return [];
      });
      return written.reduce((sum, [bytes]) => sum + bytes!, 0);
    } catch (error) {
      if (isFirst) await rm(partial, { recursive: true, force: true }).catch(() => undefined);
      throw error;
    }
  }

  async #publish(partial: string, written: readonly (readonly number[])[]): Promise<void> {
    const { run = {}, keep, alsoKept } = this.#options;
    const step = this.#engine.progress.attempted;
    const text = renderManifest(manifestOf(this.#engine, written, run));
    await writeAtomically(join(partial, manifestName), [new TextEncoder().encode(text)]);
    await publishFolder(this.#folder, partial, step);
    if (keep !== undefined) await removeOlder(this.#folder, step, keep, alsoKept);
  }

  #together(what: string, work: () => Promise<readonly number[]>): Promise<readonly (readonly number[])[]> {
    return together(this.#engine.group.aside, `${this.#words}, its ${what}`, work);
  }
}

/** @returns its bytes, its checksum, the bytes of a block and each block's checksum */
async function writeRankFile(path: string, reader: StateReader): Promise<readonly number[]> {
  const entries = reader.ranges.map((range) => ({ ...range, range }));
  const piece = new Float32Array(pieceElements); // what was written of it is copied before the next is read
  try {
    const { bytes, crc32, blockBytes, blocks } = await writeStates(path, entries, ({ range }) =>
      bytesOf(reader, range, piece),
    );
    return [bytes, crc32, blockBytes, ...blocks];
  } finally {
    reader.end(); // where it failed, this rank's training does not wait for what the others still write
  }
}

async function* bytesOf(
  reader: StateReader,
  range: StateRange,
  piece: Float32Array<ArrayBuffer>,
): AsyncGenerator<Uint8Array> {
  for (let done = 0; done < range.count; done += piece.length) {
    const values = piece.subarray(0, range.count - done);
    await reader.read(range, done, values);
    yield new Uint8Array(values.buffer, 0, values.byteLength);
  }
}

function manifestOf(
  { plan, progress, seed, base }: SavedEngine,
  written: readonly (readonly number[])[],
  run: JsonObject,
): Manifest {
  return {
    format: formatName,
    formatVersion,
    shunyaVersion,
    step: progress.attempted,
    worldSize: plan.worldSize,
    seed,
    progress,
    nextSample: progress.attempted * plan.config.trainBatch,
    config: plainConfig(plan.config),
    run,
    ...(base && { base: { folder: base.folder } }),
    kinds: [
      "master",
      ...createOptimizer(plan.config.optimizer).states,
      ...(plan.config.delayedUpdateFrom === undefined ? [] : (["visible"] as const)),
    ],
    tensors: tensorsOf(plan, base),
    files: written.map(([bytes, crc32, blockBytes, ...blocks], rank) =>
      savedFile(rankFileName(rank, plan.worldSize), {
        bytes: bytes!,
        crc32: crc32!,
        blockBytes: blockBytes!,
        blocks,
      }),
    ),
  };
}

function tensorsOf(plan: Plan, base: SavedEngine["base"]): Record<string, SavedTensor> {
  const { dtype } = plan.residences.parameters;
  const flats = plan.units.flatMap((unit) => unit.flats);
  const tensors = flats.flatMap(({ pieces, trainable }) =>
    pieces.map(({ name, shape }): [string, SavedTensor] => {
      const baseDigest = base?.digests.get(name);
      return [name, { shape, dtype, trainable, ...(baseDigest !== undefined && { baseDigest }) }];
    }),
  );
  return Object.fromEntries(tensors);
}
