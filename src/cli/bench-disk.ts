/** `shunya bench disk`: which way of asking makes these drives fastest, as the `aio` section of a configuration. */
import type { AioSettings } from "../device/swap.ts";
import { checkRoom } from "../device/swap-folder.ts";
import { measureShares, median, type PassName, passNames, SwapSpeed, usualRecordBytes } from "../device/swap-speed.ts";
import { InterruptedError, UsageError } from "../errors/errors.ts";
import { exitCodes } from "../launch/exit-codes.ts";
import type { Logger } from "../log/logger.ts";
import { formatBinaryBytes, formatBytes } from "../report/numbers.ts";
import { renderTable } from "../report/table.ts";

export interface BenchDiskOptions {
  readonly paths: readonly string[];
  /** Of all swap files together. */
  readonly sizeBytes: number;
  /** About how long to measure; two rounds are done in any case. */
  readonly seconds: number;
}

const blockSizes = [2 ** 18, 2 ** 20, 2 ** 22, 2 ** 24];
/** Requests in flight. Each has a thread, so depth and threads come to the same: only their product counts. */
const depths = [1, 4, 8, 16];
const allSettings: readonly AioSettings[] = blockSizes.flatMap((blockBytes) =>
  depths.map((queueDepth) => ({ blockBytes, queueDepth, parallelism: 1 })),
);
const usual: AioSettings = { blockBytes: 2 ** 20, queueDepth: 8, parallelism: 1 };

const leastSizeBytes = 2 ** 28;
/** Settings as good as the best but for this share count as equal: then the one with fewer bytes in flight is taken. */
const noise = 0.03;

/** Medians in bytes per second. */
export interface Measured extends Readonly<Record<PassName, number>> {
  readonly settings: AioSettings;
}

export async function runBenchDisk(options: BenchDiskOptions, logger: Logger): Promise<void> {
  const { paths, sizeBytes, seconds } = options;
  if (sizeBytes < leastSizeBytes) throw new UsageError(`--size: wanted at least ${formatBinaryBytes(leastSizeBytes)}`);
  for (const path of paths) checkRoom(path, Math.ceil(sizeBytes / paths.length));
  const isInterrupted = watchForInterrupt();
  const shares = await measureShares(paths, usual);
  const recordBytes = recordOf(sizeBytes);
  const settings = allSettings.filter((s) => s.blockBytes <= recordBytes);
  using speed = new SwapSpeed({
    cases: settings.map((s) => ({ folders: paths, shares, settings: s })),
    recordBytes,
    records: 2 * Math.max(1, Math.floor(sizeBytes / settings.length / recordBytes / 2)),
  });
  for (const notice of speed.notices) logger.warn(notice);
  if (paths.length > 1) process.stdout.write(`Blocks are shared ${shares.join(" : ")}, as the drives are fast.\n`);
  process.stdout.write(`Measuring ${settings.length} settings for about ${seconds} seconds.\n\n`);
  const measured = await sweep(speed, settings, seconds, isInterrupted);
  process.stdout.write(`${table(measured)}\n\n${conclusion(bestOf(measured))}`);
  process.stdout.write(`${formatBytes(speed.bytesWritten)} were written to measure this; drives wear.\n`);
}

/** Two records for each setting, of a power of two. */
function recordOf(sizeBytes: number): number {
  const most = sizeBytes / allSettings.length / 2;
  return Math.min(usualRecordBytes, 2 ** Math.floor(Math.log2(most)));
}

/** Swap files go when the command ends; the second Ctrl-C ends it in the middle of a pass. */
function watchForInterrupt(): () => boolean {
  let signals = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      if (++signals > 1) process.exit(exitCodes.interrupted);
    });
  return () => signals > 0;
}

/** Kinds of passes take turns, and within them the settings, so that all see the same machine and no pass reads what it just wrote. */
async function sweep(
  speed: SwapSpeed,
  settings: readonly AioSettings[],
  seconds: number,
  isInterrupted: () => boolean,
): Promise<Measured[]> {
  const rates = settings.map(() => ({ write: [] as number[], read: [] as number[], mixed: [] as number[] }));
  const end = performance.now() + 1000 * seconds;
  // The first round fills the files, which is slower than writing them again: it does not count.
  for (let round = 0; round < 2 || performance.now() < end; round++)
    for (const name of passNames)
      for (const [i, rate] of rates.entries()) {
        if (isInterrupted()) throw new InterruptedError("stopped; nothing is left on the drive");
        const found = await speed.pass(i, name);
        if (round > 0) rate[name].push(found);
      }
  return settings.map((s, i) => {
    const { write, read, mixed } = rates[i]!;
    return { settings: s, write: median(write), read: median(read), mixed: median(mixed) };
  });
}

/** An optimizer on disk reads and writes at once, so that is what counts. */
export function bestOf(measured: readonly Measured[]): Measured {
  const fastest = Math.max(...measured.map((m) => m.mixed));
  const inFlight = ({ settings: s }: Measured): number => s.blockBytes * s.queueDepth * s.parallelism;
  const good = measured.filter((m) => m.mixed >= (1 - noise) * fastest);
  return good.reduce((best, m) => (inFlight(m) < inFlight(best) ? m : best));
}

const gigabytes = (rate: number): string => (rate / 1e9).toFixed(2);

function table(measured: readonly Measured[]): string {
  const headers = ["block_size", "queue_depth", "write, GB/s", "read, GB/s", "read and write at once, GB/s"];
  return renderTable({
    columns: headers.map((header) => ({ header, align: "right" as const })),
    rows: measured.map(({ settings, ...m }) => [
      formatBinaryBytes(settings.blockBytes),
      String(settings.queueDepth),
      ...[m.write, m.read, m.mixed].map(gigabytes),
    ]),
  });
}

function conclusion({ settings, ...m }: Measured): string {
  const aio = {
    block_size: settings.blockBytes,
    queue_depth: settings.queueDepth,
    intra_op_parallelism: settings.parallelism,
    single_submit: false,
    overlap_events: true,
  };
  const rates = `${gigabytes(m.mixed)} GB/s reading and writing at once, ${gigabytes(m.read)} reading, ${gigabytes(m.write)} writing`;
  return `Best for states on disk: ${rates}, checksums included.\n${JSON.stringify({ aio }, null, 2)}\n`;
}
