/** `flops_profiler`: which parts of the model the floating-point operations of a step go to, and how fast they were done. */
import type { FlopsProfilerConfig } from "../config/types.ts";
import type { Plan } from "../plan/plan.ts";
import type { StepRecord } from "../zero/record.ts";
import { formatCount, formatMany, formatOperations, formatShare } from "./numbers.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./wrap.ts";

/** Operations of a micro-batch of one rank, by the name of the unit. */
export type OperationsByUnit = ReadonlyMap<string, { readonly forward: number; readonly backward: number }>;

interface ModuleProfile {
  readonly name: string;
  readonly parameterElements: number;
  /** Operations of a rank in a step. */
  readonly forward: number;
  readonly backward: number;
}

/** What every profile begins with. */
export const profileBegin = "Floating-point operations of step ";

export function renderFlopsProfile(
  plan: Plan,
  byUnit: OperationsByUnit,
  record: StepRecord,
  options: FlopsProfilerConfig,
): string {
  const modules = modulesOf(plan, byUnit, options.moduleDepth);
  const operations = modules.reduce((sum, m) => sum + m.forward + m.backward, 0);
  const { trainBatch, microBatch, gradientAccumulation, worldSize } = plan.config;
  const perSecond = (operations * worldSize) / record.seconds;
  const top = [...modules].sort((a, b) => total(b) - total(a)).slice(0, Math.max(0, options.topModules));
  const lines = [
    `${profileBegin}${record.step}:`,
    `  parameters: ${formatCount(plan.parameterElements)}`,
    `  batch: ${formatMany(trainBatch, "sample")} (micro-batch ${microBatch} x ${gradientAccumulation} accumulated x ${formatMany(worldSize, "rank")})`,
    `  operations of a rank: ${formatOperations(operations)} (forward ${formatOperations(sum(modules, "forward"))}, backward ${formatOperations(sum(modules, "backward"))})`,
    `  speed: ${formatOperations(perSecond)}/s of all ranks, ${(trainBatch / record.seconds).toFixed(1)} samples/s, ${record.seconds.toFixed(3)} s a step`,
    ...(top.length > 0
      ? [`  most expensive: ${top.map((m) => `${m.name} (${formatShare(total(m), operations)})`).join(", ")}`]
      : []),
  ].map((line) => wrap(line, { indent: 4 }));
  return [...lines, ...(options.detailed ? ["", renderModules(modules, operations)] : [])].join("\n");
}

function renderModules(modules: readonly ModuleProfile[], operations: number): string {
  return renderTable({
    columns: [
      { header: "module", align: "left" },
      { header: "parameters", align: "right" },
      { header: "forward", align: "right" },
      { header: "backward", align: "right" },
      { header: "share", align: "right" },
    ],
    rows: modules.map((m) => [
      m.name,
      formatCount(m.parameterElements),
      formatOperations(m.forward),
      formatOperations(m.backward),
      formatShare(total(m), operations),
    ]),
  });
}

/** Units, those whose names agree in the first `depth` levels as one; -1: every unit by itself, 0: the model as a whole. */
function modulesOf(plan: Plan, byUnit: OperationsByUnit, depth: number): ModuleProfile[] {
  const modules = new Map<string, ModuleProfile>();
  for (const { name, flats } of plan.units) {
    const cut = depth < 0 ? name : depth === 0 ? "model" : name.split(".").slice(0, depth).join(".");
    const before = modules.get(cut);
    const { forward, backward } = byUnit.get(name) ?? { forward: 0, backward: 0 };
    const perStep = plan.config.gradientAccumulation;
    modules.set(cut, {
      name: cut,
      parameterElements: (before?.parameterElements ?? 0) + flats.reduce((count, f) => count + f.elements, 0),
      forward: (before?.forward ?? 0) + perStep * forward,
      backward: (before?.backward ?? 0) + perStep * backward,
    });
  }
  return [...modules.values()];
}

const total = (module: ModuleProfile): number => module.forward + module.backward;

const sum = (modules: readonly ModuleProfile[], of: "forward" | "backward"): number =>
  modules.reduce((all, module) => all + module[of], 0);
