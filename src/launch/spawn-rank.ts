/** Starts one rank as a child process of this one. */
import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { rankVariables, type SharedDescriptors } from "./environment.ts";

export interface RankProcess {
  readonly rank: number;
  readonly child: ChildProcess;
  /** The last 4 KiB of standard error; empty for rank 0, whose output is shown as it comes. */
  stderrTail(): string;
}

export interface RankCommand {
  readonly ranks: number;
  /** Path of the module that every rank runs. */
  readonly entry: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Descriptors as this process knows them; a rank sees other numbers. */
  readonly descriptors: SharedDescriptors;
  readonly arenaBytes: number;
}

const tailBytes = 4096;

export function spawnRank(rank: number, command: RankCommand): RankProcess {
  const { control, arenas } = command.descriptors;
  const child = spawn(process.execPath, [...nodeArguments(command.entry), command.entry, ...command.args], {
    env: { ...process.env, ...command.env, ...rankVariables(rank, command.ranks, command.arenaBytes) },
    // Their order fixes the numbers that rankVariables() tells: the channel is 3, control 4, arenas 5 and on.
    stdio: ["ignore", rank === 0 ? "inherit" : "ignore", rank === 0 ? "inherit" : "pipe", "ipc", control, ...arenas],
    serialization: "advanced",
  });
  let tail = Buffer.alloc(0);
  child.stderr?.on("data", (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-tailBytes);
  });
  return { rank, child, stderrTail: () => tail.toString("utf8") };
}

/** This process's own Node options, what TypeScript needs, and the module that guards a rank from its first moment. */
function nodeArguments(entry: string): string[] {
  const own = extname(fileURLToPath(import.meta.url));
  const guard = new URL(`./rank-guard${own}`, import.meta.url).href;
  const typescript = [own, extname(entry)].some((extension) => /^\.[mc]?tsx?$/.test(extension));
  const carried = carriedOptions(process.execArgv);
  // In a checkout a script's `import "shunya"` means the source as well: one copy of everything, and never a stale one.
  const source = own === ".ts" ? ["--conditions=shunya-source"] : [];
  return [...carried, ...source, ...(typescript ? ["--import", tsxLoader()] : []), "--import", guard];
}

function tsxLoader(): string {
  return pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
}

/** Options that name code to run, or a debugger's port, belong to this process alone. */
export function carriedOptions(execArgv: readonly string[]): string[] {
  const carried: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const option = execArgv[i]!;
    if (/^(-e|--eval|-p|-pe|--print)$/.test(option)) i++;
    else if (!/^--(eval|print|input-type|inspect|test|watch)/.test(option)) carried.push(option);
  }
  return carried;
}
