/** Each bucket and limit of the file: when it acts, what it costs, and where Shunya and DeepSpeed differ. */
import type { Stage } from "../config/types.ts";
import { type BucketSize, bucketSizes, bytesIn, piecesOf, type SizeName } from "../planner/buckets.ts";
import { parametersOf, type Subject } from "../planner/explained.ts";
import { elementsAreBytes, formatElements, placeText } from "./explain-text.ts";
import { countWords, formatBytes, formatCount, formatMany } from "./numbers.ts";
import { renderTable } from "./table.ts";

export interface BucketLine {
  /** Under `zero_optimization`. */
  readonly key: string;
  /** False: written, and without effect at this stage. */
  readonly acts: boolean;
  /** In Shunya; null where it is derived from a model that is not known. */
  readonly elements: number | null;
  readonly bytes: number | null;
  /** Null where DeepSpeed has no use for it at this stage. */
  readonly deepSpeedElements: number | null;
  readonly deepSpeedBytes: number | null;
  /** In words: when it acts, what it costs, what differs. */
  readonly says: readonly string[];
}

interface Told extends BucketSize {
  readonly subject: Subject;
}
type Teller = (told: Told) => string[];

export function bucketLines(subject: Subject): BucketLine[] {
  const acting = actingAt(subject);
  return bucketSizes(subject)
    .filter(({ name, writtenElements }) => acting.includes(name) || writtenElements !== undefined)
    .map((size) => {
      const { name, path, elements, deepSpeedElements, type } = size;
      const key = path.slice(path.indexOf(".") + 1);
      const isTheirs = acting.includes(name) && actsInDeepSpeed(name, subject.config.stage);
      const head = `${key}${placeText(subject.config, path)}:`;
      const says = acting.includes(name) ? tellers[name]({ ...size, subject }) : [idle(subject, name)];
      return {
        key,
        acts: acting.includes(name),
        elements: elements ?? null,
        bytes: elements === undefined ? null : bytesIn(elements, type),
        deepSpeedElements: isTheirs ? deepSpeedElements : null,
        deepSpeedBytes: isTheirs ? bytesIn(deepSpeedElements, type) : null,
        says: says.map((text, i) => (i === 0 ? `${head} ${text}` : text)),
      };
    });
}

/** Sizes that do something, in Shunya or in DeepSpeed. */
function actingAt({ config, plan }: Subject): readonly SizeName[] {
  if (plan.residences.parameters.split === "shard")
    return [
      ...(["reduceBucket", "allgatherBucket", "prefetch", "liveParameters"] as const),
      ...(["reuseDistance", "persistence", "subGroup"] as const),
    ];
  if (plan.residences.optimizer.split === "whole") return ["reduceBucket"];
  return ["reduceBucket", "allgatherBucket", ...(config.offloadOptimizer === "none" ? [] : (["subGroup"] as const))];
}

/** The key does nothing in Shunya, whose reader warns of it where it asks for what does not happen. */
const isNotContiguous = ({ config }: Subject): boolean =>
  config.warnings.some((warning) => warning.includes("contiguous_gradients: has no effect"));

function actsInDeepSpeed(name: SizeName, stage: Stage): boolean {
  if (name === "reduceBucket") return stage > 0;
  if (name === "allgatherBucket") return stage === 1 || stage === 2;
  return stage === 3;
}

function idle({ config }: Subject, name: SizeName): string {
  if (name === "allgatherBucket") return "no effect at stage 0, where no updated parameters travel.";
  return `no effect at stage ${config.stage}: it is for stage 3.`;
}

const tellers: Readonly<Record<SizeName, Teller>> = {
  reduceBucket(told) {
    const { subject, type, elements, deepSpeedElements } = told;
    const { plan, config } = subject;
    const isShard = plan.residences.gradients.split === "shard";
    const pass = isShard ? "the backward pass of every micro-batch" : "the backward pass of a step's last micro-batch";
    return [
      `most gradients that go into one reduction. It acts during ${pass}: gradients wait until it is full, then all ranks add them up.`,
      cost(told),
      ...inBuckets(told, isShard),
      ...(config.stage === 0
        ? ["DeepSpeed has a fixed bucket of 500,000,000 elements at stage 0, whatever is written here."]
        : isNotContiguous(subject)
          ? [
              "With contiguous_gradients false DeepSpeed has no such buffer: it gathers the tensors of a bucket when it is full.",
            ]
          : [
              `DeepSpeed allocates ${formatBytes(bytesIn(deepSpeedElements, type))} for it at the start of the backward pass${config.overlapComm ? ", and twice that with overlap_comm" : ""}, whatever the model's size${elements === undefined || elements === deepSpeedElements ? "" : "; Shunya never takes more than the gradients that wait"}.`,
            ]),
    ];
  },
  allgatherBucket(told) {
    const { subject } = told;
    if (subject.plan.residences.parameters.split === "shard")
      return [
        "most parameters in one gather. DeepSpeed uses it at stages 1 and 2 only; Shunya cuts the gathers of stage 3 by it as well.",
        cost(told),
      ];
    return [
      "most parameters in one gather. It acts after the step, not during it: each rank has updated its own part, and the parts are gathered until every rank has all of them again.",
      cost(told),
      ...inGathers(told),
      "It limits a message and costs no memory: parameters are gathered in place.",
    ];
  },
  prefetch: (told) => [
    "most parameters that are gathered ahead of their use, beside the computation of the layers before. It acts in forward and backward.",
    cost(told),
  ],
  liveParameters: (told) => [
    "most parameters that are whole on a rank at any time; looking ahead stops there.",
    cost(told),
    ...beyondModel(told, "so it limits nothing"),
  ],
  reuseDistance(told) {
    const { elements = 0, deepSpeedElements, writtenElements } = told;
    return [
      "parameters that are used again within so many elements are not released in between. A layer of the forward pass comes back after twice what lies behind it.",
      elements === 0
        ? "Shunya releases a layer after each use (0) unless it is written."
        : keptBetween(told, elements, true),
      ...(writtenElements === undefined
        ? [
            `DeepSpeed's default is ${formatElements(deepSpeedElements)}. ${keptBetween(told, deepSpeedElements, false)}`,
          ]
        : []),
    ];
  },
  persistence: (told) => [
    "tensors of at most so many elements (norms, biases) stay whole on every rank: to gather them would cost more time than they cost memory.",
    told.elements === undefined
      ? `Left out: ten times the model's width here, ${formatElements(told.deepSpeedElements)} in DeepSpeed.`
      : `${formatElements(told.elements)} elements${told.writtenElements === undefined ? `, ${told.why}; DeepSpeed's default is ${formatElements(told.deepSpeedElements)}` : ""}.`,
  ],
  subGroup: (told) => [
    "elements of a rank's part that one piece of the optimizer step updates. It bounds what an update holds beside the states, and is the piece that goes to and from disk.",
    told.elements === undefined
      ? `Left out: a quarter of a rank's part of the largest layer here, ${formatElements(told.deepSpeedElements)} in DeepSpeed.`
      : `${formatElements(told.elements)} elements${told.writtenElements === undefined ? ` (${told.why}; DeepSpeed's default is ${formatElements(told.deepSpeedElements)})` : ""}.`,
    ...(told.subject.config.stage < 3 ? ["DeepSpeed has sub-groups at stage 3 only."] : []),
  ],
};

/** What a reuse distance keeps whole between the forward and the backward pass. Shunya minds the limit of live parameters there too. */
function keptBetween({ subject, type }: Told, distance: number, isHere: boolean): string {
  const psi = parametersOf(subject);
  const most = Math.floor(distance / 2);
  const limit = isHere && subject.known === "model" ? subject.plan.sizes.liveParameters.elements : most;
  const kept = Math.min(psi ?? most, most, limit);
  const whole = psi !== undefined && kept === psi;
  return `So up to ${formatElements(kept)} elements (${formatBytes(bytesIn(kept, type))}${whole ? ", the whole model" : ""}) stay gathered between the two passes${whole ? ", and stage 3 saves no parameter memory then" : ""}.`;
}

/** What the size is in bytes, here and in DeepSpeed. */
function cost(told: Told): string {
  const { elements, writtenElements, deepSpeedElements, type, why, subject, path, name } = told;
  const psi = parametersOf(subject);
  const there = elementsAreBytes(deepSpeedElements, type);
  const auto = subject.config.autos.find((filled) => filled.path === path);
  if (auto !== undefined && writtenElements === undefined)
    return `"auto": Hugging Face's Trainer fills in ${auto.why}; DeepSpeed alone takes its default: ${there}.`;
  if (auto !== undefined) return `"auto" becomes ${auto.why}: ${there}.`;
  if (writtenElements === undefined) {
    const theirs = actsInDeepSpeed(name, subject.config.stage) ? ` DeepSpeed takes its default: ${there}.` : "";
    const here =
      elements === undefined ? `${why}, once the model is known` : `${why}: ${elementsAreBytes(elements, type)}`;
    return `Left out: Shunya takes ${here}.${theirs}`;
  }
  if (psi === undefined || psi >= writtenElements) return `${there}.`;
  return `${there}. The model has ${formatMany(psi, "parameter")}: Shunya caps it there (${formatBytes(bytesIn(psi, type))}), DeepSpeed does not.`;
}

/** How many buckets the gradients fill. */
function inBuckets({ subject, deepSpeedElements, writtenElements, elements }: Told, isShard: boolean): string[] {
  const { plan, known, forecast, config } = subject;
  if (known === "nothing") return [];
  const gradients = plan.trainableElements;
  const own =
    forecast === undefined
      ? undefined
      : forecast.report.traffic.reduceScatter.calls / (isShard ? config.gradientAccumulation : 1);
  const bucket = writtenElements ?? deepSpeedElements;
  const size = writtenElements === undefined ? " of DeepSpeed's default" : "";
  const { pieces, last } = piecesOf(gradients, bucket);

  const made =
    pieces === 1
      ? `one bucket${size}, ${((100 * gradients) / bucket).toPrecision(3)} % full`
      : last === bucket
        ? `${countWords(pieces, "bucket")}${size}`
        : `${countWords(pieces - 1, "full bucket")}${size} and a last one with ${formatCount(last)}`;
  const lines = [`The ${formatCount(gradients)} gradients make ${made}.`];
  if (own !== undefined && elements !== undefined && own > 0)
    lines.push(
      `(By division: a real bucket closes where the next piece does not fit. Shunya's close at the borders of layers: ${formatMany(own, "reduction")} a pass, by a forecast of its engine.)`,
    );
  return lines;
}

function inGathers({ subject, deepSpeedElements, writtenElements }: Told): string[] {
  if (subject.known === "nothing") return [];
  const { pieces } = piecesOf(subject.plan.trainableElements, deepSpeedElements);
  const where = writtenElements === undefined ? "DeepSpeed gathers" : "DeepSpeed gathers them all";
  return [
    `${where} in ${formatMany(pieces, "piece")}; Shunya gathers layer by layer, in the order in which the next forward pass needs them, so at most a layer at once.`,
  ];
}

function beyondModel({ subject, elements, deepSpeedElements }: Told, so: string): string[] {
  const psi = parametersOf(subject);
  if (psi === undefined) return [];
  if (elements !== undefined && elements >= psi) return [`That is the whole model, ${so}.`];
  return deepSpeedElements >= psi ? [`DeepSpeed's is more than the whole model, ${so} there.`] : [];
}

export function renderBucketTable(lines: readonly BucketLine[]): string {
  return renderTable({
    columns: [
      { header: "zero_optimization.(stage3_)", align: "left" },
      { header: "in Shunya", align: "right" },
      { header: "bytes", align: "right" },
      { header: "in DeepSpeed", align: "right" },
      { header: "bytes", align: "right" },
    ],
    rows: lines
      .filter(({ acts }) => acts)
      .map(({ key, elements, bytes, deepSpeedElements, deepSpeedBytes }) => {
        const isBuffer = !/threshold|distance|sub_group/.test(key);
        return [
          key.replace("stage3_", ""),
          elements === null ? "the model's" : formatElements(elements),
          isBuffer && bytes !== null ? formatBytes(bytes) : "",
          deepSpeedElements === null ? "-" : formatElements(deepSpeedElements),
          isBuffer && deepSpeedBytes !== null ? formatBytes(deepSpeedBytes) : "",
        ];
      }),
  });
}
