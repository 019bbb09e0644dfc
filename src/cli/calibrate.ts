/** `shunya doctor --calibrate`: measures this machine by small training runs on all its cores, and keeps what plan and simulate then go by. */
import { accessSync, constants, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, homedir, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { swapGround } from "../device/swap-folder.ts";
import { measureShares, median, passNames, SwapSpeed, usualRecordBytes } from "../device/swap-speed.ts";
import { InterruptedError, ShunyaError, UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { type Calibration, coreRates, type DriveRates, isCalibration, type Tally } from "../hardware/calibration.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import { launchRanks } from "../launch/launch.ts";
import { defaultArenaBytes } from "../launch/world.ts";
import type { Logger } from "../log/logger.ts";
import { type Gpt2Config, plainGpt2 } from "../nn/models/gpt2-config.ts";
import { formatBytes, formatOperations } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";
import { wrap } from "../report/wrap.ts";
import type { CalibrationJob, CalibrationMessage } from "./calibrate-rank.ts";
import { measureSpeed } from "./machine-speed.ts";

export interface CalibrateOptions {
  /** Where it is kept. */
  readonly file: string;
  /** A folder on the drive that is measured too; undefined: none. */
  readonly folder: string | undefined;
}

/** Where `plan` and `simulate` look. */
export const calibrationFile = (): string =>
  join(process.env.XDG_CONFIG_HOME ?? join(homedir(), ".config"), "shunya", "machine.json");

/** The widths of GPT-2 in two layers: its ops as they are in training, in seconds. */
const model: Gpt2Config = {
  vocabularySize: 16384,
  positions: 512,
  hidden: 768,
  layers: 2,
  heads: 12,
  ...plainGpt2,
};
const withDropout: Gpt2Config = { ...model, embeddingDropout: 0.1, attentionDropout: 0.1, residualDropout: 0.1 };

/** Every element type, with dropout and without; and an optimizer on the host, for the copies and its update. */
function jobs(): CalibrationJob[] {
  const settings = (precision: "bf16" | "fp16" | undefined, zero: object): object => ({
    train_micro_batch_size_per_gpu: 1,
    ...(precision && { [precision]: { enabled: true } }),
    zero_optimization: zero,
    optimizer: { type: "AdamW", params: { lr: 1e-4 } },
  });
  const plain = (["bf16", undefined, "fp16"] as const).flatMap((precision) =>
    [model, withDropout].map((shape) => ({ settings: settings(precision, { stage: 1 }), model: shape, steps: 4 })),
  );
  return [
    ...plain,
    { settings: settings("bf16", { stage: 2, offload_optimizer: { device: "cpu" } }), model, steps: 4 },
  ];
}

/** @throws UsageError for a folder or file that cannot be used, ShunyaError where a run fails or is stopped */
export async function runCalibrate({ file, folder }: CalibrateOptions, logger: Logger): Promise<void> {
  checkTarget(file);
  if (folder !== undefined) swapGround(folder);
  const text = `Measuring ${availableParallelism()} cores by training a small GPT on each; other work on this machine disturbs it.`;
  process.stdout.write(`${wrap(text)}\n`);
  const calibration = await calibrate(folder, logger);
  keep(calibration, file);
  process.stdout.write(
    `\n${renderCalibration(calibration)}\n\nKept in ${file}: plan and simulate speak of this machine by it.\n`,
  );
}

/** Before the measuring, which takes a minute. @throws UsageError for a file of another kind, or one that cannot be written */
function checkTarget(file: string): void {
  readCalibration(file);
  try {
    mkdirSync(dirname(file), { recursive: true });
    accessSync(existsSync(file) ? file : dirname(file), constants.W_OK);
  } catch (error) {
    throw cannotKeep(file, error);
  }
}

/** @param folder on the drive that is measured too @throws UsageError, ShunyaError */
export async function calibrate(folder: string | undefined, logger: Logger): Promise<Calibration> {
  const cores = availableParallelism();
  const tallies = new Map<string, Tally>();
  for (const job of jobs()) await addRun(tallies, job, cores, logger);
  const drive = folder === undefined ? undefined : await measureDrive(folder);
  return {
    version: 1,
    measuredAt: new Date().toISOString(),
    processor: cpus()[0]?.model.trim() ?? process.arch,
    cores,
    memoryBytes: totalmem(),
    core: coreRates(tallies),
    drive,
  };
}

async function addRun(tallies: Map<string, Tally>, job: CalibrationJob, ranks: number, logger: Logger): Promise<void> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const launch = launchRanks({
    ranks,
    entry: fileURLToPath(new URL(`./calibrate-rank.${extension}`, import.meta.url)),
    arenaBytes: defaultArenaBytes(),
    logger,
    onMessage: (_rank, payload) => {
      for (const [sort, { work, seconds }] of payload as CalibrationMessage) {
        const tally = tallies.get(sort) ?? { work: 0, seconds: 0 };
        tallies.set(sort, { work: tally.work + work, seconds: tally.seconds + seconds });
      }
    },
  });
  for (let rank = 0; rank < ranks; rank++) launch.send(rank, job);
  const { exitCode } = await launch.outcome;
  if (exitCode === exitCodes.interrupted)
    throw new InterruptedError("stopped on request; nothing of what was measured is kept");
  if (exitCode !== 0) throw new ShunyaError("DEVICE", "a measuring run failed; its message is above");
}

/** Rounds of all passes; a drive's speed varies. */
const rounds = 3;

async function measureDrive(folder: string): Promise<DriveRates> {
  const settings = { blockBytes: 2 ** 20, queueDepth: 8, parallelism: 1 };
  const shares = await measureShares([folder], settings);
  using speed = new SwapSpeed({
    cases: [{ folders: [folder], shares, settings }],
    recordBytes: usualRecordBytes,
    records: 16,
  });
  const rates: Record<(typeof passNames)[number], number[]> = { write: [], read: [], mixed: [] };
  for (let round = 0; round < rounds; round++)
    for (const name of passNames) rates[name].push(await speed.pass(0, name));
  return {
    folder,
    readBytesPerSecond: median(rates.read),
    writeBytesPerSecond: median(rates.write),
    mixedBytesPerSecond: median(rates.mixed),
  };
}

function keep(calibration: Calibration, file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(calibration, undefined, 2)}\n`);
  } catch (error) {
    throw cannotKeep(file, error);
  }
}

const cannotKeep = (file: string, error: unknown): UsageError =>
  new UsageError(`${file} cannot be written: ${reasonOf(error, file)}; name another with --output FILE`);

/** Of a core's peak in registers, what products and attention reach in training, and what memory gives a core: usual shares. */
const usual = { products: 0.85, attention: 0.6, memoryBytesPerSecond: 1e10, collectiveBytesPerSecond: 8e9 };

/** What can be said of this machine in a quarter of a second. */
export function guessCalibration(): Calibration {
  const { fp32, bf16, cores } = measureSpeed();
  const rates = (share: number) => ({ fp32: share * fp32, bf16: share * bf16, fp16: share * fp32 });
  const { memoryBytesPerSecond, collectiveBytesPerSecond } = usual;
  return {
    version: 1,
    measuredAt: "",
    processor: cpus()[0]?.model.trim() ?? process.arch,
    cores,
    memoryBytes: totalmem(),
    core: {
      productsPerSecond: rates(usual.products),
      attentionPerSecond: rates(usual.attention),
      droppedAttentionPerSecond: rates(usual.attention),
      opBytesPerSecond: {},
      memoryBytesPerSecond,
      collectiveBytesPerSecond,
      crossingBytesPerSecond: memoryBytesPerSecond,
      updateBytesPerSecond: 2 * memoryBytesPerSecond,
    },
    drive: undefined,
  };
}

/** @returns undefined where this machine has not been measured @throws UsageError for a file that is something else */
export function readCalibration(file: string): Calibration | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
  const wrong = new UsageError(
    `${file} is not a calibration of this version; make it again: shunya doctor --calibrate`,
  );
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw wrong;
  }
  if (!isCalibration(value)) throw wrong;
  return value;
}

function renderCalibration({ core, drive, processor, cores }: Calibration): string {
  const perSecond = (bytes: number): string => `${formatBytes(bytes)}/s`;
  const products = (type: "fp32" | "bf16" | "fp16"): string[] => [
    `products ${type}`,
    `${formatOperations(core.productsPerSecond[type])}/s`,
  ];
  const rows = [
    products("fp32"),
    products("bf16"),
    products("fp16"),
    ["attention bf16", `${formatOperations(core.attentionPerSecond.bf16)}/s`],
    ["  with dropout", `${formatOperations(core.droppedAttentionPerSecond.bf16)}/s`],
    ["ops bound by memory", perSecond(core.memoryBytesPerSecond)],
    ["optimizer on the host", perSecond(core.updateBytesPerSecond)],
    ["collectives", perSecond(core.collectiveBytesPerSecond)],
    ["copies between tiers", perSecond(core.crossingBytesPerSecond)],
    ...(drive
      ? [
          [`read ${drive.folder}`, perSecond(drive.readBytesPerSecond)],
          ["write", perSecond(drive.writeBytesPerSecond)],
          ["both at once", perSecond(drive.mixedBytesPerSecond)],
        ]
      : []),
  ];
  return renderTable({
    columns: [
      { header: `${processor}, ${cores} cores: one core`, align: "left" },
      { header: "while all work", align: "right" },
    ],
    rows,
  });
}
