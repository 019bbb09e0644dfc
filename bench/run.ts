/**
 * `npm run bench [SECTION...]`: kernels, collectives, a whole step, states on disk and text to tokens against what this machine gives in the same run.
 * Figures are medians of interleaved rounds; shares are of the limit measured beside them, so they hold on a busy machine too.
 */
import { availableParallelism } from "node:os";
import { renderTable } from "../src/report/table.ts";
import { measureCheckpoint, measureSaving } from "./checkpoint.ts";
import { measureCollectives } from "./collectives.ts";
import { measureDisk } from "./disk.ts";
import { measureForetold } from "./foretold.ts";
import { measureGeneration } from "./generation.ts";
import { measureHidden } from "./hidden.ts";
import { type KernelResult, meanShare, measureAttention, measureProducts } from "./kernels-matmul.ts";
import { measureMemoryKernels } from "./kernels-memory.ts";
import { measureStep } from "./step.ts";
import { measureTokenize } from "./tokenize.ts";

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
const milliseconds = (seconds: number): string => `${(1e3 * seconds).toFixed(2)} ms`;

function print(title: string, headers: readonly string[], rows: readonly (readonly string[])[]): void {
  const columns = headers.map((header, i) => ({ header, align: i === 0 ? ("left" as const) : ("right" as const) }));
  process.stdout.write(`\n${title}\n${renderTable({ columns, rows: rows.map((r) => [...r]) })}\n`);
}

const kernelRow = (r: KernelResult): string[] => [r.name, r.gigaOperations.toFixed(0), percent(r.share)];

async function products(): Promise<void> {
  for (const dtype of ["bf16", "f32"] as const) {
    const results = await measureProducts(dtype);
    const mean = ["geometric mean", "", percent(meanShare(results))];
    print(
      `Matrix products, ${dtype}, one thread`,
      ["product", "GFLOP/s", "of peak"],
      [...results.map(kernelRow), mean],
    );
  }
}

async function attention(): Promise<void> {
  for (const dtype of ["bf16", "f32"] as const) {
    const { forward, backward, share } = await measureAttention(dtype);
    const both = ["both passes", "", percent(share)];
    const rows = [kernelRow(forward), kernelRow(backward), both];
    print(`Causal attention, ${dtype}, one thread`, ["pass", "GFLOP/s (causal)", "of peak"], rows);
  }
  for (const dtype of ["bf16", "f32"] as const) {
    const rows = [];
    for (const window of [2048, 256]) {
      const { forward, backward, share } = await measureAttention(dtype, { seq: 2048, window });
      rows.push([`${window}`, milliseconds(forward.seconds), milliseconds(backward.seconds), percent(share)]);
    }
    print(
      `Attention in a window, 2048 positions, ${dtype}, one thread`,
      ["window", "forward", "backward", "of peak"],
      rows,
    );
  }
}

async function memory(): Promise<void> {
  const rows = (await measureMemoryKernels()).map((r) => [
    r.name,
    r.kernelGBs.toFixed(1),
    r.streamGBs.toFixed(1),
    percent(r.share),
  ]);
  const headers = ["kernel", "GB/s", "pass without arithmetic, GB/s", "of it"];
  print("Kernels bound by memory, one thread", headers, rows);
}

async function collectives(): Promise<void> {
  const results = await measureCollectives(2, { bytes: 256 * 2 ** 20, rounds: 9 });
  const rows = results.map((r) => [r.name, r.tensorGBs.toFixed(1), percent(r.share)]);
  print("Collectives, one thread a rank", ["collective", "GB/s of the tensor", "of copy bandwidth"], rows);
}

async function generation(): Promise<void> {
  const rows: string[][] = [];
  for (const precision of ["fp32", "bf16"] as const)
    for (const context of [64, 900])
      for (const threads of [1, 2]) {
        const { tokensPerSecond, share } = await measureGeneration(precision, { threads, context });
        const name = `${precision}, after ${context} tokens, ${threads} thread(s)`;
        rows.push([name, tokensPerSecond.toFixed(1), percent(share)]);
      }
  print("GPT-2 124M written token by token", ["run", "tokens/s", "reading the weights / token"], rows);
}

async function step(): Promise<void> {
  const job = { precision: "bf16", batch: 2, seq: 512, rounds: 5 } as const;
  const rows: string[][] = [];
  for (const [ranks, stage] of [
    [1, 0],
    [2, 1],
    [2, 3],
  ] as const) {
    const r = await measureStep(ranks, { ...job, stage });
    rows.push([
      `${ranks} rank(s), stage ${stage}`,
      r.stepSeconds.toFixed(2),
      r.floorSeconds.toFixed(2),
      percent(r.share),
    ]);
  }
  const title = "A step of GPT-2 124M, bf16, 2 x 512 tokens a rank, one thread a rank";
  print(title, ["run", "step, s", "floor, s", "floor / step"], rows);
}

async function disk(): Promise<void> {
  const rows: string[][] = [];
  for (const elements of [2 ** 20, 2 ** 22]) {
    const r = await measureDisk(elements);
    const name = `sub-groups of ${12 * (elements / 2 ** 20)} MiB`;
    rows.push([name, r.updateGBs.toFixed(2), r.sweepGBs.toFixed(2), percent(r.share)]);
  }
  const headers = ["Adam with states on disk", "GB/s", "reading and writing alone, GB/s", "of it"];
  print("States on disk, 1 GiB, one thread, checksums included", headers, rows);
}

async function checkpoint(): Promise<void> {
  const { bytes, rates, writeShare, readShare } = await measureCheckpoint();
  const shares: Readonly<Record<string, number>> = { save: writeShare, check: readShare };
  const rows = Object.entries(rates).map(([work, rate]) => [
    work,
    rate.toFixed(2),
    shares[work] === undefined ? "" : percent(shares[work]),
  ]);
  print(`Checkpoints of GPT-2 124M, ${(bytes / 1e9).toFixed(2)} GB`, ["work", "GB/s", "of the drive's"], rows);
}

async function saving(): Promise<void> {
  const steps = Object.entries(await measureSaving()).map(([kind, seconds]) => [kind, seconds.toFixed(2)]);
  print("A step of GPT-2 124M, bf16, 2 x 512 tokens, one thread", ["step", "seconds"], steps);
}

async function hidden(): Promise<void> {
  const rows = (await measureHidden([0, 25, 50])).map((r) => {
    const [read, write] = [0, 1].map((i) => percent(1 - r.waitedSeconds[i]! / r.diskSeconds[i]!));
    const seconds = [r.stepSeconds, ...r.diskSeconds].map((s) => s.toFixed(2));
    return [`${r.delayMs} ms before every transfer`, seconds[0]!, seconds[1]!, read!, seconds[2]!, write!];
  });
  const headers = ["states on disk, one thread", "step, s", "reads, s", "hidden", "writes, s", "hidden"];
  print("A slower drive costs what is not hidden: 19 million parameters, 8192 tokens", headers, rows);
}

async function foretold(): Promise<void> {
  const rows = (await measureForetold()).map(({ name, measuredSeconds, foretoldSeconds }) => {
    const error = 100 * (foretoldSeconds / measuredSeconds - 1);
    return [
      name,
      measuredSeconds.toFixed(2),
      foretoldSeconds.toFixed(2),
      `${error > 0 ? "+" : ""}${error.toFixed(0)} %`,
    ];
  });
  const title = "A step of GPT-2 124M with 512 tokens a rank: measured, and simulated with this machine's calibration";
  print(title, ["job", "measured, s", "simulated, s", "error"], rows);
}

async function tokens(): Promise<void> {
  const rows = (await measureTokenize(availableParallelism())).map((r) => [
    r.name,
    r.megabytesPerSecond.toFixed(1),
    r.tokensPerSecond === 0 ? "" : (r.tokensPerSecond / 1e6).toFixed(2),
    (1000 * r.cpuSecondsPerMegabyte).toFixed(0),
  ]);
  const headers = ["text to tokens", "MB/s", "million tokens/s", "CPU ms for a MB, all threads"];
  print("48 MB of text in Hindi and English letters, a tokenizer of 32,768 tokens", headers, rows);
}

const sections = {
  ...{ products, attention, memory, collectives, step, generation },
  ...{ disk, checkpoint, saving, hidden, foretold, tokens },
};
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in sections));
if (unknown.length > 0) {
  process.stderr.write(`unknown section ${unknown.join(", ")}; wanted ${Object.keys(sections).join(", ")}\n`);
  process.exit(2);
}
for (const [name, measure] of Object.entries(sections)) if (asked.length === 0 || asked.includes(name)) await measure();
