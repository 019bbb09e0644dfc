/** Every value that is in force, under DeepSpeed's name of its key, with where it is from and what DeepSpeed takes in its place. */
import { specs } from "../config/known-keys.ts";
import type { ConfigResolution } from "../config/resolve.ts";
import type { SizesConfig } from "../config/types.ts";
import { formatElements } from "../report/explain-text.ts";
import type { ValueLine } from "../report/explain-values.ts";
import type { ConfigAnswer, ConfigValue } from "./config.ts";
import { innerPath, originOf, shownScalar } from "./config-report.ts";

/** @param idle keys under `zero_optimization` that do nothing at this stage */
export function valueLines(answer: ConfigAnswer, config: ConfigResolution, idle: readonly string[]): ValueLine[] {
  const isTold = ({ paths, value }: ConfigValue): boolean =>
    value !== null && !(Array.isArray(value) && value.length === 0) && !idle.includes(paths[0]!);
  const told = answer.values.filter(isTold).flatMap((value) => linesOf(value, answer));
  const extras = offloadValues(config).flatMap(([path, value]) =>
    linesOf({ name: path, paths: [path], value }, answer),
  );
  return [...told, ...extras];
}

function linesOf({ name, paths, value }: ConfigValue, answer: ConfigAnswer): ValueLine[] {
  if (name === "precision" && value === "fp32")
    return ["fp16", "bf16"].flatMap((type) =>
      linesOf({ name: type, paths: [`${type}.enabled`], value: false }, answer),
    );
  if (name === "precision") return linesOf({ name: `${value}`, paths: [`${value}.enabled`], value: true }, answer);
  const path = paths[0]!;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return [
      {
        path,
        value:
          typeof value === "number" && value >= 1e3
            ? formatElements(value)
            : Array.isArray(value)
              ? JSON.stringify(value)
              : shownScalar(value),
        from: whence(name, paths, answer),
      },
    ];
  const { type, kind, ...rest } = value as Record<string, unknown>;
  const inner = Object.entries(rest).filter(([, item]) => item !== undefined);
  return [
    { path, value: String(type ?? kind), from: whence(name, paths, answer) },
    ...inner.map(([key, item]) => {
      const own = innerPath(path, key, type);
      const index = /^beta([12])$/.exec(key)?.[1];
      return {
        path: index === undefined ? own : `${own}[${Number(index) - 1}]`,
        value: typeof item === "object" ? "true" : shownScalar(item),
        from: whence(`${name}.${key}`, [own], answer),
      };
    }),
  ];
}

/** "line 9", "DeepSpeed's default", "derived: train batch / accumulation / ranks", "Shunya: the largest unit; DeepSpeed: 500,000,000". */
function whence(name: string, paths: readonly string[], answer: ConfigAnswer): string {
  const origin = originOf(paths, answer);
  const path = paths[0]!;
  if (origin.startsWith('"auto"')) return origin;
  const derived = answer.derived[name];
  if (derived !== undefined) {
    const spec = specs.get(path);
    const theirs = spec?.status === "used" ? spec.deepspeed : undefined;
    return typeof theirs === "number"
      ? `Shunya: ${derived}; DeepSpeed: ${formatElements(theirs)}`
      : `derived: ${derived}`;
  }
  if (origin === "default" || origin === "other keys") {
    if (path in differing) return differing[path]!;
    if (path.startsWith("optimizer.") && answer.draft.sources?.get("optimizer.type") === "default")
      return path === "optimizer.type" ? "Shunya's choice; DeepSpeed: the training script's" : "Shunya's choice";
  }
  if (origin === "other keys") return "derived from other keys";
  const size = answer.draft.sizes?.[name as keyof SizesConfig];
  const shown = answer.values.find((value) => value.name === name)?.value;
  if (typeof shown === "number" && size !== undefined && size > shown)
    return `${origin}: ${formatElements(size)}, in Shunya capped at the model`;
  if (origin !== "default") return origin;
  return path.startsWith("shunya.") ? "Shunya's default (a key of its own)" : "DeepSpeed's default";
}

/** Offload values of which nothing is derived from other keys, and what DeepSpeed takes instead. */
const differing: Readonly<Record<string, string>> = {
  "zero_optimization.offload_optimizer.pipeline_read": "Shunya's default; DeepSpeed: false",
  "zero_optimization.offload_optimizer.pipeline_write": "Shunya's default; DeepSpeed: false",
  "zero_optimization.offload_param.buffer_size": "Shunya: the largest part of a unit; DeepSpeed: 100,000,000",
  "zero_optimization.offload_param.max_in_cpu": "Shunya's default; DeepSpeed: 1,000,000,000",
};

/** What `shunya config` has in its JSON form only. */
function offloadValues({ offloadOptimizer, offloadParam, pinMemory, disk }: ConfigResolution): [string, unknown][] {
  const optimizer = "zero_optimization.offload_optimizer";
  const parameters = "zero_optimization.offload_param";
  const all: [isUsed: boolean, path: string, value: unknown][] = [
    [offloadOptimizer !== "none", `${optimizer}.pin_memory`, pinMemory.optimizer],
    [offloadOptimizer === "nvme", `${optimizer}.buffer_count`, disk.stateBuffers],
    [offloadOptimizer === "nvme", `${optimizer}.pipeline_read`, disk.pipelineRead],
    [offloadOptimizer === "nvme", `${optimizer}.pipeline_write`, disk.pipelineWrite],
    [offloadParam !== "none", `${parameters}.pin_memory`, pinMemory.parameters],
    [offloadParam === "nvme", `${parameters}.buffer_count`, disk.parameterBuffers],
    [offloadParam === "nvme", `${parameters}.buffer_size`, disk.parameterBufferElements ?? "the largest"],
    [offloadParam === "nvme", `${parameters}.max_in_cpu`, disk.parametersInHost],
    ...(["block_size", "queue_depth", "intra_op_parallelism"] as const).map((key): [boolean, string, unknown] => [
      offloadOptimizer === "nvme" || offloadParam === "nvme",
      `aio.${key}`,
      { block_size: disk.blockBytes, queue_depth: disk.queueDepth, intra_op_parallelism: disk.parallelism }[key],
    ]),
  ];
  return all.flatMap(([isUsed, path, value]) => (isUsed ? [[path, value] as [string, unknown]] : []));
}
