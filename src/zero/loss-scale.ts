/**
 * The loss scale of fp16 training. The loss is multiplied by it so that small gradients do not vanish; a step whose gradients
 * overflow is skipped and, in the end, the scale halved; after a window of clean updates it is doubled. The rules, and what
 * hysteresis means, are DeepSpeed's; unlike there, a step's gradients are always divided by the scale that they were made
 * with, also where the scale changes at that step.
 */
import type { LossScaleConfig } from "../config/types.ts";

export interface LossScaleState {
  readonly scale: number;
  /** Overflows left before the scale is halved. */
  readonly hysteresisLeft: number;
  /** Updates that the scaler has seen, skipped ones included. */
  readonly seen: number;
  /** The update (counted by `seen`, from 0) of the last overflow; -1: none so far. */
  readonly lastOverflow: number;
}

export class LossScaler {
  readonly #config: LossScaleConfig;
  #state: LossScaleState;

  /** @param config undefined: the loss is not scaled @param state of a run that goes on */
  constructor(config: LossScaleConfig = { kind: "static", scale: 1 }, state?: LossScaleState) {
    this.#config = config;
    this.#state = state ?? {
      scale: config.kind === "static" ? config.scale : config.initialScale,
      hysteresisLeft: config.kind === "static" ? 1 : config.hysteresis,
      seen: 0,
      lastOverflow: -1,
    };
  }

  /** What the next backward pass starts from. */
  get scale(): number {
    return this.#state.scale;
  }

  get state(): LossScaleState {
    return this.#state;
  }

  /** Whether another overflow would find the scale at its minimum: training cannot go on then. */
  get isExhausted(): boolean {
    const config = this.#config;
    return config.kind === "dynamic" && this.#lowersNext && this.#state.scale <= config.minScale;
  }

  /** After each attempted step. Call `isExhausted` before, where the step overflowed. */
  update(overflowed: boolean): void {
    const config = this.#config;
    if (config.kind === "static") return;
    this.#state = overflowed ? this.#afterOverflow(config.minScale) : this.#afterClean(config);
  }

  get #lowersNext(): boolean {
    const { hysteresisLeft } = this.#state;
    return hysteresisLeft === 1 || (this.#config.kind === "dynamic" && this.#config.hysteresis === 1);
  }

  #afterOverflow(minScale: number): LossScaleState {
    const { scale, hysteresisLeft, seen } = this.#state;
    const lowered = this.#lowersNext
      ? { scale: Math.max(scale / 2, minScale), hysteresisLeft }
      : { scale, hysteresisLeft: hysteresisLeft - 1 };
    return { ...lowered, seen: seen + 1, lastOverflow: seen };
  }

  #afterClean(config: Extract<LossScaleConfig, { kind: "dynamic" }>): LossScaleState {
    const { scale, hysteresisLeft, seen, lastOverflow } = this.#state;
    const clean = seen - lastOverflow - 1;
    const doubles = clean > 0 && clean % config.window === 0;
    const refills = config.consecutiveHysteresis || doubles;
    return {
      scale: doubles ? scale * 2 : scale,
      hysteresisLeft: refills ? config.hysteresis : hysteresisLeft,
      seen: seen + 1,
      lastOverflow,
    };
  }
}
