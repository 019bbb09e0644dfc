/** Ends the run with a line that needs no knowledge of vitest to read: "N passed, N failed". */
export default class PlainReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state]++;
      // A file that could not be loaded or whose hooks threw has failed, whatever its tests say.
      if (module.state() === "failed" && module.errors().length > 0) count.failed++;
    }
    const skipped = count.skipped + count.pending;
    const line = `${count.passed} passed, ${count.failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
    // vitest prints its own summary in this same event; at exit this comes after it.
    process.once("exit", () => process.stdout.write(`\n${line}\n`));
  }
}
