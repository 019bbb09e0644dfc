/** All that is wrong with a checkpoint. */
import { CheckpointError } from "../errors/errors.ts";
import { baseIn, isThere } from "./base-weights.ts";
import { fileProblem } from "./file-problem.ts";
import { openTraining, readManifest } from "./open-training.ts";

export interface Verification {
  readonly files: number;
  readonly bytes: number;
  /** None: it can be gone on from. */
  readonly problems: readonly string[];
  /** Where frozen tensors are that it does not hold, and whether that folder is there; what is in it is compared when it is read. */
  readonly base?: { readonly folder: string; readonly tensors: number; readonly isThere: boolean };
}

/** Reads all of a checkpoint, and goes on where a file is damaged. */
export async function verifyTraining(folder: string): Promise<Verification> {
  try {
    const manifest = await readManifest(folder);
    const { files } = manifest;
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const problems: string[] = [];
    for (const file of files) {
      const problem = await fileProblem(folder, file);
      if (problem !== undefined) problems.push(problem);
    }
    // Whole files may still not hold every element once.
    if (problems.length === 0) await (await openTraining(folder))[Symbol.asyncDispose]();
    const base = baseIn(manifest);
    return {
      ...{ files: files.length, bytes, problems },
      ...(base && { base: { ...base, tensors: base.tensors.size, isThere: await isThere(base.folder) } }),
    };
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    return { files: 0, bytes: 0, problems: [error.message] };
  }
}
