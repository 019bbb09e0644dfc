import { expect, test } from "vitest";
import { createLogger } from "../../src/log/logger.ts";

function linesOf(options: { rank: number; verbose?: boolean }): string[] {
  const lines: string[] = [];
  const logger = createLogger({ ...options, write: (line) => lines.push(line) });
  logger.debug("detail");
  logger.info("start");
  logger.warn("careful");
  logger.warnOnce("a", "once");
  logger.warnOnce("a", "once");
  logger.warnOnce("b", "other");
  logger.error("broken");
  return lines;
}

test("rank 0 prints, a repeated warning once", () => {
  expect(linesOf({ rank: 0 })).toEqual([
    "start\n",
    "warning: careful\n",
    "warning: once\n",
    "warning: other\n",
    "error: broken\n",
  ]);
  expect(linesOf({ rank: 0, verbose: true })[0]).toBe("debug: detail\n");
});

test("other ranks are silent", () => {
  expect(linesOf({ rank: 1, verbose: true })).toEqual([]);
});
