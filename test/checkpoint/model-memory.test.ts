// Models are written, loaded, saved and exported in pieces: the system charges the process with the plan's bytes and no whole model more.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { freemem } from "node:os";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));

/** Pieces on their way, and what of earlier ones JavaScript has not collected yet: the same for a model of any size. */
const passingBytes = 100e6;

// Linux tells how much of its memory is a process's own; elsewhere there is nothing to compare with.
test.skipIf(process.platform !== "linux" || freemem() < 2e9)(
  "a GPT-2 of 126 MB",
  () => {
    const script = fileURLToPath(new URL("memory-process.ts", import.meta.url));
    const args = ["--expose-gc", "--import", "tsx", script, here, "10", "512", "bf16"];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect(stderr).toBe("");
    const found = JSON.parse(stdout) as Record<string, number>;
    // 10 blocks of 12 x 512 x 512 + 13 x 512, 256 + 5 rows of embeddings, and the last norm, in fp32.
    expect(found.modelBytes).toBe(4 * (10 * (12 * 512 * 512 + 13 * 512) + 261 * 512 + 2 * 512));
    for (const phase of ["write", "save", "export"])
      expect(found[phase], phase).toBeLessThan(found.saveLedger! - found.loadLedger! + passingBytes);
    // SGD in fp32: parameters, which are the master too, and gradients.
    expect(found.loadLedger).toBeGreaterThan(2 * found.modelBytes!);
    expect(found.loadLedger).toBeLessThan(2.05 * found.modelBytes!);
    expect(found.load).toBeGreaterThan(0.95 * found.loadLedger!);
    expect(found.load).toBeLessThan(1.05 * found.loadLedger! + passingBytes);
  },
  60_000,
);
