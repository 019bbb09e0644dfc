/**
 * Loaded into every rank before its entry module (node --import), so that these hold from the first moment and for any script:
 * a rank does not outlive its launcher, tells the launcher what it died of, and leaves requests to stop to the launcher.
 */
import { removeOwnSwapFolders } from "../device/swap-folder.ts";
import { errorExitCode } from "./exit-codes.ts";
import { type AskedMessage, errorMessage } from "./messages.ts";

// A terminal sends these to every process of the group; the launcher turns them into one stop message for all ranks.
for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
// Schedulers and `timeout` send this one to every process of a job, or to one of them: all ranks stop together, and save.
process.on("SIGTERM", () => process.send?.({ type: "asked" } satisfies AskedMessage));

// The launcher is gone. SIGKILL, because an ordinary exit waits for native threads that may wait for other ranks; shared
// memory has no names, so there is nothing to clean but swap files.
const endNow = (): void => {
  removeOwnSwapFolders();
  process.kill(process.pid, "SIGKILL");
};
process.once("disconnect", endNow);
if (!process.connected) endNow();

let told = false;
process.on("uncaughtException", (error: unknown) => {
  if (told) return;
  told = true;
  const exit = (): void => process.exit(errorExitCode(error));
  if (process.connected) process.send?.(errorMessage(error), undefined, undefined, exit);
  else exit();
});

// The channel must not keep a rank alive that has finished its work.
process.channel?.unref();
