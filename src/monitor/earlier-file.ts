/** Files and folders that reports are written to: nothing of another kind is written over, and no far folder is made. */
import { closeSync, existsSync, mkdirSync, openSync, readSync, statSync } from "node:fs";
import { dirname, isAbsolute, relative, resolve } from "node:path";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";

const headBytes = 256;

/**
 * Whether a file may be emptied or gone on in: it is not there, is empty or no plain file (a pipe, /dev/null), or is of the kind
 * that is to be written. @param isOurs tells by its first 256 bytes, as text @param name for messages
 * @throws UsageError where it cannot be looked at
 */
export function isReplaceable(path: string, isOurs: (head: string) => boolean, name = path): boolean {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found === undefined || !found.isFile() || found.size === 0 || isOursThere(path, isOurs);
  } catch (error) {
    throw new UsageError(`${name} cannot be written: ${reasonOf(error)}`);
  }
}

function isOursThere(path: string, isOurs: (head: string) => boolean): boolean {
  const descriptor = openSync(path, "r");
  try {
    const head = Buffer.alloc(headBytes);
    return isOurs(head.toString("utf8", 0, readSync(descriptor, head)));
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Makes a folder: inside the working directory as deep as it takes, elsewhere only its last `levels` names, since a slip in an
 * absolute path would otherwise become a tree of its own. @throws an error that says which folder is missing
 */
export function makeFolder(folder: string, levels: number): void {
  const fromHere = relative(process.cwd(), resolve(folder));
  if (fromHere.startsWith("..") || isAbsolute(fromHere)) {
    let parent = resolve(folder);
    for (let level = 0; level < levels; level++) parent = dirname(parent);
    if (!existsSync(parent)) throw new Error(`no such folder: ${parent}`);
  }
  mkdirSync(folder, { recursive: true });
}
