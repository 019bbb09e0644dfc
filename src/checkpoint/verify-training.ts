/** All that is wrong with a checkpoint. */
import { CheckpointError } from "../errors/errors.ts";
import { fileProblem } from "./file-problem.ts";
import { openTraining, readManifest } from "./open-training.ts";

export interface Verification {
  readonly files: number;
  readonly bytes: number;
  /** None: it can be gone on from. */
  readonly problems: readonly string[];
}

/** Reads all of a checkpoint, and goes on where a file is damaged. */
export async function verifyTraining(folder: string): Promise<Verification> {
  try {
    const { files } = await readManifest(folder);
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const problems: string[] = [];
    for (const file of files) {
      const problem = await fileProblem(folder, file);
      if (problem !== undefined) problems.push(problem);
    }
    // Whole files may still not hold every element once.
    if (problems.length === 0) await (await openTraining(folder))[Symbol.asyncDispose]();
    return { files: files.length, bytes, problems };
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    return { files: 0, bytes: 0, problems: [error.message] };
  }
}
