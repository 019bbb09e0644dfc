/**
 * `node --import tsx bench/handover/write.ts FOLDER`: lets `shunya plan` write a configuration for each job, reads it again with
 * `shunya config`, and notes in FOLDER/jobs.json what was said. `check_handover.py FOLDER` then asks DeepSpeed.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type HandoverJob, jobs } from "./jobs.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const command = join(root, "bin/shunya.js");

interface Problem {
  readonly path: string;
  readonly level: "error" | "warning";
  readonly message: string;
}

interface ConfigJson {
  readonly problems: readonly Problem[];
}

/** Advice about the batch that was asked for, not about what was written. */
const isAdvice = ({ path, level }: Problem): boolean => level === "warning" && path === "gradient_accumulation_steps";

function configJson(file: string, ranks: number): ConfigJson {
  const { stdout } = spawnSync(process.execPath, [command, "config", file, "--ranks", `${ranks}`, "--json"], {
    encoding: "utf8",
  });
  return JSON.parse(stdout) as ConfigJson;
}

/** Problems that the written file has and the one that it started from had not. */
function ownProblems(written: ConfigJson, start: ConfigJson | undefined): readonly Problem[] {
  const known = new Set(start?.problems.map(({ path, level }) => `${level} ${path}`));
  return written.problems.filter((problem) => !isAdvice(problem) && !known.has(`${problem.level} ${problem.path}`));
}

function handOver(job: HandoverJob, index: number, folder: string): object {
  const file = `${String(index + 1).padStart(2, "0")}.json`;
  const start = job.file === undefined ? undefined : fileURLToPath(new URL(`files/${job.file}`, import.meta.url));
  const flags = [
    ...job.flags.split(" "),
    "--ranks",
    `${job.ranks}`,
    ...(start === undefined ? [] : ["--config", start]),
  ];
  const output = execFileSync(
    process.execPath,
    [command, "plan", ...flags, "--json", "--write-config", join(folder, file)],
    { encoding: "utf8" },
  );
  const { stage, offloadOptimizer, offloadParam, microBatch, gradientAccumulation, trainBatch } = (
    JSON.parse(output) as { recommendation: Record<string, unknown> }
  ).recommendation;
  const problems = ownProblems(
    configJson(join(folder, file), job.ranks),
    start === undefined ? undefined : configJson(start, job.ranks),
  );
  for (const { level, path, message } of problems) process.stdout.write(`${file} ${level} ${path}: ${message}\n`);
  const engine = job.flags.includes("--engine deepspeed") ? "deepspeed" : "shunya";
  return {
    ...{ file, name: job.name, engine, ranks: job.ranks, precision: job.precision, optimizer: job.optimizer },
    ...{ stage, offloadOptimizer, offloadParam, microBatch, gradientAccumulation, trainBatch },
    problems,
  };
}

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("wanted the folder to write into");
mkdirSync(folder, { recursive: true });
const done = jobs.map((job, index) => {
  process.stdout.write(`${index + 1} of ${jobs.length}: ${job.name}\n`);
  return handOver(job, index, folder);
});
writeFileSync(join(folder, "jobs.json"), `${JSON.stringify(done, undefined, 2)}\n`);
process.stdout.write(`${done.length} files in ${folder}\n`);
