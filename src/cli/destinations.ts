/** Where a run writes to, checked before it begins: nobody trains for an hour and then learns that a folder is read-only. */
import { once } from "node:events";
import { createWriteStream, existsSync, realpathSync, statSync, type WriteStream } from "node:fs";
import { mkdtemp, rmdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { adapterConfigName, adapterWeightsName } from "../checkpoint/adapter-folder.ts";
import { publishedSteps } from "../checkpoint/checkpoint-folders.ts";
import { UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import type { Logger } from "../log/logger.ts";
import { isReplaceable } from "../monitor/earlier-file.ts";
import { traceBegin } from "../report/trace-events.ts";
import { checkpointsOf, type Resumption } from "./checkpoints.ts";
import type { TrainJob } from "./job.ts";

/**
 * Makes a folder where the output will be made, and takes it away again: access rights alone say too much to root, and too
 * little about file systems that hold no folders. A run that is refused later leaves nothing. @throws UsageError
 */
export async function checkOutput(folder: string): Promise<void> {
  const fail = (why: string): never => {
    throw new UsageError(`--output ${folder} cannot be written: ${why}; name a folder that exists or can be made`);
  };
  for (let at = resolve(folder); ; at = dirname(at)) {
    const found = await stat(at).catch((error: NodeJS.ErrnoException) => error);
    if (found instanceof Error) {
      // Inside what is not a folder, the parent will say so.
      if ((found.code !== "ENOENT" && found.code !== "ENOTDIR") || at === dirname(at)) fail(reasonOf(found));
      continue;
    }
    if (!found.isDirectory()) fail(`${at} is a file`);
    const taken =
      at !== resolve(folder) ? undefined : [...modelNames, ...adapterNames].find((name) => isFolder(join(at, name)));
    if (taken !== undefined) fail(`${taken} in it is a folder, where a file of the model goes`);
    const probe = await mkdtemp(join(at, ".shunya-")).catch((error: Error) => fail(reasonOf(error)));
    await rmdir(probe);
    return;
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

const modelNames = ["config.json", "model.safetensors", "model.safetensors.index.json"];
const adapterNames = [adapterConfigName, adapterWeightsName];

/** Other programs take adapters beside a model for a part of it. @throws UsageError where the folder holds what is not of this kind */
export function checkKinds(output: string, isAdapter: boolean): void {
  const found = (isAdapter ? modelNames : adapterNames).find((name) => existsSync(join(output, name)));
  if (found === undefined) return;
  const [there, here] = isAdapter ? ["a model", "adapters"] : ["adapters", "a model"];
  throw new UsageError(
    `--output ${output} holds ${there} (${found}), and this run writes ${here}: together they would pass for one model; name another folder`,
  );
}

/** @param base that this run's checkpoints leave frozen parameters in @throws UsageError where the run would write its model over it */
export function checkBaseStays(output: string, base: string): void {
  if (!isSame(output, base)) return;
  throw new UsageError(
    `--output ${output} is the folder of the model that is trained further, and checkpoints of --save-every leave frozen ` +
      "parameters in it: the model written there at the end would take their base away; name another folder",
  );
}

export interface EarlierOutput {
  readonly job: Pick<TrainJob, "model" | "adapter">;
  /** Written at the end, beside config.json and model.safetensors. */
  readonly settingsName: string | undefined;
  readonly resumed: Resumption | undefined;
}

/**
 * A model in the folder may be days of training, and nobody asked for its end: it is replaced only by a run that goes on from it.
 * @throws UsageError where another run left a model or checkpoints there
 */
export async function checkReplaced(output: string, { job, settingsName, resumed }: EarlierOutput): Promise<void> {
  const checkpoints = checkpointsOf(output);
  const steps = await publishedSteps(checkpoints);
  const goesOn = resumed !== undefined && steps.some(({ folder }) => isSame(folder, resumed.folder));
  const names = [...modelNames, ...adapterNames];
  const written = settingsName === undefined ? names : [...names, settingsName];
  const found = written.filter((name) => existsSync(join(output, name)));
  const advice = "name another folder, or give --overwrite to replace it";
  if (goesOn) {
    const newer = steps.find(({ step, folder }) => step > resumed.step && !resumed.isDamaged(folder));
    if (newer === undefined || found.length === 0) return;
    throw new UsageError(
      `--output ${output} holds the model of a run that came to step ${newer.step}, and this one goes on after step ` +
        `${resumed.step}: ${advice}`,
    );
  }
  const read = [job.model, job.adapter].filter((name) => typeof name === "string");
  if (read.some((name) => isSame(name, output)) && steps.length === 0) return;
  if (found.length === 0 && steps.length === 0) return;
  const what = [...found, ...(steps.length > 0 ? [`checkpoints up to step ${steps[0]!.step}`] : [])].join(", ");
  const more =
    steps.length > 0
      ? `; --resume ${checkpoints} goes on from it`
      : found.includes("model.safetensors")
        ? `; --model ${output} trains it further`
        : found.includes(adapterWeightsName)
          ? `; --adapter ${output} trains it further`
          : "";
  throw new UsageError(`--output ${output} holds what another run may need (${what}): ${advice}${more}`);
}

/** Whether two names lead to one folder that is there. */
function isSame(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other);
  } catch {
    return false;
  }
}

export interface LineLogOptions {
  /** That named the file. */
  readonly flag: keyof typeof nouns;
  readonly inputs: readonly string[];
  readonly goesOn: boolean;
  readonly logger: Logger;
}

const nouns = { "--log-json": "the log", "--trace": "the trace" } as const;

/** By the first bytes of a file: is it one that an earlier run wrote? */
const isOurs = {
  "--log-json": (head: string) => /^\{\s*"step"\s*:\s*\d/.test(head),
  "--trace": (head: string) => head.startsWith(traceBegin),
} as const;

/** A file that grows while training goes on. A disk that fills up costs the file, not the training. */
export class LineLog implements AsyncDisposable {
  readonly #stream: WriteStream;

  private constructor(stream: WriteStream, onError: (error: Error) => void) {
    this.#stream = stream;
    stream.on("error", onError);
  }

  /**
   * Makes the file. One of the same kind that is there is emptied, unless a run goes on in it; any other stays as it is.
   * @param inputs files that the run reads @throws UsageError
   */
  static async open(path: string, { flag, inputs, goesOn, logger }: LineLogOptions): Promise<LineLog> {
    const input = inputs.find((file) => resolve(file) === resolve(path));
    if (input !== undefined)
      throw new UsageError(`${flag} ${path} is also a file that this run reads; give it a name of its own`);
    if (!isReplaceable(path, isOurs[flag], `${flag} ${path}`))
      throw new UsageError(
        `${flag} ${path} holds something that is not ${nouns[flag]} of a run; give another name, or remove it first`,
      );
    const stream = createWriteStream(path, { flags: goesOn ? "a" : "w" });
    await once(stream, "open").catch((error: Error) => {
      throw new UsageError(`${flag} ${path} cannot be written: ${reasonOf(error)}`);
    });
    return new LineLog(stream, (error) =>
      logger.warnOnce(path, `${nouns[flag]} ${path} ends here, training goes on: ${reasonOf(error)}`),
    );
  }

  write(line: string): void {
    if (!this.#stream.destroyed) this.#stream.write(line);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stream.closed) return;
    const closed = new Promise<void>((resolve) => this.#stream.once("close", resolve));
    this.#stream.end();
    await closed;
  }
}
