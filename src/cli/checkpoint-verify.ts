/** `shunya checkpoint verify`: every byte of every file, and what is wrong with which. */
import { checkpointsIn } from "../checkpoint/find-training.ts";
import { type Verification, verifyTraining } from "../checkpoint/verify-training.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { formatBytes, formatMany } from "../report/numbers.ts";
import { shownModel } from "./model-flags.ts";

/** Looks at all of them, newest first, also after one that is damaged. @returns the exit code @throws CheckpointError where there is none */
export async function runVerify(path: string): Promise<number> {
  let damaged = 0;
  for (const folder of await checkpointsIn(path)) {
    const { files, bytes, problems, base } = await verifyTraining(folder);
    if (problems.length === 0)
      process.stdout.write(
        `${folder}: undamaged (${formatMany(files, "file")}, ${formatBytes(bytes)})\n${base ? describeBase(base) : ""}`,
      );
    else {
      damaged++;
      process.stdout.write(`${folder}: DAMAGED\n${problems.map((text) => text.replace(/^/gm, "  ")).join("\n")}\n`);
    }
  }
  return damaged === 0 ? exitCodes.ok : exitCodes.user;
}

const describeBase = ({ folder, tensors, isThere }: NonNullable<Verification["base"]>): string =>
  `  its base, ${shownModel(folder)}, ${isThere ? `has ${formatMany(tensors, "frozen tensor")} of it` : `is NOT THERE: --model says where it is by now`}\n`;
