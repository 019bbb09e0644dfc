#!/usr/bin/env node
// The command. A checkout runs the TypeScript source as it is, so that it is never stale; an installed package runs dist/.
import { existsSync } from "node:fs";

const source = new URL("../src/cli/main.ts", import.meta.url);

function fail(message) {
  process.stderr.write(`shunya: ${message}\n`);
  process.exit(2);
}

async function loadCommand() {
  if (!existsSync(source)) return import("../dist/cli/main.js");
  const { register } = await import("tsx/esm/api").catch((error) => {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    return fail('this checkout is not set up; run "npm run setup" in it first');
  });
  register();
  return import(source.href);
}

const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19))
  fail(`Node ${process.versions.node} is too old; 20.19 or newer is needed`);
if (process.platform === "win32") fail("Windows is not supported; Linux and macOS are, and so is Linux inside WSL 2");

const { main } = await loadCommand();
await main(process.argv.slice(2)); // sets the exit code
