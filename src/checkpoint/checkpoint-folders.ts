/**
 * The folder of a run's checkpoints: `step-00000040` and so on, each made under a hidden name and published by one rename. A
 * folder that takes the place of another one of its step moves that aside first, and until it is there the old one counts.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { syncFolder } from "./atomic-file.ts";
import { stepFolderName, stepOfFolder } from "./training-manifest.ts";

/** A published checkpoint, not looked into. */
export interface PublishedStep {
  readonly step: number;
  readonly folder: string;
}

const hiddenPattern = /^\.(step-\d+)\.(partial|replaced|removed)-[0-9a-f]{8}$/;

export const partialFolder = (parent: string, step: number, id: number): string =>
  join(parent, `.${stepFolderName(step)}.partial-${id.toString(16).padStart(8, "0")}`);

/** Newest first. A folder that is not there has none. @throws CheckpointError where it cannot be read */
export async function publishedSteps(parent: string): Promise<PublishedStep[]> {
  const names = await readdir(parent).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new CheckpointError(`${parent} cannot be read: ${reasonOf(error)}`, { cause: error });
  });
  const steps = new Map<string, string>(names.filter((n) => stepOfFolder(n) !== undefined).map((n) => [n, n]));
  for (const name of names) {
    const [, published, what] = hiddenPattern.exec(name) ?? [];
    if (published && what === "replaced" && !steps.has(published)) steps.set(published, name);
  }
  return [...steps]
    .map(([published, name]) => ({ step: stepOfFolder(published) ?? -1, folder: join(parent, name) }))
    .filter(({ step }) => step >= 0)
    .sort((a, b) => b.step - a.step);
}

/** Makes `parent` and the hidden folder to write into, and takes away what saves that never ended left behind. */
export async function beginFolder(parent: string, partial: string): Promise<void> {
  await mkdir(parent, { recursive: true }).catch((error: Error) => {
    throw new CheckpointError(`the folder of checkpoints ${parent} cannot be made: ${reasonOf(error)}`, {
      cause: error,
    });
  });
  for (const name of await readdir(parent)) {
    const [, published, what] = hiddenPattern.exec(name) ?? [];
    if (!published) continue;
    const isLast = what === "replaced" && (await stat(join(parent, published)).catch(() => undefined)) === undefined;
    if (isLast) await rename(join(parent, name), join(parent, published));
    else await rm(join(parent, name), { recursive: true, force: true });
  }
  await mkdir(partial).catch((error: Error) => {
    throw new CheckpointError(`a checkpoint cannot be made in ${parent}: ${reasonOf(error)}`, { cause: error });
  });
}

/** Gives a complete folder its name, and makes that last. */
export async function publishFolder(parent: string, partial: string, step: number): Promise<void> {
  const published = join(parent, stepFolderName(step));
  await syncFolder(partial);
  const aside = join(parent, `.${stepFolderName(step)}.replaced-${randomBytes(4).toString("hex")}`);
  const replaces = await rename(published, aside).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return false;
      throw error;
    },
  );
  await rename(partial, published);
  await syncFolder(parent);
  // What it replaced is out of the way already; should this fail, the next save tries again.
  if (replaces) await rm(aside, { recursive: true, force: true }).catch(() => undefined);
}

/**
 * Takes away all but the newest `keep` checkpoints up to `step`, the one just published. Later ones do not count: a run that went on
 * from an older one passed them over. Each is moved aside at once, so that none is ever there in part; what cannot be
 * removed is tried again by the next save.
 * @param except one that stays in any case
 */
export async function removeOlder(parent: string, step: number, keep: number, except?: string): Promise<void> {
  const real = (path: string): Promise<string> => realpath(path).catch(() => path);
  const kept = except === undefined ? undefined : await real(except);
  const published = (await publishedSteps(parent)).filter((p) => p.step <= step);
  for (const { step: old, folder } of published.slice(keep)) {
    if ((await real(folder)) === kept) continue;
    const aside = join(parent, `.${stepFolderName(old)}.removed-${randomBytes(4).toString("hex")}`);
    await rename(folder, aside)
      .then(() => rm(aside, { recursive: true, force: true }))
      .catch(() => undefined);
  }
}
