/** Bytes of a file by place. */
import type { FileHandle } from "node:fs/promises";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";

/** Bytes of one read call: far below the operating system's limit of 2 GiB. */
const readBytes = 64 * 1024 * 1024;

/** @param path how errors name it @throws ModelError where the file does not give all of them */
export async function readFully(
  path: string,
  handle: FileHandle,
  position: number,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const wanted = Math.min(readBytes, length - done);
    const { bytesRead } = await handle.read(bytes, done, wanted, position + done).catch((error: Error) => {
      throw new ModelError(`${path} cannot be read at byte ${position + done}: ${reasonOf(error)}`, { cause: error });
    });
    if (bytesRead === 0)
      throw new ModelError(`${path} ends at byte ${position + done}, though it was longer when it was opened`);
    done += bytesRead;
  }
  return bytes;
}
