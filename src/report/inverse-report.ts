/** Answers to inverse questions, and what this machine trains. */
import type { Inverse } from "../planner/inverse.ts";
import { formatCount } from "./numbers.ts";
import { placementWords, rateText } from "./plan-words.ts";
import { renderTable } from "./table.ts";

export type InverseQuestion = "largestModel" | "fewestRanks" | "largestBatch";

const headers: Readonly<Record<InverseQuestion, string>> = {
  largestModel: "largest model",
  fewestRanks: "fewest ranks",
  largestBatch: "largest micro-batch",
};

/** "1.31 B", "774 M". */
export function sizeText(parameters: number): string {
  const units = [
    ["T", 1e12],
    ["B", 1e9],
    ["M", 1e6],
  ] as const;
  const [unit, size] = units.find(([, least]) => parameters >= least) ?? ["k", 1e3];
  return `${(parameters / size).toPrecision(3)} ${unit}`;
}

const text = (question: InverseQuestion, answer: number | undefined): string => {
  if (answer === undefined) return "none";
  return question === "largestModel" ? sizeText(answer) : formatCount(answer);
};

export function renderInverse(question: InverseQuestion, answers: readonly Inverse[]): string {
  return renderTable({
    columns: [
      { header: "placement", align: "left" },
      { header: headers[question], align: "right" },
    ],
    rows: answers.map(({ placement, answer }) => [placementWords(placement), text(question, answer)]),
  });
}

/** A model for each placement, and what it would be trained at. */
export interface MachineRow extends Inverse {
  readonly tokensPerSecond: number | undefined;
  /** The largest published model that fits. */
  readonly published: string | undefined;
}

export function renderMachineRows(rows: readonly MachineRow[]): string {
  return renderTable({
    columns: [
      { header: "placement", align: "left" },
      { header: "largest model", align: "right" },
      { header: "tokens/s", align: "right" },
      { header: "published", align: "left" },
    ],
    rows: rows.map(({ placement, answer, tokensPerSecond, published }) => [
      placementWords(placement),
      text("largestModel", answer),
      tokensPerSecond === undefined ? "-" : rateText(tokensPerSecond),
      published ?? "-",
    ]),
  });
}
