/** Where each kind of model state lives and how much of it a rank holds, by the plan's own formulas. */
import type { OptimizerPart, Tier } from "../device/ledger.ts";
import { tiers } from "../device/ledger.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import { type ExpectedBytes, expectedStates } from "../plan/expected.ts";
import type { Plan } from "../plan/plan.ts";
import type { Residence } from "../plan/residence.ts";
import { parametersOf, type Subject } from "../planner/explained.ts";
import { onTier, readableFormula, typeNames } from "./explain-text.ts";
import { formatBytes, formatCount, formatMany } from "./numbers.ts";
import { renderTable } from "./table.ts";

export interface StateLine {
  readonly kind: "parameters" | "gradients" | "optimizer states" | "small parameters kept gathered";
  readonly tier: Tier;
  readonly share: "whole" | "1/N";
  readonly type: string;
  /** Bytes of a rank, in terms of psi. */
  readonly formula: string;
  /** The formula's value; null where psi is not known. */
  readonly formulaBytes: number | null;
  /** What Shunya allocates, padding included; null where the model is not known. */
  readonly bytes: number | null;
}

export function stateLines(subject: Subject): StateLine[] {
  const { plan, known } = subject;
  const { residences } = plan;
  return tiers.flatMap((tier) => {
    const states = expectedStates(plan, tier);
    const line = (kind: StateLine["kind"], expected: ExpectedBytes, residence: Residence): StateLine[] =>
      expected.bytes === 0
        ? []
        : [
            {
              kind,
              tier,
              share: residence.split === "whole" ? "whole" : "1/N",
              type: typeNames[residence.dtype],
              formula: readableFormula(expected.formula),
              formulaBytes: known === "nothing" ? null : expected.formulaBytes,
              bytes: known === "model" ? expected.bytes : null,
            },
          ];
    const gathered = line("small parameters kept gathered", states.gathered, {
      ...residences.parameters,
      split: "whole",
    });
    return [
      ...line("parameters", states.parameters, residences.parameters),
      ...gathered.map((small) => ({ ...small, formula: `${small.formula} of those` })),
      ...line("gradients", states.gradients, gradientsIn(tier, plan)),
      ...line("optimizer states", states.optimizer, residences.optimizer),
    ];
  });
}

/** Gradients that all ranks hold whole have a sharded copy beside them where the update runs elsewhere. */
const gradientsIn = (tier: Tier, { residences }: Plan): Residence =>
  tier === "device" ? residences.gradients : { ...residences.gradients, split: residences.optimizer.split };

const bytesOf = ({ bytes, formulaBytes }: StateLine): number | null => bytes ?? formulaBytes;

export function renderStateTable(lines: readonly StateLine[]): string {
  const isKnown = lines.some((line) => bytesOf(line) !== null);
  return renderTable({
    columns: [
      { header: "state", align: "left" },
      { header: "where", align: "left" },
      { header: "share", align: "left" },
      { header: "type", align: "left" },
      { header: "bytes of a rank", align: "left" },
      ...(isKnown ? [{ header: "", align: "right" as const }] : []),
    ],
    rows: lines.map((line) => [
      ...[line.kind === "small parameters kept gathered" ? "small ones, gathered" : line.kind, line.tier],
      ...[line.share, line.type, line.formula],
      ...(isKnown ? [formatBytes(bytesOf(line) ?? 0)] : []),
    ]),
  });
}

const partNames: Readonly<Record<OptimizerPart, string>> = {
  master: "the fp32 master copy",
  firstMoment: "the first moment",
  secondMoment: "the second moment",
};

/** What the table's words and numbers mean. */
export function stateNotes(subject: Subject, lines: readonly StateLine[]): string[] {
  const { config, plan, known } = subject;
  const psi = parametersOf(subject);
  const { worldSize } = config;
  const notes = [
    psi === undefined
      ? `psi is the number of parameters, N the number of ranks (${formatCount(worldSize)}). Give --model NAME or --params 1.5e9 to have numbers.`
      : `psi = ${formatMany(psi, "parameter")}${subject.modelName === undefined ? "" : ` (${subject.modelName})`}${trainedWords(subject)}, N = ${formatMany(worldSize, "rank")}.`,
  ];
  const totals = tiers.flatMap((tier) => {
    const own = lines.filter((line) => line.tier === tier);
    const bytes = own.reduce((sum, line) => sum + (bytesOf(line) ?? 0), 0);
    return bytes === 0 ? [] : [`${formatBytes(bytes)} ${onTier[tier]}`];
  });
  if (totals.length > 0)
    notes.push(
      `Together a rank holds ${totals.join(", ")}${known === "model" ? ", padding included" : ""}; activations and buffers come on top.`,
    );
  notes.push(...fullestMoments(subject));
  const hostBytes = lines.filter(({ tier }) => tier === "host").reduce((sum, line) => sum + (bytesOf(line) ?? 0), 0);
  if (hostBytes > 0 && worldSize > 1)
    notes.push(
      `Ranks on one machine share its host memory: all ${worldSize} hold ${formatBytes(worldSize * hostBytes)}.`,
    );
  notes.push(optimizerNote(plan, worldSize));
  return [...notes, ...deepSpeedNotes(subject)];
}

/** What comes on top of the states: by a forecast of Shunya's own engine, and by the estimate of DeepSpeed. */
function fullestMoments({ forecast, deepSpeed, config, seqLength, known }: Subject): string[] {
  if (seqLength === undefined) return [];
  const batch = `With a micro-batch of ${formatMany(config.microBatch, "sample")} of ${formatMany(seqLength, "token")}`;
  const notes: string[] = [];
  if (forecast !== undefined) {
    const { bytes, byKind } = forecast.highest.device;
    const others = byKind.gathered + byKind.buckets + byKind.staging + byKind.scratch + byKind.other;
    notes.push(
      `${batch} Shunya's engine holds ${formatBytes(bytes)} on the device at its fullest moment: ${formatBytes(byKind.activations)} of it activations, ${formatBytes(others)} buffers (a forecast).`,
    );
  } else if (known === "model")
    notes.push(
      "There is no forecast of Shunya's fullest moment: a written size is so small that a step would have too many pieces.",
    );
  if (deepSpeed !== undefined) {
    const { totalBytes, activationsBytes, buffersBytes } = deepSpeed.device;
    const flags = config.activationCheckpointing ? "with" : "without";
    notes.push(
      `${batch} DeepSpeed on PyTorch takes about ${formatBytes(totalBytes)} of a device: ${formatBytes(activationsBytes)} of it activations (${flags} checkpointing, with flash attention), ${formatBytes(buffersBytes)} buffers${deepSpeed.hostBytes > 0 ? `; and ${formatBytes(deepSpeed.hostBytes)} of host memory a rank` : ""} (docs/deepspeed-estimates.md).`,
    );
  }
  const { lora, freeze } = config;
  if (lora || freeze.length > 0)
    notes.push(
      `What DeepSpeed takes is not estimated here: with ${lora ? "LoRA" : "frozen parameters"} that depends on the script that ${lora ? "adds the adapters" : "freezes them"}.`,
    );
  return notes;
}

function optimizerNote({ config, residences }: Plan, worldSize: number): string {
  const parts = createOptimizer(config.optimizer).states;
  const isMaster = residences.parameters.dtype === "f32";
  const names = [...(isMaster ? [] : [partNames.master]), ...parts.map((part) => partNames[part])];
  const own =
    names.length === 0
      ? `${config.optimizer.type} keeps nothing beside the fp32 parameters.`
      : `The optimizer states of ${config.optimizer.type} are ${4 * names.length} bytes a parameter: ${names.map((name) => `${name} (4)`).join(", ")}.`;
  if (residences.optimizer.split === "whole") return own;
  return worldSize === 1
    ? `${own} One rank has them all: nothing is shared until there are more.`
    : `${own} Each rank updates only its own 1/N of the parameters, and needs the states of no others.`;
}

/** Where DeepSpeed's bytes are others. */
function deepSpeedNotes({ config, plan }: Subject): string[] {
  const { stage, offloadOptimizer, offloadParam, offloadRatio } = config;
  const notes: string[] = [];
  if (offloadOptimizer === "cpu" && offloadRatio === 1 && config.precision !== "fp32") {
    const range = offloadParam === "none" ? "18 to 20" : "18 to 22";
    notes.push(
      `DeepSpeed takes more host memory: it keeps the gradients of what it updates there in fp32 (4 psi / N), and 16-bit copies on their way. With Adam that makes ${range} psi / N in all, and page-locked blocks are rounded up to powers of two.`,
    );
  }
  if (plan.residences.parameters.dtype === "f32" && stage > 0)
    notes.push(
      "In fp32 training Shunya updates the parameters in place where it can; DeepSpeed keeps a second fp32 copy of each rank's shard (4 psi / N).",
    );
  if (stage < 3 && offloadOptimizer === "nvme")
    notes.push(
      "DeepSpeed puts optimizer states on disk at stage 3 only and refuses this file; Shunya does it at every stage from 1 on.",
    );
  if (stage < 3 && offloadOptimizer !== "none" && offloadRatio < 1)
    notes.push("DeepSpeed takes a ratio below 1 at stage 3 only; Shunya does at every stage from 1 on.");
  return notes;
}

/** Nothing where all is trained. */
function trainedWords({ plan }: Subject): string {
  return plan.trainableElements === plan.parameterElements
    ? ""
    : `, of which psi_t = ${formatCount(plan.trainableElements)} are trained`;
}
