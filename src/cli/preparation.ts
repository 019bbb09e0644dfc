/** What is said while data are read: nothing where that is quick, else a line now and then. */
import type { PrepareOptions } from "../data/prepare.ts";
import type { Logger } from "../log/logger.ts";
import { formatBytes, formatShare } from "../report/numbers.ts";

export type PreparationTeller = NonNullable<PrepareOptions["onProgress"]>;

const secondsBetween = 5;

/** @param done what the bytes are now */
export function preparationTeller(logger: Logger, done = "tokens"): PreparationTeller {
  let told = performance.now();
  return (name, readBytes, allBytes) => {
    if (performance.now() - told < secondsBetween * 1000) return;
    told = performance.now();
    logger.info(`${name}: ${formatShare(readBytes, allBytes)} of ${formatBytes(allBytes)} are ${done}`);
  };
}
