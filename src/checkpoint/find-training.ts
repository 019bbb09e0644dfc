/** Which checkpoint a run goes on from, and whether it can: the model must be the saved one. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessGroup } from "../comm/group.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { CheckpointError } from "../errors/errors.ts";
import type { ModelDescription } from "../nn/describe.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import type { ResumePoint } from "../zero/state.ts";
import { together } from "./agree.ts";
import { checkDigests } from "./base-weights.ts";
import { publishedSteps } from "./checkpoint-folders.ts";
import { openTraining, type TrainingCheckpoint } from "./open-training.ts";
import { type Manifest, manifestName } from "./training-manifest.ts";

export interface FindOptions {
  /** The ranks that look together: each reads its part of the files to verify them. Undefined: this process alone. */
  readonly group?: ProcessGroup;
  /** Told of each newer checkpoint that is passed over, and why. */
  readonly onDamaged: (text: string, folder: string) => void;
  /**
   * What the caller is about to read is enough: where one checkpoint is named, so that none could take its place, its bytes are
   * checked when they are read, and not before.
   */
  readonly checksAsRead?: boolean;
}

/**
 * Opens a checkpoint whose every byte is as it was written (see `checksAsRead`). Every rank of the group calls it with the same path.
 * @param path of one checkpoint, or of a folder of them: then the newest that is undamaged
 * @throws CheckpointError, on every rank alike
 */
export async function findTraining(path: string, options: FindOptions): Promise<TrainingCheckpoint> {
  const { group, onDamaged, checksAsRead = false } = options;
  if (await exists(join(path, manifestName))) return openVerified(path, group, checksAsRead);
  const candidates = await checkpointsIn(path);
  for (const folder of candidates)
    try {
      return await openVerified(folder, group, false);
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      onDamaged(error.message, folder);
    }
  throw new CheckpointError(`none of the ${candidates.length} checkpoints in ${path} is undamaged`);
}

/** Itself, or those that a folder holds, newest first; they are not looked into. @throws CheckpointError where there is none */
export async function checkpointsIn(path: string): Promise<string[]> {
  if (await exists(join(path, manifestName))) return [path];
  const candidates = await publishedSteps(path);
  if (candidates.length > 0) return candidates.map(({ folder }) => folder);
  throw new CheckpointError(
    `${path} ${(await exists(path)) ? `is no checkpoint (it has no ${manifestName}) and holds none` : "does not exist"}; ` +
      "wanted a folder step-... or the folder that holds them",
  );
}

/**
 * What an engine goes on from. Damage that is found while its memory is filled is an error on every rank, and so is another base.
 * @param checkpoint of `withBase`
 */
export const resumePointOf = (checkpoint: TrainingCheckpoint): ResumePoint => ({
  progress: checkpoint.manifest.progress,
  states: checkpoint.states,
  filled: async (group, fill) => {
    await together(group, `the states of checkpoint ${checkpoint.folder}`, async () => {
      await fill();
      return [];
    });
  },
  checkBase: (digests) => checkDigests(checkpoint, digests),
});

async function openVerified(
  folder: string,
  group: ProcessGroup | undefined,
  checksAsRead: boolean,
): Promise<TrainingCheckpoint> {
  let opened: TrainingCheckpoint | undefined;
  try {
    await together(group, `the check of checkpoint ${folder}`, async () => {
      opened = await openTraining(folder);
      if (!checksAsRead || !opened.checksReads) await opened.verify(group?.rank ?? 0, group?.worldSize ?? 1);
      return [];
    });
    return opened!;
  } catch (error) {
    await opened?.[Symbol.asyncDispose]();
    throw error;
  }
}

const exists = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined)) !== undefined;

/** @throws CheckpointError that names every tensor (the first few) that does not fit, and what to do */
export function checkFits(
  { folder, manifest }: Pick<TrainingCheckpoint, "folder" | "manifest">,
  model: ModelDescription,
  config: ResolvedConfig,
): void {
  const problems = [...tensorProblems(manifest, model), ...kindProblems(manifest, config)];
  if (problems.length === 0) return;
  const shown = problems.slice(0, 5);
  if (problems.length > shown.length) shown.push(`and ${problems.length - shown.length} more`);
  throw new CheckpointError(
    `${folder} is no checkpoint of this training:\n  ${shown.join("\n  ")}\n${adviceFor(manifest, config)}`,
  );
}

/** What a run with adapters is resumed with, nobody guesses from the names of tensors. */
function adviceFor({ config: saved }: Manifest, { lora }: ResolvedConfig): string {
  const had = saved.lora as { rank?: number; alpha?: number; targets?: readonly string[] } | null | undefined;
  if (lora || had?.rank === undefined) return "resume with the model and optimizer that it was saved with";
  const targets = had.targets ? ` --lora-targets ${had.targets.join(",")}` : "";
  return `it is of a run with LoRA: give that again, --lora-rank ${had.rank} --lora-alpha ${had.alpha}${targets} (or shunya.lora)`;
}

function tensorProblems(manifest: Manifest, model: ModelDescription): string[] {
  const saved = new Map(Object.entries(manifest.tensors));
  const problems: string[] = [];
  for (const { name, shape, trainable } of model.units.flatMap((unit) => unit.parameters)) {
    const tensor = saved.get(name);
    saved.delete(name);
    if (!tensor) problems.push(`tensor ${name}: not in the checkpoint`);
    else if (tensor.shape.join() !== shape.join())
      problems.push(`tensor ${name}: found shape [${tensor.shape.join(", ")}]; wanted [${shape.join(", ")}]`);
    else if (trainable && !tensor.trainable)
      problems.push(`tensor ${name}: it was frozen, so it has no optimizer states; wanted a trainable one`);
  }
  return [...problems, ...[...saved.keys()].map((name) => `tensor ${name}: not in the model`)];
}

function kindProblems({ kinds, config: saved }: Manifest, config: ResolvedConfig): string[] {
  const missing = createOptimizer(config.optimizer).states.filter((kind) => !kinds.includes(kind));
  const was = (saved.optimizer as { type?: string } | undefined)?.type;
  return missing.map((kind) => `${kind}, which ${config.optimizer.type} needs: not in the checkpoint (of ${was})`);
}
