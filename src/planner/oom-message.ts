/**
 * What an out-of-memory message says, in the forms that PyTorch (CUDA, HIP, XPU; before and after 2.1), its CPU allocator, launchers,
 * the system and Shunya itself have for it. Sizes are printed in binary units and rounded: each keeps how far it may be off.
 */

export type OomPlace = "device" | "host" | "pinned" | "killed" | "disk" | "shared memory" | "shunya";

/** A size as it was printed. */
export interface PrintedSize {
  readonly bytes: number;
  /** Half a unit of the last printed digit. */
  readonly slackBytes: number;
  readonly text: string;
}

export interface OomMessage {
  readonly place: OomPlace;
  /** "CUDA", "HIP", "XPU"; undefined where it does not matter. */
  readonly api: string | undefined;
  /** The device's number, where there is one. */
  readonly device: number | undefined;
  readonly tried: PrintedSize | undefined;
  readonly capacity: PrintedSize | undefined;
  readonly free: PrintedSize | undefined;
  /** By this process, PyTorch's allocator or not. */
  readonly inUse: PrintedSize | undefined;
  /** In tensors. */
  readonly allocated: PrintedSize | undefined;
  /** By PyTorch's allocator and in no tensor. */
  readonly unallocated: PrintedSize | undefined;
  /** What Shunya's own refusal says. */
  readonly refusal: ShunyaRefusal | undefined;
  /** The message, on one line. */
  readonly text: string;
}

export interface ShunyaRefusal {
  readonly stage: number | undefined;
  readonly tier: "device" | "host" | "disk" | "memory";
  readonly needed: PrintedSize;
  readonly budget: PrintedSize | undefined;
  /** What the refusal itself says would fit: "Stage 3 fits: --stage 3". */
  readonly advice: string | undefined;
}

interface Form {
  readonly place: OomPlace;
  readonly pattern: RegExp;
}

/** Specific ones first. */
const forms: readonly Form[] = [
  {
    place: "shunya",
    pattern: /ZeRO stage \d needs [\d.]+ [KMGTP]?B|memory: \d+ bytes more for .+ do not fit the budget/,
  },
  {
    place: "shared memory",
    pattern:
      /(?:\/dev\/shm|shared memory|nccl-).*No space left on device|No space left on device.*(?:\/dev\/shm|shared memory|nccl-)|Bus error.*shm/i,
  },
  { place: "disk", pattern: /No space left on device|\[Errno 28\]|Disk quota exceeded/ },
  {
    place: "pinned",
    pattern:
      /(?:cudaHostAlloc|cudaMallocHost|cudaHostRegister|hipHostMalloc|hipHostRegister).*(?:fail|error|out of memory|invalid)|(?:fail|error|out of memory|invalid).*(?:cudaHostAlloc|cudaMallocHost|cudaHostRegister|hipHostMalloc|hipHostRegister)/i,
  },
  {
    place: "host",
    pattern:
      /DefaultCPUAllocator: (?:not enough memory|can't allocate memory)|std::bad_alloc|ArrayMemoryError|Unable to allocate [\d.]+ [KMGT]iB for an array|\[Errno 12\] Cannot allocate memory|^MemoryError\b/,
  },
  {
    place: "device",
    pattern:
      /\b(?:CUDA|HIP|XPU) out of memory\b|\b(?:CUDA|HIP) error: out of memory|OutOfMemoryError\b.*(?:allocat|memory)|cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED/i,
  },
  {
    place: "killed",
    pattern:
      /exits with return code = -9\b|Signal 9 \(SIGKILL\)|exitcode\s*:\s*-9\b|exit(?:ed)?(?: with)?(?: code| status)?:?\s+137\b|\bOOMKilled\b|^(?:.*: line \d+:\s*\d+\s+)?Killed\b(?! by)|Out of memory: Killed process|oom-kill:/i,
  },
];

/** Where a line speaks of memory that ran out; undefined for all other lines. */
export const placeOfLine = (line: string): OomPlace | undefined =>
  forms.find(({ pattern }) => pattern.test(line))?.place;

const size = String.raw`([\d.]+)\s+(bytes|[KMGTP]?i?B)`;
const triedToAllocate = new RegExp(String.raw`tried to allocate\s+${size}`, "i");
const unableToAllocate = new RegExp(`Unable to allocate ${size}`);
const capacities = [new RegExp(`${size} total capacity`), new RegExp(`total capac\\w*\\s+of\\s+${size}`)];
const frees = [new RegExp(`${size} free`), new RegExp(`of which\\s+${size}\\s+is\\s+free`)];
const inUses = [new RegExp(`this process has\\s+${size}\\s+memory\\s+in\\s+use`)];
const allocateds = [
  new RegExp(`${size}\\s+already\\s+allocated`),
  new RegExp(`${size}\\s+is\\s+allocated\\s+by\\s+PyTorch`),
];
const reserveds = [new RegExp(`${size}\\s+reserved\\s+in\\s+total`)];
const unallocateds = [new RegExp(`${size}\\s+is\\s+reserved\\s+by\\s+PyTorch\\s+but\\s+unallocated`)];

/** @param text the message on one line, as far as it could be put together */
export function readOomMessage(place: OomPlace, text: string): OomMessage {
  const first = (patterns: readonly RegExp[]): PrintedSize | undefined => {
    for (const pattern of patterns) {
      const match = pattern.exec(text);
      if (match !== null) return printedSize(match[1]!, match[2]!);
    }
    return undefined;
  };
  const allocated = first(allocateds);
  const reserved = first(reserveds);
  const device = /\bGPU (\d+)/.exec(text)?.[1];
  return {
    place,
    api: /\b(CUDA|HIP|XPU)\b/.exec(text)?.[1],
    device: device === undefined ? undefined : Number(device),
    tried: first([triedToAllocate, unableToAllocate]),
    capacity: first(capacities),
    free: first(frees),
    inUse: first(inUses),
    allocated,
    unallocated: first(unallocateds) ?? (reserved && allocated && difference(reserved, allocated)),
    refusal: place === "shunya" ? readRefusal(text) : undefined,
    text,
  };
}

const unitBytes: Readonly<Record<string, number>> = {
  ...{ bytes: 1, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15 },
  ...{ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50 },
};

export function printedSize(digits: string, unit: string): PrintedSize {
  const each = unitBytes[unit] ?? 1;
  const decimals = digits.split(".")[1]?.length ?? 0;
  const slackBytes = each === 1 ? 0 : (each * 10 ** -decimals) / 2;
  return { bytes: Number(digits) * each, slackBytes, text: `${digits} ${unit}` };
}

function difference(a: PrintedSize, b: PrintedSize): PrintedSize {
  const bytes = Math.max(0, a.bytes - b.bytes);
  return { bytes, slackBytes: a.slackBytes + b.slackBytes, text: `${(bytes / 2 ** 30).toFixed(2)} GiB` };
}

function readRefusal(text: string): ShunyaRefusal | undefined {
  const advice = /(Stage \d[^.:]*? fits):\s+((?:--\S+(?: \S+)?\s*\\?\s*)+)/.exec(text);
  const told = advice === null ? undefined : `${advice[1]}: ${advice[2]!.replace(/\s*\\\s*/g, " ").trim()}`;
  const asked = /ZeRO stage (\d) needs ([\d.]+) ([KMGTP]?B) (of (device|host) memory|on disk|of it)/.exec(text);
  if (asked !== null) {
    const budget =
      /(?:budget is|room for|memory,?) ([\d.]+) ([KMGTP]?B)\./.exec(text.slice(asked.index)) ??
      /\bhas ([\d.]+) ([KMGTP]?B)\./.exec(text);
    return {
      stage: Number(asked[1]),
      tier: (asked[5] as "device" | "host" | undefined) ?? (asked[4] === "on disk" ? "disk" : "memory"),
      needed: printedSize(asked[2]!, asked[3]!),
      budget: budget === null ? undefined : printedSize(budget[1]!, budget[2]!),
      advice: told,
    };
  }
  const more = /(device|host|disk) memory: (\d+) bytes more for .+ do not fit the budget of (\d+) bytes/.exec(text);
  if (more === null) return undefined;
  return {
    stage: undefined,
    tier: more[1] as "device" | "host" | "disk",
    needed: printedSize(more[2]!, "bytes"),
    budget: printedSize(more[3]!, "bytes"),
    advice: told,
  };
}
