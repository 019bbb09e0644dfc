/** What out-of-memory messages come to: which bytes those were, and the smallest change that fits. */
import { printable } from "../errors/printable.ts";
import { type Candidate, isSmallBlock, matchingQuantities, quantitiesOf } from "../planner/oom-candidates.ts";
import { cardOf } from "../planner/oom-cards.ts";
import { type Cause, causeOf } from "../planner/oom-cause.ts";
import type { OomFinding } from "../planner/oom-log.ts";
import type { OomPlace, PrintedSize, ShunyaRefusal } from "../planner/oom-message.ts";
import type { SmallestChange } from "../planner/smallest-change.ts";
import { adviceOf, type OomJob } from "./explain-oom-advice.ts";
import { formatBytes, formatCount, formatShare } from "./numbers.ts";
import { wrap } from "./wrap.ts";

export interface OomExplanation {
  readonly line: number;
  readonly place: OomPlace;
  readonly count: number;
  readonly devices: readonly number[];
  readonly triedBytes: number | null;
  readonly capacityBytes: number | null;
  readonly card: string | null;
  readonly allocatedBytes: number | null;
  /** What was full, in words. */
  readonly facts: readonly string[];
  /** What the tried size may be, the likeliest first. */
  readonly candidates: readonly Candidate[];
  readonly cause: Cause | null;
  /** Which bytes those were, in words. */
  readonly says: readonly string[];
  /** What to change, the smallest first. */
  readonly advice: readonly string[];
  /** The first change that fits, by an estimate of the job; null where the job was not described. */
  readonly change: SmallestChange | null;
}

export function explainOom(finding: OomFinding, job: OomJob, change: SmallestChange | undefined): OomExplanation {
  const { tried, capacity, place } = finding;
  const cause = causeOf(finding.frames);
  const candidates = tried === undefined ? [] : matchingQuantities(tried, place, quantitiesOf(job), cause?.kind);
  return {
    line: finding.logLine,
    place,
    count: finding.count,
    devices: finding.devices,
    triedBytes: tried?.bytes ?? null,
    capacityBytes: capacity?.bytes ?? null,
    card: (capacity && cardOf(capacity.bytes)) ?? null,
    allocatedBytes: finding.allocated?.bytes ?? null,
    facts: factsOf(finding),
    candidates,
    cause: cause ?? null,
    says: saysOf(finding, job, candidates, cause),
    advice: adviceOf(finding, job, candidates[0]?.kind ?? cause?.kind, change),
    change: change ?? null,
  };
}

const titles: Readonly<Record<OomPlace, string>> = {
  device: "a device is full",
  host: "host memory could not be had",
  pinned: "page-locked host memory could not be had",
  killed: "a process was killed, most likely because host memory was full",
  disk: "a disk is full",
  "shared memory": "shared memory is full",
  shunya: "Shunya refused the job before it began",
};

const tierNames: Readonly<Record<ShunyaRefusal["tier"], string>> = {
  device: "device memory",
  host: "host memory",
  disk: "disk",
  memory: "device and host memory together",
};

/** "2.00 GiB (2.15 GB)". */
const bothUnits = ({ text, bytes }: PrintedSize): string =>
  /iB$/.test(text) ? `${text} (${formatBytes(bytes)})` : `${formatBytes(bytes)}`;

function factsOf({ tried, capacity, free, inUse, allocated, unallocated, refusal }: OomFinding): string[] {
  const facts: string[] = [];
  if (refusal !== undefined)
    return [
      `needed: ${refusal.needed.text}${refusal.stage === undefined ? " more" : ` of ${tierNames[refusal.tier]} at stage ${refusal.stage}`}; allowed: ${refusal.budget?.text ?? "less"}`,
    ];
  if (tried) facts.push(`asked for: ${bothUnits(tried)}`);
  if (capacity) {
    const card = cardOf(capacity.bytes);
    facts.push(`the device: ${bothUnits(capacity)}${card === undefined ? "" : `, as a card of ${card} reports`}`);
  }
  if (free) facts.push(`free: ${bothUnits(free)}`);
  if (allocated)
    facts.push(
      `in tensors: ${bothUnits(allocated)}${capacity ? `, ${formatShare(allocated.bytes, capacity.bytes)} of the device` : ""}`,
    );
  if (unallocated) facts.push(`held by PyTorch and in no tensor: ${bothUnits(unallocated)}`);
  if (inUse && capacity && free) {
    const others = capacity.bytes - free.bytes - inUse.bytes;
    if (others > 0.02 * capacity.bytes) facts.push(`held by other processes: ${formatBytes(others)}`);
  }
  return facts;
}

function saysOf(
  finding: OomFinding,
  job: OomJob,
  candidates: readonly Candidate[],
  cause: Cause | undefined,
): string[] {
  const { place, tried } = finding;
  const says: string[] = [];
  if (tried !== undefined && place === "device" && isSmallBlock(tried))
    says.push(
      `${tried.text} is the block that PyTorch asks for whatever small tensor needs room (2.00 MiB below 1 MiB, 20.00 MiB from 1 to 10 MiB). It was only the last drop: the device was full already.`,
    );
  if (cause !== undefined) {
    const { file, line, name, code } = cause.frame;
    const where = `${file.split("/").slice(-3).join("/")}:${line}${name === "" ? "" : `, in ${name}`}`;
    says.push(
      `The traceback ends in ${printable(where)}${
        code === ""
          ? ""
          : `: ${printable(
              code
                .replace(/^[❱\d│|\s]+/, "")
                .trim()
                .slice(0, 80),
            )}`
      }. So these bytes are probably ${cause.words}.`,
    );
  }
  for (const { name, formula, bytes, difference } of candidates)
    says.push(
      `It may be ${name}: ${withCounts(formula)} = ${formatBytes(bytes)} (${difference === 0 ? "equal, as far as it is printed" : `${(100 * difference).toFixed(1)} % off`}).`,
    );
  if (tried !== undefined && candidates.length === 0 && !isSmallBlock(tried))
    says.push(
      job.parameters === undefined
        ? "With --model or --params, --config and --ranks the size is compared with those of the job's states, buckets, logits and layers."
        : "None of the sizes that are known of this job is within 2 % of it.",
    );
  if (cause === undefined && tried !== undefined)
    says.push("There is no traceback before the message that names a purpose.");
  says.push(...statesOf(finding, job), ...placeWords(finding));
  return says;
}

const withCounts = (formula: string): string => formula.replace(/\d{4,}/g, (digits) => formatCount(Number(digits)));

/** How much of what was allocated are model states, which no smaller batch makes smaller. */
function statesOf({ allocated }: OomFinding, { deviceStateBytes }: OomJob): string[] {
  if (allocated === undefined || deviceStateBytes === undefined) return [];
  const rest = allocated.bytes - deviceStateBytes;
  return [
    rest >= 0
      ? `Of the ${allocated.text} in tensors ${formatBytes(deviceStateBytes)} are model states by the file's stage; the other ${formatBytes(rest)} are activations, buffers and copies.`
      : `The model states of the file's stage are ${formatBytes(deviceStateBytes)}, more than the ${allocated.text} that were allocated: they were still being made.`,
  ];
}

function placeWords({ place, refusal }: OomFinding): string[] {
  if (place === "killed")
    return [
      "Signal 9 (exit code -9 or 137) is how the system, or a container's limit, ends a process when memory runs out; there is no message from PyTorch then. The system's log says so (dmesg: oom-kill), unless somebody killed it by hand.",
    ];
  if (place === "pinned")
    return [
      "Page-locked memory is host memory that cannot be swapped; a system gives less of it than it has, and a container still less (ulimit -l). DeepSpeed asks for it with pin_memory, which is on by default since 0.19.",
    ];
  if (place === "disk")
    return ["Swap files of offloaded states, or a checkpoint, did not fit the drive that the path is on."];
  if (place === "shared memory")
    return [
      "Ranks and data loaders exchange data through shared memory, which a container limits to 64 MB unless told otherwise.",
    ];
  if (place === "shunya" && refusal !== undefined)
    return ["Nothing was allocated: the sizes are of a forecast of the whole job, made before it began."];
  return [];
}

/** @param columns of the terminal */
export function renderOom(explanations: readonly OomExplanation[], source: string, columns: number): string {
  const bullet = (text: string): string => `- ${wrap(text, { first: 2, indent: 2, width: columns })}`;
  return `${explanations
    .map(({ line, place, count, devices, facts, says, advice }) => {
      const notes = [
        ...(devices.length === 0 ? [] : [`GPU ${devices.join(", ")}`]),
        ...(count === 1 ? [] : [`${formatCount(count)} messages alike`]),
      ];
      const noted = notes.length === 0 ? "" : ` (${notes.join("; ")})`;
      const title = wrap(`${printable(source)}:${line}: ${titles[place]}${noted}`, { width: columns });
      return [
        title,
        "─".repeat(Math.min(columns, Math.max(...title.split("\n").map((part) => part.length)))),
        ...facts.map(bullet),
        ...(says.length === 0 ? [] : ["", "Which bytes those were:", ...says.map(bullet)]),
        "",
        "What to change, the smallest first:",
        ...advice.map((text, i) => `${i + 1}. ${wrap(text, { first: 3, indent: 3, width: columns })}`),
      ].join("\n");
    })
    .join("\n\n")}\n`;
}
