/** What the page of the picture shows for a state of its controls: the picture, the answer in words, and a table of all numbers. */
import { offloads } from "../plan/placement.ts";
import type { Estimate } from "../planner/estimate.ts";
import { allowedBytes, type RankRoom, shortagesOf } from "../planner/fit.ts";
import {
  commInPsi,
  fittingRanks,
  footprintOf,
  footprintsOf,
  placementAt,
  recommendationOf,
} from "../planner/footprint.ts";
import {
  dividedText,
  type FootprintPicture,
  fitText,
  type PictureKind,
  pictureKinds,
  pictureOf,
  type StagePicture,
} from "./footprint.ts";
import type { FootprintPageData, PageState } from "./footprint-state.ts";
import { formatBytes, formatCount, formatFineBytes, formatMany } from "./numbers.ts";
import { isPlain, offloadName } from "./placement-name.ts";
import { element, escapeMarkup } from "./svg.ts";

export interface FootprintView {
  readonly picture: FootprintPicture;
  readonly fits: boolean;
  /** What to do. */
  readonly answer: string;
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
    answer: recommended ? fitAnswer(recommended, state, room) : misfitAnswer(all, data, state, room),
    chosen: chosen ? chosenText(chosen, room) : "",
  };
}

const elsewhere = ({ hostBytes, diskBytes }: Estimate): string =>
  [
    hostBytes > 0 ? `${formatBytes(hostBytes)} of host memory` : "",
    diskBytes > 0 ? `${formatBytes(diskBytes)} of disk` : "",
  ]
    .filter((part) => part !== "")
    .map((part) => `, and ${part}`)
    .join("");

function fitAnswer(estimate: Estimate, { ranks }: PageState, { deviceBytes }: RankRoom): string {
  const where = ranks === 1 ? "on the rank" : `on each of ${formatMany(ranks, "rank")}`;
  return (
    `Use stage ${estimate.stage} ${offloadName(estimate)}: ${formatBytes(estimate.device.totalBytes)} ${where}, ` +
    `of ${formatBytes(allowedBytes(deviceBytes))} that a job may take${elsewhere(estimate)}.`
  );
}

function misfitAnswer(
  all: readonly Estimate[],
  { planned }: FootprintPageData,
  state: PageState,
  room: RankRoom,
): string {
  const least = all.reduce((a, b) => (b.device.totalBytes < a.device.totalBytes ? b : a));
  const more = fittingRanks(planned, state, room);
  const advice = more
    ? `On ${formatMany(more.ranks, "rank")} stage ${more.stage} ${offloadName(more)} would fit.`
    : "More ranks alone do not help: use a smaller micro-batch, a shorter sequence, activation checkpointing or a larger card.";
  const short = shortagesOf(least, room).map((tier) => `the ${tier}`);
  return (
    `Nothing fits ${formatMany(state.ranks, "rank")}. The least on the device is stage ${least.stage} ${offloadName(least)}: ` +
    `${formatBytes(least.device.totalBytes)}, of ${formatBytes(allowedBytes(room.deviceBytes))} that a job may take` +
    `${elsewhere(least)}; too much for ${short.join(" and ")}. ${advice}`
  );
}

function chosenText(estimate: Estimate, room: RankRoom): string {
  const short = shortagesOf(estimate, room);
  const over = estimate.device.totalBytes - allowedBytes(room.deviceBytes);
  const offload = isPlain(estimate) ? "" : ` ${offloadName(estimate)}`;
  const verdict = short.length === 0 ? `fits, with ${formatBytes(-over)} to spare` : fitText({ short });
  const sent = `It sends ${commInPsi(estimate.stage)}Ψ: ${formatCount(estimate.commElements)} elements from each rank a step.`;
  return `Stage ${estimate.stage}${offload}, as chosen: ${formatBytes(estimate.device.totalBytes)} on the device${elsewhere(estimate)}; ${verdict}. ${sent}`;
}

const cell = (bytes: number, note = ""): string =>
  element(
    "td",
    {},
    element("data", { value: String(Math.round(bytes)) }, escapeMarkup(formatFineBytes(bytes))),
    note === "" ? "" : element("small", {}, escapeMarkup(note)),
  );

const row = (name: string, cells: readonly string[], className?: string): string =>
  element("tr", { class: className }, element("th", { scope: "row" }, escapeMarkup(name)), ...cells);

function tableRows(picture: FootprintPicture): string[] {
  const { stages, ranks } = picture;
  const share = `÷ ${formatCount(ranks)}`;
  const kindRow = (kind: PictureKind): string =>
    row(
      kind,
      stages.map(({ kinds }) =>
        cell(kinds[kind].bytes, kinds[kind].split === "shard" && kinds[kind].bytes > 0 ? share : ""),
      ),
    );
  const states = ({ kinds }: StagePicture): number =>
    kinds.parameters.bytes + kinds.gradients.bytes + kinds.optimizer.bytes;
  const bytesRow = (name: string, of: (stage: StagePicture) => number, className?: string): string =>
    row(
      name,
      stages.map((stage) => cell(of(stage))),
      className,
    );
  const isUsed = (of: (stage: StagePicture) => number): boolean => stages.some((stage) => of(stage) > 0);
  return [
    ...pictureKinds.slice(0, 3).map(kindRow),
    bytesRow("model states", states, "sum"),
    ...pictureKinds.slice(3).map(kindRow),
    bytesRow("device in all", ({ totalBytes }) => totalBytes, "sum"),
    ...(isUsed(({ hostBytes }) => hostBytes) ? [bytesRow("host", ({ hostBytes }) => hostBytes)] : []),
    ...(isUsed(({ diskBytes }) => diskBytes) ? [bytesRow("disk", ({ diskBytes }) => diskBytes)] : []),
    row(
      "fits",
      stages.map((stage) =>
        element("td", { class: stage.short.length === 0 ? "good" : "bad" }, stage.short.length === 0 ? "yes" : "no"),
      ),
    ),
    row(
      "sends",
      stages.map((stage) => sentCell(stage)),
    ),
  ];
}

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

/** The choices of offload, as the page names them. */
export const offloadChoices = offloads.map((offload) => ({ offload, name: offloadName(offload) }));
