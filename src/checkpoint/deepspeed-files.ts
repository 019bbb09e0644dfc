/** The files of a DeepSpeed checkpoint: which there are, and whether they belong together. */
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { CheckpointError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { deepspeedGlobals } from "./deepspeed-values.ts";
import { shownName } from "./pickle-bytes.ts";
import { openTorchArchive, type TorchArchive } from "./torch-archive.ts";

export interface DeepSpeedFiles extends AsyncDisposable {
  /** Of one step: `global_step500`. */
  readonly folder: string;
  /** Of every rank that wrote one (stage 3), else of rank 0 alone. */
  readonly models: readonly TorchArchive[];
  /** In rank order; none in a universal checkpoint. */
  readonly optimizers: readonly TorchArchive[];
  /** In a universal checkpoint: folders of tensors under `zero`. */
  readonly universal: readonly string[];
  /** Opens another file of the checkpoint, which is closed with it. */
  open(path: string): Promise<TorchArchive>;
}

const optimizerFile = /^(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$/;
const modelFile = /^(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt$/;

/** @param path of one step's folder, or of the folder with `latest` that holds them @throws CheckpointError, ModelError */
export async function openDeepSpeed(path: string): Promise<DeepSpeedFiles> {
  const folder = await stepFolder(path);
  const names = await namesIn(folder);
  const layers = names.find((name) => /^(layer|expert)_/.test(name));
  if (layers !== undefined)
    throw new CheckpointError(
      `${folder} has ${shownName(layers)}: it is of pipeline stages or experts; only data-parallel checkpoints are converted`,
    );
  const models = ranked(folder, names, modelFile);
  const optimizers = ranked(folder, names, optimizerFile);
  const universal = names.includes("zero") ? await namesIn(join(folder, "zero")) : [];
  if (models.length === 0)
    throw new CheckpointError(
      `${folder} has no *_model_states.pt; wanted a folder that DeepSpeed's save_checkpoint wrote`,
    );
  if (optimizers.length === 0 && universal.length === 0)
    throw new CheckpointError(
      `${folder} has no *_optim_states.pt: at stage 0, or saved without optimizer states; only stages 1 to 3 are converted`,
    );
  const opened: TorchArchive[] = [];
  const open = async (file: string): Promise<TorchArchive> => {
    const archive = await openTorchArchive(file, deepspeedGlobals);
    opened.push(archive);
    return archive;
  };
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((archive) => archive.close()));
  };
  try {
    const openAll = async (files: readonly string[]): Promise<TorchArchive[]> => {
      const archives: TorchArchive[] = [];
      for (const file of files) archives.push(await open(join(folder, file)));
      return archives;
    };
    return {
      folder,
      models: await openAll(models),
      optimizers: await openAll(optimizers),
      universal,
      open,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function stepFolder(path: string): Promise<string> {
  for (const name of ["latest", "latest_universal"]) {
    const text = await readFile(join(path, name), "utf8").catch(() => undefined);
    if (text === undefined) continue;
    const tag = text.trim();
    if (tag === "" || tag === ".." || basename(tag) !== tag)
      throw new CheckpointError(
        `${join(path, name)}: found "${shownName(tag)}"; wanted the name of a folder beside it`,
      );
    return join(path, tag);
  }
  return path;
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new CheckpointError(`${folder}: ${reasonOf(error)}`, {
      cause: error,
    });
  });
}

/** Files by rank, all of one model-parallel rank. */
function ranked(folder: string, names: readonly string[], pattern: RegExp): string[] {
  const found = names.flatMap((name) => {
    const [, rank = "0", part] = pattern.exec(name) ?? [];
    return part === undefined ? [] : [{ name, rank: Number(rank), part: Number(part) }];
  });
  const other = found.find(({ part }) => part !== 0);
  if (other !== undefined)
    throw new CheckpointError(
      `${folder} has ${other.name}: tensors are divided between ranks; only data-parallel checkpoints are converted`,
    );
  found.sort((a, b) => a.rank - b.rank);
  const gap = found.findIndex(({ rank }, i) => rank !== i);
  if (gap !== -1)
    throw new CheckpointError(
      `${folder}: ${found[gap]!.name} is there, but the file of rank ${gap} is missing or twice there`,
    );
  return found.map(({ name }) => name);
}
