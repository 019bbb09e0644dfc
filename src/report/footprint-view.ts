/** What the page of the picture shows for a state of its controls: the picture, the answer in words, and a table of all numbers. */
import type { Tier } from "../device/ledger.ts";
import type { Offload } from "../plan/placement.ts";
import { tierOf } from "../plan/residence.ts";
import type { Estimate } from "../planner/estimate.ts";
import { allowedBytes, type RankRoom, shortagesOf } from "../planner/fit.ts";
import {
  commInPsi,
  fittingRanks,
  footprintOf,
  footprintsOf,
  type PlannedFootprint,
  placementAt,
  recommendationOf,
  type StateKind,
  stateKinds,
} from "../planner/footprint.ts";
import { dividedText, type FootprintPicture, fitText, pictureOf, type StagePicture } from "./footprint.ts";
import type { FootprintPageData, PageState } from "./footprint-state.ts";
import { formatBytes, formatCount, formatFineBytes, formatMany } from "./numbers.ts";
import { isPlain, offloadName } from "./placement-name.ts";
import { element, escapeMarkup } from "./svg.ts";

export interface FootprintView {
  readonly picture: FootprintPicture;
  readonly fits: boolean;
  /** What to do, or that there is nothing. */
  readonly answer: string;
  /** Where nothing fits: what would change that. */
  readonly advice: string;
  /** Of the stage that was chosen. */
  readonly chosen: string;
}

export function viewOf(data: FootprintPageData, state: PageState): FootprintView {
  const { planned } = data;
  const room = { ...data.room, deviceBytes: state.usableBytes };
  const all = footprintsOf(planned, state);
  const recommended = recommendationOf(all, room);
  const estimates = ([0, 1, 2, 3] as const).map((stage) =>
    footprintOf(planned, state, placementAt(stage, state.offload)),
  );
  const isPlanned = state.parameters === planned.job.parameters;
  const picture = pictureOf({
    estimates,
    model: isPlanned ? data.model : "a model of its proportions",
    parameters: state.parameters,
    ranks: state.ranks,
    card: state.card ?? "a card",
    room,
    recommended,
  });
  const chosen = estimates.find(({ stage }) => stage === state.stage);
  return {
    picture,
    fits: recommended !== undefined,
    answer: recommended ? fitAnswer(recommended, state, room) : misfitAnswer(all, state, room),
    advice: recommended ? "" : adviceText(all, planned, state, room),
    chosen: chosen ? chosenText(chosen, room) : "",
  };
}

/** "3.5 GB of host memory and 18.0 GB of disk"; empty without offload. */
const awayText = ({ hostBytes, diskBytes }: Estimate): string =>
  [
    hostBytes > 0 ? `${formatBytes(hostBytes)} of host memory` : "",
    diskBytes > 0 ? `${formatBytes(diskBytes)} of disk` : "",
  ]
    .filter((part) => part !== "")
    .join(" and ");

const elsewhere = (estimate: Estimate): string => (isPlain(estimate) ? "" : `, and ${awayText(estimate)}`);

function fitAnswer(estimate: Estimate, { ranks }: PageState, { deviceBytes }: RankRoom): string {
  const where = ranks === 1 ? "on the rank" : `on each of ${formatMany(ranks, "rank")}`;
  return (
    `Use stage ${estimate.stage} ${offloadName(estimate)}: ${formatBytes(estimate.device.totalBytes)} ${where}, ` +
    `of ${formatBytes(allowedBytes(deviceBytes))} that a job may take${elsewhere(estimate)}.`
  );
}

/** What a rank has of the host and of the disk that the estimate uses. */
const hasText = ({ diskBytes }: Estimate, room: RankRoom): string =>
  diskBytes > 0
    ? `${formatBytes(room.hostBytes)} and ${formatBytes(room.diskBytes)}`
    : `${formatBytes(room.hostBytes)} of it`;

const least = (estimates: readonly Estimate[]): Estimate =>
  estimates.reduce((a, b) => (b.device.totalBytes < a.device.totalBytes ? b : a));

function misfitAnswer(all: readonly Estimate[], { ranks }: PageState, { deviceBytes }: RankRoom): string {
  const { stage, device } = least(all.filter(isPlain));
  return (
    `Nothing fits ${formatMany(ranks, "rank")}: without offload the least is ${formatBytes(device.totalBytes)} at stage ${stage}, ` +
    `of ${formatBytes(allowedBytes(deviceBytes))} that a job may take.`
  );
}

function adviceText(all: readonly Estimate[], planned: PlannedFootprint, state: PageState, room: RankRoom): string {
  const onDevice = all.find((estimate) => !shortagesOf(estimate, room).includes("device"));
  const offloaded = least(all.filter((estimate) => !isPlain(estimate)));
  const more = fittingRanks(planned, state, room);
  return [
    onDevice
      ? `Stage ${onDevice.stage} ${offloadName(onDevice)} would fit the device, but wants ${awayText(onDevice)} for a rank, which has ${hasText(onDevice, room)}.`
      : `With all offload it is still ${formatBytes(offloaded.device.totalBytes)}.`,
    more
      ? `On ${formatMany(more.ranks, "rank")} stage ${more.stage} ${offloadName(more)} would fit.`
      : "More ranks alone do not help: use a smaller micro-batch, a shorter sequence, activation checkpointing or a larger card.",
  ].join(" ");
}

function chosenText(estimate: Estimate, room: RankRoom): string {
  const short = shortagesOf(estimate, room);
  const over = estimate.device.totalBytes - allowedBytes(room.deviceBytes);
  const offload = isPlain(estimate) ? "" : ` ${offloadName(estimate)}`;
  const verdict = short.length === 0 ? `fits, with ${formatBytes(-over)} to spare` : fitText({ short });
  const sent = `It sends ${commInPsi(estimate.stage)}Ψ: ${formatCount(estimate.commElements)} elements from each rank a step.`;
  return `Stage ${estimate.stage}${offload}, as chosen: ${formatBytes(estimate.device.totalBytes)} on the device${elsewhere(estimate)}; ${verdict}. ${sent}`;
}

const cell = (bytes: number, format: (bytes: number) => string, note = ""): string =>
  element(
    "td",
    {},
    element("data", { value: String(Math.round(bytes)) }, escapeMarkup(format(bytes))),
    note === "" ? "" : element("small", {}, escapeMarkup(note)),
  );

const row = (name: string, cells: readonly string[], className?: string): string =>
  element("tr", { class: className }, element("th", { scope: "row" }, escapeMarkup(name)), ...cells);

const statesOf = ({ kinds }: StagePicture): number => stateKinds.reduce((sum, kind) => sum + kinds[kind].bytes, 0);

/** Model states with all their digits; what is modelled, and what it is part of, with three. */
function tableRows({ stages, ranks }: FootprintPicture): string[] {
  const stateRow = (kind: StateKind): string =>
    row(
      kind,
      stages.map(({ kinds }) => {
        const { bytes, split } = kinds[kind];
        return cell(bytes, formatFineBytes, split === "shard" && bytes > 0 ? `÷ ${formatCount(ranks)}` : "");
      }),
    );
  const modelled = (name: string, of: (stage: StagePicture) => number, className?: string): string =>
    row(
      name,
      stages.map((stage) => cell(of(stage), formatBytes)),
      className,
    );
  const ifUsed = (name: string, of: (stage: StagePicture) => number): string[] =>
    stages.some((stage) => of(stage) > 0) ? [modelled(name, of)] : [];
  return [
    ...stateKinds.map(stateRow),
    row(
      "model states",
      stages.map((stage) => cell(statesOf(stage), formatFineBytes)),
      "sum states",
    ),
    modelled("activations", ({ kinds }) => kinds.activations.bytes),
    modelled("buffers", ({ kinds }) => kinds.buffers.bytes),
    modelled("device in all", ({ totalBytes }) => totalBytes, "sum"),
    ...ifUsed("host", ({ hostBytes }) => hostBytes),
    ...ifUsed("disk", ({ diskBytes }) => diskBytes),
    row("fits", stages.map(fitCell)),
    row("sends", stages.map(sentCell)),
  ];
}

const fitCell = ({ short }: StagePicture): string =>
  short.length === 0 ? element("td", { class: "good" }, "yes") : element("td", { class: "bad" }, "no");

const sentCell = ({ commElements, commInPsi: inPsi }: StagePicture): string => {
  const elements = element("data", { value: String(commElements) }, compact(commElements));
  return element("td", { title: `${formatCount(commElements)} elements` }, `${inPsi}Ψ`, element("small", {}, elements));
};

/** "2.25e9" */
const compact = (count: number): string =>
  count < 1e4 ? String(count) : Number(count.toPrecision(4)).toExponential().replace("e+", "e");

/** Rows are kinds, columns stages. */
export function renderFootprintTable(picture: FootprintPicture): string {
  const heads = picture.stages.map((stage) =>
    element("th", { scope: "col", title: dividedText(stage, picture.ranks) }, `Stage ${stage.stage}`),
  );
  return (
    element("thead", {}, element("tr", {}, element("td", {}, ""), ...heads)) +
    element("tbody", {}, ...tableRows(picture))
  );
}

const tierTexts: Readonly<Record<Tier, string>> = { device: "on the device", host: "on the host", disk: "on disk" };

/** "none", "optimizer on the host", "both on disk": short enough for a phone. */
export function shortOffload(offload: Offload): string {
  const { offloadOptimizer, offloadParam } = offload;
  if (isPlain(offload)) return "none";
  return `${offloadOptimizer === offloadParam ? "both" : "optimizer"} ${tierTexts[tierOf[offloadOptimizer]]}`;
}
