/** Memory from the system, in one piece: where it gives none, that is the user's to know, and no fault in a caller. */
import { ShunyaError } from "../errors/errors.ts";

/** @param bytes of address space @throws ShunyaError (MEMORY) with what the system said */
export function mapMemory<T>(bytes: number, map: () => T): T {
  try {
    return map();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ShunyaError(
      "MEMORY",
      `${error.message}. A rank takes ${bytes} bytes of address space at once, of which only those that are used become memory: ` +
        "lift this shell's limits on sizes (ulimit -f unlimited; ulimit -v unlimited), or those of the container",
      { cause: error },
    );
  }
}
