// The quickstart's story with a short training: what it says holds, and what it tells people to type works.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { runQuickstart } from "../../src/cli/quickstart.ts";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { createLogger } from "../../src/log/logger.ts";
import { run, temporaryFolder, tooWide } from "./command.ts";

afterEach(() => vi.restoreAllMocks());

const here = temporaryFolder();

/** Runs it in this process, which nothing but the number of steps tells from the command. */
async function quickstart(folder: string): Promise<{ exitCode: number; told: string }> {
  let told = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    told += text;
    return true;
  });
  const exitCode = await runQuickstart(createLogger(), { folder, steps: 4 });
  vi.restoreAllMocks();
  return { exitCode, told };
}

test("stage 0 is refused, the stage that fits trains, the model writes, and the next commands work", async () => {
  const folder = join(here, "story");
  const { exitCode, told } = await quickstart(folder);
  expect(exitCode).toBe(exitCodes.ok);
  expect(told).toMatch(/ZeRO stage 0 needs 5\d\.\d MB .* the budget is 25\.5 MB\.\nNothing was allocated\./);
  expect(told).toMatch(/^0 +5\d\.\d MB +no\n1 .* no\n2 .* no\n3 .* yes$/m);
  expect(told).toMatch(/in bf16\nranks +4 on the CPU with 1 thread each; ZeRO stage 3\n/);
  expect(told).toMatch(/^step 4\/4 /m);
  const written = /(?<=--temperature 0\.5\n\n)[\s\S]*(?=\n── 4)/; // by a model that knows nothing of widths
  expect(tooWide(told.replace(written, ""))).toEqual([]);
  for (const table of [/Device memory of ranks 0-3/, /Traffic of ranks 0-3/, /^loss$/m]) expect(told).toMatch(table);
  expect(told).toMatch(/^interface HTMLElement extends ./m);
  for (const name of ["ds_config.json", "log.ndjson", "model/config.json", "trained/model.safetensors"])
    expect(existsSync(join(folder, name))).toBe(true);

  const next = told.slice(told.indexOf("What to try next")).replaceAll("\\\n", "");
  const commands = [...next.matchAll(/^ {2}npx shunya (.*)$/gm)].map((match) => asArguments(match[1]!));
  expect(commands.map((args) => args[0])).toEqual(["generate", "train", "launch"]);
  const [generate, train] = commands as [string[], string[]];
  expect(await run([...generate, "--tokens", "5"])).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
  expect(await run([...train, "--steps", "1"])).toMatchObject({ exitCode: exitCodes.ok, stderr: "" });
}, 60_000);

/** What a shell makes of a line: quotes, and braces that stand for several words. */
function asArguments(line: string): string[] {
  const words = line.match(/"[^"]*"|\S+/g) ?? [];
  return words.flatMap((word) => {
    const braces = /^(.*)\{(.*)\}(.*)$/.exec(word);
    if (!braces) return [word.replaceAll('"', "")];
    return braces[2]!.split(",").map((one) => `${braces[1]}${one}${braces[3]}`);
  });
}

test("a folder that cannot be made is said at once", async () => {
  const { exitCode, stderr } = await run(["quickstart", "--output", "package.json/quickstart"]);
  expect(stderr).toMatch(/^error: package\.json\/quickstart cannot be written: /);
  expect(exitCode).toBe(exitCodes.user);
});
