/** Where training is, apart from the tensors: what a checkpoint keeps of the engine in plain numbers, and how a step moves it. */
import type { ResolvedConfig } from "../config/types.ts";
import { LossScaler, type LossScaleState } from "./loss-scale.ts";

export interface EngineProgress {
  /** Steps tried: they decide the data and dropout of the next one. */
  readonly attempted: number;
  /** Steps that changed the parameters: they decide the learning rate and Adam's bias correction. */
  readonly updates: number;
  /** Skipped steps since the last update. */
  readonly consecutiveSkips: number;
  readonly lossScale: LossScaleState;
}

/** A scale that moves needs some skips to find its place, starting from 2^32 about 34. */
const mostSkipsOfDynamicScale = 100;
/** Where nothing changes between two attempts, the next one will hardly be better. */
const mostSkipsOfFixedScale = 20;

/** Skipped steps in a row with which training stops. */
function mostSkips(config: Pick<ResolvedConfig, "skipsOverflow" | "lossScale">): number {
  if (!config.skipsOverflow) return 1;
  return config.lossScale?.kind === "dynamic" ? mostSkipsOfDynamicScale : mostSkipsOfFixedScale;
}

/** Counts steps and moves the loss scale with them. */
export class StepCounter {
  readonly #scaler: LossScaler;
  readonly #mostSkips: number;
  #attempted: number;
  #updates: number;
  #consecutiveSkips: number;

  /** @param start of a run that goes on */
  constructor(config: ResolvedConfig, start?: EngineProgress) {
    this.#scaler = new LossScaler(config.lossScale, start?.lossScale);
    this.#mostSkips = mostSkips(config);
    this.#attempted = start?.attempted ?? 0;
    this.#updates = start?.updates ?? 0;
    this.#consecutiveSkips = start?.consecutiveSkips ?? 0;
  }

  get attempted(): number {
    return this.#attempted;
  }

  /** The number of the next update, from 1. */
  get nextUpdate(): number {
    return this.#updates + 1;
  }

  /** What the backward passes of this step start from. */
  get lossScale(): number {
    return this.#scaler.scale;
  }

  get progress(): EngineProgress {
    const lossScale = this.#scaler.state;
    return { attempted: this.#attempted, updates: this.#updates, consecutiveSkips: this.#consecutiveSkips, lossScale };
  }

  /** A step is over. @returns why training cannot go on, if it cannot */
  finish(skipped: boolean): "scale at its minimum" | "too many skips" | undefined {
    const isExhausted = skipped && this.#scaler.isExhausted;
    this.#scaler.update(skipped);
    this.#attempted++;
    if (!skipped) this.#updates++;
    this.#consecutiveSkips = skipped ? this.#consecutiveSkips + 1 : 0;
    if (isExhausted) return "scale at its minimum";
    return this.#consecutiveSkips >= this.#mostSkips ? "too many skips" : undefined;
  }
}
