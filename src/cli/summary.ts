/** What `shunya train` says before and after: the plan, then formula beside fact. */
import { expectedStates, expectedTraffic } from "../plan/expected.ts";
import { renderChart } from "../report/chart.ts";
import { renderMemoryTables } from "../report/memory-table.ts";
import { formatBytes, formatCount, formatOperations } from "../report/numbers.ts";
import { renderSizes } from "../report/sizes-table.ts";
import { renderTrafficTables } from "../report/traffic-table.ts";
import type { Forecast } from "../zero/forecast.ts";
import type { StepRecord } from "../zero/record.ts";
import type { OpenedJob, TrainJob } from "./job.ts";

export function renderOpening(
  job: TrainJob,
  { config, sampler, seqLength, steps, tokens }: OpenedJob,
  f: Forecast,
): string {
  const clipping = config.gradientClipping > 0 ? `clipped at ${config.gradientClipping}` : "not clipped";
  const { optimizer } = config;
  return [
    `Model ${job.model}: ${formatCount(f.plan.parameterElements)} parameters in ${config.precision}, on ${config.worldSize} CPU rank(s) of ${job.threads} thread(s), ZeRO stage ${config.stage}.`,
    `Data: ${formatCount(tokens.count)} tokens, ${formatCount(sampler.windowCount)} windows of ${seqLength}; ${formatCount(steps)} steps of ${config.trainBatch} windows (${config.microBatch} a rank x ${config.gradientAccumulation} x ${config.worldSize} ranks).`,
    `${optimizer.type}: learning rate ${optimizer.learningRate} (${config.schedule?.type ?? "constant"}), weight decay ${optimizer.weightDecay}; gradients ${clipping}.`,
    `Device memory of a rank: ${formatBytes(f.peakBytes)} at the peak${job.deviceMemoryBytes === undefined ? "" : `, of a budget of ${formatBytes(job.deviceMemoryBytes)}`}.`,
    "",
    renderSizes(f.plan),
    "",
    "",
  ].join("\n");
}

/** Tables of the last step, and the loss over all steps. */
export function renderSummary(opened: OpenedJob, f: Forecast, records: readonly StepRecord[]): string {
  const last = records.at(-1)!;
  const states = expectedStates(f.plan);
  const formula = {
    parameters: states.parameters.formulaBytes,
    gradients: states.gradients.formulaBytes,
    optimizer: states.optimizer.formulaBytes,
  };
  const terms = expectedTraffic(f.plan);
  const memory = last.ranks.map((r) => ({ formula, forecast: f.report.memory, measured: r.memory }));
  const traffic = last.ranks.map((r) => ({ terms, forecast: f.report.traffic, measured: r.traffic }));
  const operations = last.ranks.map((r) => formatOperations(r.operations)).join(", ");
  const seconds = records.reduce((sum, r) => sum + r.seconds, 0);
  const tokens = records.length * opened.config.trainBatch * opened.seqLength;
  return [
    "",
    renderMemoryTables(memory),
    "",
    renderTrafficTables(traffic),
    "",
    `Floating-point operations a step, rank by rank: ${operations} (expected ${formatOperations(f.report.operations)} each).`,
    `${formatCount(tokens)} tokens in ${seconds.toFixed(1)} s: ${formatCount(Math.round(tokens / seconds))} tokens/s.`,
    "",
    ...(records.length > 1
      ? [
          renderChart(
            "loss",
            records.map((r) => r.loss),
          ),
          "",
        ]
      : []),
  ].join("\n");
}
