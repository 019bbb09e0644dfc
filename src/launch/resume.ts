/** Resuming: the ranks find and check the checkpoint together, and say what is not as it was. */
import { withBaseTogether } from "../checkpoint/base-weights.ts";
import { checkFits, findTraining } from "../checkpoint/find-training.ts";
import type { TrainingCheckpoint } from "../checkpoint/open-training.ts";
import { changedSettings } from "../checkpoint/settings.ts";
import type { JsonObject } from "../checkpoint/training-manifest.ts";
import { ProcessGroup } from "../comm/group.ts";
import type { ResolvedConfig } from "../config/types.ts";
import type { Logger } from "../log/logger.ts";
import { describeModel } from "../nn/describe.ts";
import type { Module } from "../nn/module.ts";
import { tuned } from "../nn/tuning.ts";
import type { WeightSource } from "../zero/weights.ts";
import type { World } from "./world.ts";

export interface Resumption {
  /** A checkpoint, or a folder of them. */
  readonly path: string;
  readonly model: Module;
  readonly config: ResolvedConfig;
  /** Undefined: the saved one. */
  readonly seed: number | undefined;
  /** Undefined: not compared. */
  readonly run: JsonObject | undefined;
  /** Of the base of a checkpoint that leaves frozen tensors there. Undefined: those in the folder that it names. */
  readonly weights: WeightSource | undefined;
}

/**
 * Every rank calls it. The device and transport are let go of where it fails, as by `Engine.create`.
 * @throws CheckpointError, on every rank alike
 */
export async function resumeIn(world: World, resumption: Resumption, logger: Logger): Promise<TrainingCheckpoint> {
  const { path, model, config, seed, run, weights } = resumption;
  const { device, transport } = world;
  let found: TrainingCheckpoint | undefined;
  try {
    const group = new ProcessGroup(device, transport);
    const onDamaged = (text: string): void => logger.warn(`an older checkpoint is taken, since ${text}`);
    found = await findTraining(path, { group, onDamaged, checksAsRead: true });
    checkFits(found, describeModel(tuned(model, config)).description, config);
    found = await withBaseTogether(group, found, weights);
    const changed = changedSettings(found.manifest, { seed: seed ?? found.manifest.seed, config, ...(run && { run }) });
    for (const text of changed) logger.warn(`${found.folder}: ${text}`);
    logger.info(`resuming after step ${found.manifest.step} from ${found.folder}`);
    return found;
  } catch (error) {
    await found?.[Symbol.asyncDispose]();
    transport.dispose();
    device.dispose();
    throw error;
  }
}
