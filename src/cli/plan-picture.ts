/** `--svg` and `--html`: the picture of a plan, and the page that lets one play with it. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { InternalError, UsageError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { devices, usableBytes } from "../hardware/devices.ts";
import { createOptimizer } from "../optim/optimizer.ts";
import { placements } from "../plan/placement.ts";
import type { PlanAnswer } from "../planner/answer.ts";
import type { Estimate } from "../planner/estimate.ts";
import type { BytesPerParameter } from "../planner/footprint.ts";
import { pictureOf } from "../report/footprint.ts";
import { renderFootprintHtml } from "../report/footprint-html.ts";
import type { FootprintPageData } from "../report/footprint-state.ts";
import { renderFootprintSvg } from "../report/footprint-svg.ts";
import type { EngineName, PlannedJob } from "./plan-subject.ts";

/** @throws UsageError where the file cannot be written */
export function writeSvg(path: string, { model, machine }: PlannedJob, answer: PlanAnswer): void {
  const { stages, subject, room, recommended } = answer;
  const picture = pictureOf({
    estimates: stages.map(({ estimate }) => estimate),
    model: model.shape.name,
    parameters: model.statedParameters ?? model.shape.parameters,
    ranks: subject.asked.ranks,
    card: machine.name,
    room,
    recommended: recommended?.placement,
  });
  write("--svg", path, renderFootprintSvg(picture));
}

/** @throws UsageError where the file cannot be written */
export async function writeHtml(path: string, job: PlannedJob, answer: PlanAnswer, engine: EngineName): Promise<void> {
  const { model, machine, like, asked } = job;
  const { subject, room, recommended } = answer;
  const microBatch = answer.stages[0]?.batch.microBatch ?? 1;
  const estimateOf = subject.estimateOf(subject.asked);
  const estimates: Estimate[] = [];
  for (const placement of placements()) {
    const estimate = await estimateOf(placement, { microBatch, gradientAccumulation: 1 });
    if (estimate) estimates.push(drawn(estimate));
  }
  const { offloadOptimizer, offloadParam } = recommended?.placement ?? asked;
  const data: FootprintPageData = {
    model: model.shape.name,
    planned: {
      job: {
        parameters: model.statedParameters ?? model.shape.parameters,
        ranks: subject.asked.ranks,
        microBatch,
        sequenceLength: subject.asked.seqLength,
      },
      bytesPerParameter: bytesPerParameter(like),
      estimates,
    },
    layers: model.shape.layers,
    hidden: model.shape.hidden,
    training: `${like.optimizer.type} in ${like.precision}`,
    engine,
    card: machine.name,
    room,
    cards: devices.map((device) => ({ name: device.name, usableBytes: usableBytes(device) })),
    stage: recommended?.placement.stage ?? asked.stage ?? 0,
    offload: { offloadOptimizer, offloadParam },
  };
  write("--html", path, renderFootprintHtml(data, pageScript()));
}

/** What the page needs of an estimate. */
const drawn = (estimate: Estimate): Estimate => {
  const { stage, offloadOptimizer, offloadParam, microBatch, device, hostBytes, diskBytes, commElements } = estimate;
  return { stage, offloadOptimizer, offloadParam, microBatch, device, hostBytes, diskBytes, commElements, parts: [] };
};

/** In fp32 a parameter is its own master (contracts 13). */
function bytesPerParameter({ precision, optimizer, gradientAccumulationType }: PlannedJob["like"]): BytesPerParameter {
  const isHalf = precision !== "fp32";
  return {
    parameters: isHalf ? 2 : 4,
    gradients: gradientAccumulationType === "fp32" ? 4 : 2,
    optimizer: 4 * createOptimizer(optimizer).states.length + (isHalf ? 4 : 0),
  };
}

/** Made by the build. */
function pageScript(): string {
  const path = fileURLToPath(new URL("../../dist/footprint-page.js", import.meta.url));
  if (!existsSync(path)) throw new InternalError(`${path} is missing; "npm run build" makes it`);
  return readFileSync(path, "utf8");
}

function write(flag: string, path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw new UsageError(`${flag} ${path} cannot be written: ${reasonOf(error)}`);
  }
}
