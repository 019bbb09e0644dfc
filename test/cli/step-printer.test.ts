// What of each step reaches a terminal and a file.
import { expect, test } from "vitest";
import { StepPrinter } from "../../src/cli/step-printer.ts";
import type { ResolvedConfig } from "../../src/config/types.ts";
import { createLogger } from "../../src/log/logger.ts";
import { RunReport } from "../../src/monitor/run-report.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import { foretell, recordOf } from "../monitor/scene.ts";

async function print(
  isTerminal: boolean,
  records: readonly Partial<StepRecord>[],
  changes: Partial<ResolvedConfig> = {},
): Promise<string> {
  const foretold = await foretell({ stepsPerPrint: 2 }, changes);
  const { plan, operationsByUnit } = foretold;
  const logger = createLogger({ rank: 0, write: () => {} });
  let text = "";
  const printer = new StepPrinter({
    opened: { config: plan.config as never, steps: 5, seqLength: 16 },
    report: new RunReport({ plan, operationsByUnit: () => operationsByUnit, logger }),
    log: undefined,
    terminal: { isTerminal, columns: 80, color: false },
    write: (more) => {
      text += more;
    },
  });
  for (const record of records) printer.show(recordOf(foretold, record.step!, record));
  printer.endLine();
  return text;
}

const skip = { skipped: true, gradNorm: null, reason: "the gradient of wte.weight is NaN" };
const steps = [{ step: 1 }, { step: 2 }, { step: 3, ...skip }, { step: 4 }, { step: 5 }];

test("without a terminal: the first, the last, every n-th, and every skip", async () => {
  const lines = (await print(false, steps)).trimEnd().split("\n");
  expect(lines.map((line) => line.replace(/ {2}loss.*/, ""))).toEqual([
    "step 1/5",
    "step 2/5",
    "step 3 skipped: the gradient of wte.weight is NaN",
    "step 4/5",
    "step 5/5",
  ]);
});

test("a terminal has one line that is replaced, and a skip stays above it", async () => {
  const text = await print(true, steps);
  const shown = text.split("\n").map((line) =>
    line
      .split("\r\u001b[2K")
      .at(-1)!
      .replace(/ {2}loss.*/, ""),
  );
  expect(shown).toEqual(["step 3/5", "step 3 skipped: the gradient of wte.weight is NaN", "step 5/5", ""]);
  for (const line of text.split("\n"))
    for (const part of line.split("\r\u001b[2K")) expect(part.length).toBeLessThan(80);
});

test("a skip of fp16 names the scale, as a power where it is one; no other precision does", async () => {
  const fp16: Partial<ResolvedConfig> = { precision: "fp16", lossScale: { kind: "static", scale: 1000 } };
  expect(await print(false, [{ step: 3, ...skip, lossScale: 65536 }], fp16)).toMatch(/ is NaN \(loss scale 2\^16\)\n/);
  expect(await print(false, [{ step: 3, ...skip, lossScale: 1000 }], fp16)).toMatch(/ is NaN \(loss scale 1000\)\n/);
  for (const precision of ["bf16", "fp32"] as const)
    expect(await print(false, [{ step: 3, ...skip }], { precision })).not.toMatch(/scale/);
});

test("after a resume the time left follows from the steps of this run", async () => {
  expect(await print(false, [{ step: 4, seconds: 2 }])).toMatch(/left 2 s\n$/);
});
