// What train says of its output at the end, whatever kept it from being written.
import { expect, test } from "vitest";
import { tellOutput } from "../../src/cli/train.ts";
import { createLogger } from "../../src/log/logger.ts";

const logger = createLogger({ write: () => {} });
const written = { savedAfter: undefined, isTrained: false, choice: undefined, isAdapter: false };

test("a run that was trained to its end and could not be saved did finish", () => {
  expect(tellOutput("out", written, logger)).toBe("Training did not finish, so no model was written to out.\n");
  expect(tellOutput("out", { ...written, isTrained: true }, logger)).toBe(
    "All steps are done, but saving failed, so no model was written to out.\n",
  );
  expect(tellOutput("out", { ...written, savedAfter: 3, isTrained: true }, logger)).toBe(
    "The model after step 3 is in out.\n",
  );
});
