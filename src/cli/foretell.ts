/** What a job will take, before anything is allocated: forecasts, and the refusal of what does not fit. */
import type { DiskConfig, ResolvedConfig } from "../config/types.ts";
import { checkRoom, findLeftovers } from "../device/swap-folder.ts";
import { MemoryBudgetError, UsageError } from "../errors/errors.ts";
import type { LanguageBatch } from "../nn/models/language-model.ts";
import { createModel, type ModelConfig } from "../nn/models/models.ts";
import { placements } from "../plan/placement.ts";
import { formatBytes } from "../report/numbers.ts";
import { type Candidate, renderRefusal, shortagesOf } from "../report/refusal.ts";
import { wrap } from "../report/wrap.ts";
import { type Forecast, forecast } from "../zero/forecast.ts";
import type { OpenedJob, TrainJob } from "./job.ts";
import { type DiskGround, diskGroundOf, needOf, roomOf } from "./room.ts";

/** Far beyond any device, and small enough to be written down. */
const mostTokensOfMicroBatch = 2 ** 24;

export interface ForecastRun {
  readonly config: ResolvedConfig;
  readonly seqLength: number;
  readonly threads: number;
}

/** @throws UsageError for a micro-batch beyond all devices */
export async function forecastShape(
  model: ModelConfig,
  { config, seqLength, threads }: ForecastRun,
): Promise<Forecast> {
  const shape = [config.microBatch, seqLength];
  if (config.microBatch * seqLength > mostTokensOfMicroBatch)
    throw new UsageError(
      `a micro-batch of ${config.microBatch} windows of ${seqLength} tokens is beyond any device; ` +
        `wanted at most ${mostTokensOfMicroBatch} tokens: lower train_micro_batch_size_per_gpu`,
    );
  const data = new Int32Array(config.microBatch * seqLength);
  return forecast<LanguageBatch>({
    model: createModel(model),
    config,
    threads,
    batch: { inputs: { data, shape }, targets: { data, shape } },
  });
}

export function forecastJob(job: TrainJob, opened: OpenedJob, config: ResolvedConfig): Promise<Forecast> {
  return forecastShape(opened.model.config, { config, seqLength: opened.seqLength, threads: job.threads });
}

/** What the job would need wherever its states are placed, the smallest change first. */
export async function forecastPlacements(job: TrainJob, opened: OpenedJob, disk: DiskGround): Promise<Candidate[]> {
  const candidates: Candidate[] = [];
  for (const placement of placements(opened.config.stage)) {
    const foretold = await forecastJob(job, opened, { ...opened.config, ...placement, disk: anyDisk(opened.config) });
    candidates.push({ ...placement, need: needOf(foretold, disk) });
  }
  return candidates;
}

/** A written buffer may be too small for what another stage puts on disk, and a folder may not be named yet: a forecast needs none. */
const anyDisk = ({ disk }: ResolvedConfig): DiskConfig => ({
  ...disk,
  folders: disk.folders.length > 0 ? disk.folders : ["FOLDER"],
  parameterBufferElements: undefined,
});

/** @throws MemoryBudgetError with the table of where the bytes would go and what fits; UsageError for a folder that cannot be used */
export async function checkBudget(job: TrainJob, opened: OpenedJob, foretold: Forecast): Promise<void> {
  const { config } = opened;
  const disk = diskGroundOf(config.disk, job.ranks);
  const room = roomOf(job, disk);
  const need = needOf(foretold, disk);
  const [short] = shortagesOf(need, room);
  if (short === undefined) return;
  const { stage, offloadOptimizer, offloadParam } = config;
  const refusal = renderRefusal({
    asked: { stage, offloadOptimizer, offloadParam, need },
    room,
    ranks: job.ranks,
    highest: foretold.highest,
    swapInMemoryBytes: need.host - foretold.highest.host.bytes,
    candidates: await forecastPlacements(job, opened, disk),
    hasFolder: config.disk.folders.length > 0,
  });
  const tier = short === "memory" ? "host" : short;
  throw new MemoryBudgetError(tier, need[short], room[short], [refusal, ...shareOfBudgets(job)].join("\n"));
}

/**
 * Room on the drives for all ranks, before any of them begins; what every rank makes it checks again.
 * @returns what the user should be told @throws UsageError where a folder cannot be used or has no room
 */
export function checkDisk(job: TrainJob, { config }: OpenedJob, { highest }: Forecast): readonly string[] {
  if (highest.disk.bytes === 0) return [];
  const { folders } = config.disk;
  const neededBytes = job.ranks * highest.disk.bytes;
  // How several drives share is measured later; then every rank looks at its part again.
  const freeBytes = folders.map(
    (folder) => checkRoom(folder, folders.length === 1 ? neededBytes : config.disk.blockBytes).freeBytes,
  );
  const allFree = freeBytes.reduce((sum, bytes) => sum + bytes, 0);
  if (allFree < neededBytes)
    throw new UsageError(
      `${folders.join(", ")} have ${allFree} bytes free together, and swap files need ${neededBytes}; make room, or name ` +
        "folders on larger drives",
    );
  return folders.flatMap((folder) => {
    const leftovers = findLeftovers(folder);
    if (leftovers.length === 0) return [];
    const bytes = leftovers.reduce((sum, leftover) => sum + leftover.bytes, 0);
    return [
      `${folder} holds ${formatBytes(bytes)} of swap files that ended runs left; ` +
        `"shunya doctor --remove-leftovers ${folder}" removes them`,
    ];
  });
}

function shareOfBudgets({ deviceMemoryBytes, hostMemoryBytes }: TrainJob): string[] {
  const left = [
    ...(deviceMemoryBytes === undefined ? ["--device-memory"] : []),
    ...(hostMemoryBytes === undefined ? ["--host-memory"] : []),
  ];
  if (left.length === 0) return [];
  return [wrap(`(Left out, so a rank's share of this machine's memory: ${left.join(" and ")}.)`)];
}
