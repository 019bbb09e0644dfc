/** The generated part of docs/deepspeed-estimates.md: every measured row, and what the estimator says of it. */
import { estimateDeepSpeed } from "../../src/planner/deepspeed.ts";
import { type Column, renderMarkdownTable } from "../../src/report/table.ts";
import { estimatedVerdict, isRight, measuredFits } from "./measured-fits.ts";
import { estimatedBytes, measuredJobs } from "./measured-jobs.ts";
import type { MeasuredJob } from "./measured-kit.ts";
import { unusableRows } from "./unusable-rows.ts";

const left = (header: string): Column => ({ header, align: "left" });
const right = (header: string): Column => ({ header, align: "right" });

const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(bytes < 9.995e8 ? 3 : 2);

const errorOf = (job: MeasuredJob): number =>
  estimatedBytes(job, estimateDeepSpeed(job.question)) / job.measuredBytes - 1;

const percent = (share: number): string => `${share < 0 ? "-" : "+"}${Math.abs(100 * share).toFixed(1)} %`;

/** Sources and notes are numbered in the order in which rows need them. */
function numbered(): { numberOf: (text: string) => number; list: () => string[] } {
  const texts: string[] = [];
  return {
    numberOf: (text) => {
      if (!texts.includes(text)) texts.push(text);
      return texts.indexOf(text) + 1;
    },
    list: () => texts.map((text, i) => `${i + 1}. ${text}`),
  };
}

interface Noted {
  readonly source: string;
  readonly details?: string;
  readonly assumed?: string;
  readonly missed?: string;
}

const said = (word: string, text: string | undefined): string | undefined =>
  text === undefined ? undefined : `${word}: ${text}.`;

export function measuredPage(): string {
  const notes = numbered();
  const noteOf = ({ source, details, assumed, missed }: Noted): string =>
    [source, said("Said", details), said("Taken", assumed), said("Missed", missed)]
      .filter((text) => text !== undefined)
      .map((text) => notes.numberOf(text))
      .join(", ");
  const jobs = measuredJobs.map((job) => [
    job.id,
    job.setup,
    job.quantity,
    gigabytes(job.measuredBytes),
    gigabytes(estimatedBytes(job, estimateDeepSpeed(job.question))),
    percent(errorOf(job)) + (job.missed === undefined ? "" : " (missed)"),
    noteOf(job),
  ]);
  const fits = measuredFits.map((fit) => {
    const estimate = estimateDeepSpeed(fit.question);
    const verdict = estimatedVerdict(fit, estimate);
    const what = [fit.id, fit.setup, fit.card, fit.outcome + (fit.isLargest === true ? " (its largest)" : "")];
    return [...what, gigabytes(estimate.peakBytes), verdict, isRight(fit, verdict) ? "yes" : "no", noteOf(fit)];
  });
  const jobTable = renderMarkdownTable({
    columns: [
      left("row"),
      left("job"),
      left("reading"),
      right("measured"),
      right("estimated"),
      right("error"),
      left("notes"),
    ],
    rows: jobs,
  });
  const fitTable = renderMarkdownTable({
    columns: [
      left("row"),
      left("job"),
      left("card"),
      left("outcome"),
      right("estimated"),
      left("verdict"),
      left("right"),
      left("notes"),
    ],
    rows: fits,
  });
  return [
    summary(),
    "### Bytes\n\nIn GB (10⁹ bytes).",
    jobTable,
    "### Fit",
    fitTable,
    "### Sources and notes",
    notes.list().join("\n"),
    "### Rows that are not estimated",
    unusableRows.map(({ ids, why }) => `- ${ids}: ${why}.`).join("\n"),
  ].join("\n\n");
}

function summary(): string {
  const missed = measuredJobs.filter((job) => job.missed !== undefined).length;
  const rightFits = measuredFits.filter((fit) => isRight(fit, estimatedVerdict(fit, estimateDeepSpeed(fit.question))));
  return [
    `${measuredJobs.length} readings, of which ${missed} miss what is aimed at: ${spread(measuredJobs)}.`,
    `Of the ${stated.length} whose sources leave nothing to be taken: ${spread(stated)}.`,
    `${measuredFits.length} jobs that ran or ran out of memory: ${rightFits.length} are told right.`,
  ].join("\n");
}

const stated = measuredJobs.filter(({ assumed }) => assumed === undefined);

function spread(jobs: readonly MeasuredJob[]): string {
  const errors = jobs.map((job) => Math.abs(errorOf(job))).sort((a, b) => a - b);
  const shown = [errors[Math.floor(errors.length / 2)]!, errors.at(-1)!].map(
    (error) => `${(100 * error).toFixed(1)} %`,
  );
  return `half of the estimates are within ${shown[0]}, the farthest is ${shown[1]} off`;
}
