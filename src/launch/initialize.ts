/** The front door: from a model and a configuration to a running engine, on whatever world this process is part of. */
import { resolve } from "node:path";
import { resumePointOf } from "../checkpoint/find-training.ts";
import type { JsonObject } from "../checkpoint/training-manifest.ts";
import { parseConfigFile, parseConfigObject } from "../config/json.ts";
import { resolveConfig } from "../config/resolve.ts";
import type { ResolvedConfig } from "../config/types.ts";
import { lockNotices } from "../device/locked-memory.ts";
import { anObject, checkOptions, either, type Kinds, path, required, signal, withMethods } from "../errors/options.ts";
import { createLogger, type Logger } from "../log/logger.ts";
import { Engine, type EngineOptions } from "../zero/engine.ts";
import { modelKind, seedKind, weightsKind } from "../zero/engine-options.ts";
import type { WeightSource } from "../zero/weights.ts";
import { joinLaunched } from "./join.ts";
import { checkFolders, pinnedKinds } from "./offload.ts";
import { reportOn } from "./reporting.ts";
import { resumeIn } from "./resume.ts";
import { enterWorld, type World, type WorldOptions, worldKinds } from "./world.ts";

export interface InitializeOptions<B extends object> extends WorldOptions {
  /** A module whose forward makes one number, the loss, from a batch. Constructing it has allocated nothing. */
  readonly model: EngineOptions<B>["model"];
  /** DeepSpeed-style: a path of a JSON file, or the same as an object. */
  readonly config: string | object;
  /** Seed of initial weights and dropout. Defaults to 42. */
  readonly seed?: number;
  /**
   * Initial weights by name; the others are drawn. Where they are a model folder's (`openModelFolder`), checkpoints leave frozen
   * parameters there.
   */
  readonly weights?: WeightSource;
  /**
   * A checkpoint of `saveCheckpoint`, or a folder of them: its newest undamaged one. Training goes on after its step
   * (`engine.steps`) as if it had never stopped; world size and stage may be others. `weights` are then read for
   * frozen parameters that the checkpoint left in their folder, instead of the folder that it names, and for nothing else.
   */
  readonly resume?: string;
  /** What the run is made of beside the configuration, as given to `saveCheckpoint`: what changed is said. */
  readonly run?: JsonObject;
  /** Told what the configuration's reports say, warnings, and which checkpoint is taken. Defaults to lines on standard error, from rank 0. */
  readonly logger?: Logger;
  /** Stops training cleanly: all ranks finish the step that is running, and the next `forward` throws InterruptedError. */
  readonly signal?: AbortSignal;
}

const kinds: Kinds<InitializeOptions<object>> = {
  ...worldKinds,
  model: modelKind,
  config: required(either(path, anObject)),
  seed: seedKind,
  weights: weightsKind,
  resume: path,
  run: anObject,
  logger: withMethods("a logger", ["debug", "info", "warn", "warnOnce", "error"]),
  signal,
};

/**
 * Makes this rank's engine. Every rank of the world calls it with the same model and configuration. The engine owns its
 * device and group: `await using engine = await initialize(...)` frees everything at the end.
 * @throws ConfigError, CheckpointError, MemoryBudgetError, UsageError
 */
export async function initialize<B extends object>(options: InitializeOptions<B>): Promise<Engine<B>> {
  checkOptions<InitializeOptions<object>>("initialize", options as unknown as InitializeOptions<object>, kinds);
  const world = enterWorld(options);
  const file = typeof options.config === "string" ? parseConfigFile(options.config) : parseConfigObject(options.config);
  const launched = world.stopSignal !== undefined;
  const worldSizeFrom = launched
    ? "shunya launch --ranks"
    : "WORLD_SIZE, which is not set: this process runs by itself";
  const config = resolveConfig({ file, worldSize: world.worldSize, worldSizeFrom });
  const logger = options.logger ?? createLogger({ rank: world.rank });
  for (const warning of config.warnings) logger.warn(warning);
  const engine = await initializeIn(world, config, { ...options, logger });
  try {
    for (const notice of noticesOf(engine)) logger.warn(notice);
    if (world.rank === 0) reportOn(engine, config, logger);
    return engine;
  } catch (error) {
    await engine[Symbol.asyncDispose]();
    throw error;
  }
}

/** The same with a resolved configuration, in a world that was joined before. */
export async function initializeIn<B extends object>(
  world: World,
  config: ResolvedConfig,
  options: Omit<InitializeOptions<B>, "config">,
): Promise<Engine<B>> {
  checkFolders(config);
  if (config.disk.folders.length > 0)
    joinLaunched()?.announceSwap(config.disk.folders.map((folder) => resolve(folder)));
  world.device.lockHost(pinnedKinds(config));
  const { model, weights, run, resume: path } = options;
  const logger = options.logger ?? createLogger({ rank: world.rank });
  await using saved =
    path === undefined
      ? undefined
      : await resumeIn(world, { path, model, config, seed: options.seed, run, weights }, logger);
  const seed = options.seed ?? saved?.manifest.seed;
  const signals = [options.signal, world.stopSignal].filter((s) => s !== undefined);
  return await Engine.create({
    model,
    config,
    device: world.device,
    transport: world.transport,
    ...(seed !== undefined && { seed }),
    ...(weights && { weights }),
    ...(saved && { resume: resumePointOf(saved) }),
    ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
  });
}

/** What the user should be told of the tiers as they were found. */
export function noticesOf({ notices, device }: Pick<Engine<object>, "notices" | "device">): readonly string[] {
  return [...notices, ...lockNotices(device.locked)];
}
