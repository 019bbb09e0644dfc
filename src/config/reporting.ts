/** What a run reports beside its progress line. */

import type { Settings } from "./reader.ts";
import type { MonitorConfig, ReportingConfig } from "./types.ts";

export function resolveReporting(settings: Settings): ReportingConfig {
  // DeepSpeed switches its communication log on by the mere presence of the section.
  const logsCommunication = settings.get("comms_logger.enabled") ?? settings.hasSection("comms_logger");
  return {
    stepsPerPrint: settings.get("steps_per_print"),
    wallClockBreakdown: settings.get("wall_clock_breakdown"),
    memoryBreakdown: settings.get("memory_breakdown"),
    dumpState: settings.get("dump_state"),
    commsLogger: logsCommunication ? { verbose: settings.get("comms_logger.verbose") } : undefined,
    flopsProfiler: settings.get("flops_profiler.enabled")
      ? {
          profileStep: settings.get("flops_profiler.profile_step"),
          moduleDepth: settings.get("flops_profiler.module_depth"),
          topModules: settings.get("flops_profiler.top_modules"),
          detailed: settings.get("flops_profiler.detailed"),
          outputFile: settings.get("flops_profiler.output_file") || undefined,
        }
      : undefined,
    csvMonitor: monitor(settings, "csv_monitor"),
    tensorboard: monitor(settings, "tensorboard"),
  };
}

function monitor(settings: Settings, section: "csv_monitor" | "tensorboard"): MonitorConfig | undefined {
  if (!settings.get(`${section}.enabled`)) return undefined;
  return {
    outputPath: settings.get(`${section}.output_path`),
    jobName: settings.get(`${section}.job_name`),
  };
}
