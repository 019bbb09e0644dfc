/** What the page of the picture is asked: the controls' values, their steps, and how they stand in a link. */
import type { Stage } from "../config/types.ts";
import { allStages, type Offload, offloads } from "../plan/placement.ts";
import type { RankRoom } from "../planner/fit.ts";
import type { PlannedFootprint } from "../planner/footprint.ts";

export interface Card {
  readonly name: string;
  readonly usableBytes: number;
}

/** What a plan gives the page. */
export interface FootprintPageData {
  /** What the planned model is called. */
  readonly model: string;
  readonly planned: PlannedFootprint;
  /** Layers and width of the planned model. */
  readonly layers: number;
  readonly hidden: number;
  /** "AdamW in bf16". */
  readonly training: string;
  readonly engine: "shunya" | "deepspeed";
  readonly card: string;
  /** Of the planned card and its node; host and disk stay as they are. */
  readonly room: RankRoom;
  /** All that are known. */
  readonly cards: readonly Card[];
  /** Pointed out at first. */
  readonly stage: Stage;
  readonly offload: Offload;
}

export interface PageState {
  readonly parameters: number;
  readonly ranks: number;
  readonly microBatch: number;
  readonly sequenceLength: number;
  readonly stage: Stage;
  readonly offload: Offload;
  /** Undefined: none of the known ones. */
  readonly card: string | undefined;
  readonly usableBytes: number;
}

export function plannedState({ planned, stage, offload, card, room }: FootprintPageData): PageState {
  return { ...planned.job, stage, offload, card, usableBytes: room.deviceBytes };
}

export type CountName = "parameters" | "ranks" | "microBatch" | "sequenceLength";

interface CountControl {
  readonly label: string;
  readonly least: number;
  readonly most: number;
  /** What the slider stops at; any whole number can be written. */
  readonly steps: readonly number[];
}

/** All numbers of so many digits. */
function decades(least: number, most: number, digits: number): number[] {
  const steps: number[] = [];
  for (let power = least; power < most; power *= 10)
    for (let i = 10 ** (digits - 1); i < 10 ** digits; i++) steps.push((i * power) / 10 ** (digits - 1));
  return [...steps, most];
}

/** Powers of two, and what lies half-way between them. */
function doublings(least: number, most: number): number[] {
  const steps: number[] = [];
  for (let power = least; power < most; power *= 2) steps.push(power, ...(power > 1 ? [1.5 * power] : []));
  return [...steps, most];
}

export const countControls: Readonly<Record<CountName, CountControl>> = {
  parameters: { label: "Parameters Ψ", least: 1e6, most: 1e13, steps: decades(1e6, 1e13, 2) },
  ranks: { label: "Ranks N", least: 1, most: 16384, steps: doublings(1, 16384) },
  microBatch: { label: "Micro-batch, sequences", least: 1, most: 512, steps: doublings(1, 512) },
  sequenceLength: { label: "Sequence, tokens", least: 16, most: 131072, steps: doublings(16, 131072) },
};

/** The step of a slider that is nearest to a value, by ratio. */
export function nearestStep({ steps }: CountControl, value: number): number {
  const distance = (i: number): number => Math.abs(Math.log(steps[i]! / value));
  return steps.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
}

const suffixes: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12 };

/** "1.5e9", "1.5B", "1,500,000,000". @returns undefined for what is no number */
export function parseNumber(written: string): number | undefined {
  const match = /^(\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(e[+-]?\d+)?\s*([kmbgt])?$/i.exec(written.trim());
  if (!match) return undefined;
  const [, digits = "", exponent = "", suffix = ""] = match;
  return Number(digits.replaceAll(",", "") + exponent) * (suffixes[suffix.toLowerCase()] ?? 1);
}

/** As it is written in a control: "1.5e9" where that says all of it, "1557611200", "4". */
export const writeCount = (value: number): string =>
  value >= 1e6 && Number(value.toPrecision(5)) === value ? value.toExponential().replace("e+", "e") : String(value);

/** A whole number that the control allows, else undefined. */
export function parseControl(name: CountName, written: string): number | undefined {
  const value = Math.round(parseNumber(written) ?? Number.NaN);
  const { least, most } = countControls[name];
  return value >= least && value <= most ? value : undefined;
}

const mostUsableBytes = 1e13;

/** Gigabytes, as of a card. */
export function parseGigabytes(written: string): number | undefined {
  const bytes = (parseNumber(written) ?? Number.NaN) * 1e9;
  return bytes > 0 && bytes <= mostUsableBytes ? bytes : undefined;
}

export const offloadKey = ({ offloadOptimizer, offloadParam }: Offload): string =>
  `${offloadOptimizer}-${offloadParam}`;

export const offloadOf = (key: string | null): Offload | undefined =>
  offloads.find((offload) => offloadKey(offload) === key);

const hashNames: Readonly<Record<CountName, string>> = {
  parameters: "params",
  ranks: "ranks",
  microBatch: "batch",
  sequenceLength: "seq",
};
const countNames = Object.keys(hashNames) as CountName[];

/** The part of a link after #. */
export function writeHash(state: PageState): string {
  const query = new URLSearchParams();
  for (const name of countNames) query.set(hashNames[name], String(state[name]));
  query.set("stage", String(state.stage));
  query.set("offload", offloadKey(state.offload));
  if (state.card === undefined) query.set("memory", String(state.usableBytes / 1e9));
  else query.set("card", state.card);
  return query.toString();
}

/** What a link leaves out, or says wrongly, is as planned. */
export function readHash(hash: string, data: FootprintPageData): PageState {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const planned = plannedState(data);
  const count = (name: CountName): number => parseControl(name, query.get(hashNames[name]) ?? "") ?? planned[name];
  const stage = allStages.find((known) => String(known) === query.get("stage"));
  const usableBytes = parseGigabytes(query.get("memory") ?? "");
  const card = data.cards.find(({ name }) => name === query.get("card"));
  return {
    parameters: count("parameters"),
    ranks: count("ranks"),
    microBatch: count("microBatch"),
    sequenceLength: count("sequenceLength"),
    stage: stage ?? planned.stage,
    offload: offloadOf(query.get("offload")) ?? planned.offload,
    card: usableBytes === undefined ? (card?.name ?? planned.card) : undefined,
    usableBytes: usableBytes ?? card?.usableBytes ?? planned.usableBytes,
  };
}
