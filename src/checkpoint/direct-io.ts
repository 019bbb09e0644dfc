/** Reading and writing past the system's page cache, where the file system can: not all take the flag, and some take it and refuse later. */
import { constants } from "node:fs";

/** For `open`; 0 where the system has no such thing. */
export const directFlag = constants.O_DIRECT ?? 0;

/** Of a file system without direct I/O. */
export const isDirectRefusal = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "EINVAL";
