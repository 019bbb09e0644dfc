/** Looking at processes from outside. */
import { readFileSync } from "node:fs";

/** Whether a process runs. One that has ended and whom nobody has asked about yet (a zombie) does not. */
export function isRunning(pid: number | undefined): boolean {
  try {
    process.kill(pid ?? -1, 0);
  } catch {
    return false;
  }
  return stateOf(pid!) !== "Z";
}

/** Linux tells a process's state in a file; elsewhere every orphan is adopted by an init that does not leave zombies. */
function stateOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.[0];
  } catch {
    return undefined;
  }
}

/** Resolves once the condition holds. */
export async function until(condition: () => boolean, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
