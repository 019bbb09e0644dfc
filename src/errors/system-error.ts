/** What the system says of files, in words for people: where Node has "EISDIR: illegal operation on a directory, read". */
import { resolve } from "node:path";
import { printable } from "./printable.ts";

const words: Readonly<Record<string, string>> = {
  EACCES: "permission denied: this user may not do that there",
  EBUSY: "something else uses it",
  EDQUOT: "this user's quota of the disk is used up",
  EEXIST: "something of that name is there already",
  EFBIG: "it grows larger than the file system or ulimit -f takes",
  EIO: "the drive failed",
  EISDIR: "it is a folder, where a file is wanted",
  ELOOP: "its symbolic links lead in a circle",
  EMFILE: "too many files are open in this process; raise ulimit -n",
  ENAMETOOLONG: "its name is longer than the file system takes",
  ENFILE: "too many files are open on this machine",
  ENODEV: "no such device",
  ENOENT: "no such file or folder",
  ENOSPC: "no space left: the disk is full",
  ENOTDIR: "it, or a part of its path, is a file, where a folder is wanted",
  ENOTEMPTY: "the folder is not empty",
  ENXIO: "it is a socket or a device without its other end",
  EPERM: "the system does not allow it",
  EROFS: "the file system is read-only",
  ESTALE: "the network drive lost it; try again",
  ETXTBSY: "it is a program that runs",
};

/** Whether the system refused something: a file, in nearly all cases. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return (
    error instanceof Error && "syscall" in error && /^E[A-Z0-9]+$/.test(String((error as { code?: unknown }).code))
  );
}

/**
 * Why something could not be done, to follow "cannot be read: ".
 * @param named the path that the message names already: another one, such as a folder around it, is added
 */
export function reasonOf(error: unknown, named?: string): string {
  if (!isSystemError(error)) return printable(error instanceof Error ? error.message : String(error));
  const { code, path } = error;
  const said = words[code!];
  if (said === undefined) return printable(error.message);
  const other = path !== undefined && named !== undefined && resolve(path) !== resolve(named);
  return other ? `${said} (${code} at ${printable(path)})` : `${said} (${code})`;
}

/** A whole message of an error that nobody caught where it happened: of the system's in words, of others their own. */
export function messageOf(error: Error): string {
  if (!isSystemError(error)) return error.message;
  const { path, syscall } = error;
  const what = path === undefined ? "" : `${printable(path)}: `;
  return `${what}${reasonOf(error)}, while the system was asked to ${syscall}`;
}
