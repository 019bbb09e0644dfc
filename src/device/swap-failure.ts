/** What the native swap fails with, as a DiskError: where it happened, what that means, and what to do. */
import { DiskError, type DiskPlace } from "../errors/errors.ts";
import type { NativeFailure } from "./native.ts";

const noRoom = "make room on that drive, or name a folder on a larger one in nvme_path";
const lastCheckpoint = "the run cannot go on with it: go on from the last checkpoint";
const tampered = "files of a running job must be left alone; go on from the last checkpoint";

/** What to do, by the place's `reason`. */
const advice: Readonly<Record<string, string>> = {
  ENOSPC: noRoom,
  EDQUOT: `the quota of this user is used up: ${noRoom}`,
  EFBIG: `files here may not grow that large (see ulimit -f): ${noRoom}`,
  EIO: `the drive failed (the kernel's log tells more): use another drive; ${lastCheckpoint}`,
  EROFS: "the file system is read-only: name a folder in nvme_path that can be written",
  EACCES: "name a folder in nvme_path that this user may write",
  EPERM: "name a folder in nvme_path that this user may write",
  ENOENT: "the folder is gone: name one in nvme_path that exists and stays",
  EMFILE: "too many open files (see ulimit -n)",
  short: `the drive or its file system is full or failing: check both; ${lastCheckpoint}`,
  checksum: `a torn or flipped byte: the drive, its cable or this machine's memory is not to be trusted; ${lastCheckpoint}`,
  deleted: tampered,
  resized: tampered,
};

interface Details extends DiskPlace {
  readonly what: string;
}

export function diskFailure(failure: NativeFailure): DiskError {
  const { what, ...place }: Details = JSON.parse(failure.details);
  const range = `${place.operation} of ${place.bytes} bytes at offset ${place.offset}`;
  const hint = advice[place.reason] ?? `check the drive and its file system; ${lastCheckpoint}`;
  return new DiskError(place, `${place.file} (rank ${place.rank}): ${range} failed: ${what}; ${hint}`, {
    cause: failure,
  });
}
