// A rank for tests: calls the native core as its parent says, and answers what came of it. Plain JavaScript, so that seven of
// them start in a moment. Its first argument is the addon's path.
import { createRequire } from "node:module";

const native = createRequire(import.meta.url)(process.argv[2]);

async function answer({ id, method, args }) {
  try {
    process.send({ id, value: await native[method](...args) });
  } catch (error) {
    const { name, message, code, details } = error;
    process.send({ id, error: { name, message, code, details } });
  }
}

process.on("message", answer);
process.on("disconnect", () => process.exit());
