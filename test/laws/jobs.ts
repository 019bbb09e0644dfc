// What a rank process of the laws is asked to train, and what it answers. Plain data: it crosses a process border.
import { parseConfigObject } from "../../src/config/json.ts";
import { type ConfigResolution, resolveConfig } from "../../src/config/resolve.ts";
import type { ProgramSpan, QueueSpan } from "../../src/device/timeline.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { SplitRow } from "../../src/plan/residence.ts";
import type { HostBatch } from "../../src/zero/batch.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import { type ModelSpec, vocabularyOf } from "./models.ts";

export interface Job {
  readonly model: ModelSpec;
  /** DeepSpeed's JSON. */
  readonly config: object;
  readonly steps: number;
  readonly seqLength: number;
  /** Defaults to 1. */
  readonly threads?: number;
  readonly row?: SplitRow;
  /** A checkpoint is saved after so many steps, by all ranks or by one alone. */
  readonly save?: {
    readonly folder: string;
    readonly afterStep: number;
    readonly rank?: number;
    /** Training goes on meanwhile, and the save is held up; see SavingAnswer. */
    readonly beside?: { readonly fullDiskOfRank?: number };
  };
  /** A checkpoint, or a folder of them, to go on from. */
  readonly resume?: string;
  /** A model folder with initial weights. */
  readonly modelFolder?: string;
  /** A folder with adapters of that model to begin with. */
  readonly adapterFolder?: string;
  /** The likeliest tokens after a prompt, made between steps; each rank takes the next of the prompts, and after the last the first. */
  readonly generate?: {
    readonly afterSteps: readonly number[];
    readonly prompts: readonly (readonly number[])[];
    readonly tokens: number;
  };
  /** A budget of each rank. */
  readonly deviceMemoryBytes?: number;
  /** Tokens of the run, window after window; drawn when left out. */
  readonly tokens?: Uint16Array;
  /** Which targets of each sample of the run count, from the first to the one before the second; undefined: all. */
  readonly answers?: readonly (readonly [number, number])[];
  /** Whole final weights come back too. */
  readonly wantsWeights?: boolean;
  /** Gathers and releases come back, as rank 0 issued them in its last step. */
  readonly wantsTrace?: boolean;
  /** What every queue and the program did in all steps comes back. */
  readonly wantsTimeline?: boolean;
  /** Bytes of shared memory that the system holds for each rank come back; weights are zero and do not. */
  readonly wantsResidentBytes?: boolean;
  /** Defaults to 20 s. */
  readonly deadlineMs?: number;
  /** This rank kills itself at the start of this step. */
  readonly death?: { readonly rank: number; readonly step: number };
  /** The signal of this rank alone is aborted at the start of this step. */
  readonly stop?: { readonly rank: number; readonly step: number };
  /** This rank waits so long at the start of this step. */
  readonly stall?: { readonly rank: number; readonly step: number; readonly ms: number };
}

export interface RankAnswer {
  readonly records: readonly StepRecord[];
  /** SHA-256 of all weights in fp32. */
  readonly weightsHash: string;
  readonly weights?: ReadonlyMap<string, Float32Array>;
  readonly trace?: readonly TraceEntry[];
  readonly timeline?: { readonly queues: readonly QueueSpan[]; readonly program: readonly ProgramSpan[] };
  readonly residentBytes?: number;
  readonly saving?: SavingAnswer;
  /** In the order of `generate.afterSteps`. */
  readonly generated?: readonly Generated[];
  readonly error?: { readonly name: string; readonly code: string; readonly message: string };
}

/** What generating between two steps made, and what it took. */
export interface Generated {
  readonly tokens: readonly number[];
  /** Elements that all-gathers sent, and bytes that crossed from the host. */
  readonly gatheredElements: number;
  /** Numbers that this rank told the others. */
  readonly toldElements: number;
  readonly upBytes: number;
  /** Device bytes that are still held and were not before. */
  readonly leftBytes: number;
  /** The most device bytes at once. */
  readonly peakBytes: number;
}

/** What came of a save beside training that stops half way until the next step's update is due, and flushes nothing before the last step. */
export interface SavingAnswer {
  /** Whether the next step's update waited for it. */
  readonly updateWaited: boolean;
  readonly publishedAtStep6: boolean;
  readonly error?: { readonly name: string; readonly message: string };
}

/** A unit's parameters become whole, or what made them whole goes away. */
export interface TraceEntry {
  readonly what: "gather" | "release";
  readonly unit: string;
}

export const configOf = (config: object, worldSize: number): ConfigResolution =>
  resolveConfig({ file: parseConfigObject(config), worldSize });

/** A token that depends on its place alone, and on the one before it: there is something to learn. */
function drawnToken(place: number, vocabulary: number): number {
  const hash = Math.imul((place >>> 1) ^ 0x9e3779b9, 0x85ebca6b);
  const first = ((hash ^ (hash >>> 13)) >>> 0) % vocabulary;
  return place % 2 === 0 ? first : (3 * first + 1) % vocabulary;
}

/** Global sample s is window s: tokens [s * T, s * T + T], targets shifted by one (contracts 21). */
export function batchOf(
  job: Pick<Job, "model" | "seqLength" | "tokens" | "answers">,
  firstSample: number,
  samples: number,
): HostBatch<LanguageBatch> {
  const { seqLength } = job;
  const vocabulary = vocabularyOf(job.model);
  const token = (i: number): number => job.tokens?.[i % job.tokens.length] ?? drawnToken(i, vocabulary);
  const first = firstSample * seqLength;
  const shape = [samples, seqLength];
  const take = (shift: number): Int32Array =>
    Int32Array.from({ length: samples * seqLength }, (_, i) => token(first + i + shift));
  const targets = take(1);
  for (let i = 0; i < targets.length && job.answers; i++) {
    const [from, end] = job.answers[firstSample + Math.floor(i / seqLength)]!;
    if (i % seqLength < from || i % seqLength >= end) targets[i] = -1;
  }
  return { inputs: { data: take(0), shape }, targets: { data: targets, shape } };
}

/** Targets that count in all samples of a step; undefined where all do. */
export function stepTargetsOf({ answers }: Job, firstSample: number, samples: number): number | undefined {
  return answers?.slice(firstSample, firstSample + samples).reduce((sum, [from, end]) => sum + end - from, 0);
}
