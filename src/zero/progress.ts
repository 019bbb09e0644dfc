/** Where training is, apart from the tensors: what a checkpoint keeps of the engine in plain numbers. */

export interface LossScaleState {
  readonly scale: number;
  /** Overflows left before the scale is halved. */
  readonly hysteresisLeft: number;
  /** Updates that the scaler has seen, skipped ones included. */
  readonly seen: number;
  /** The update (counted by `seen`, from 0) of the last overflow; -1: none so far. */
  readonly lastOverflow: number;
}

export interface EngineProgress {
  /** Steps tried: they decide the data and dropout of the next one. */
  readonly attempted: number;
  /** Steps that changed the parameters: they decide the learning rate and Adam's bias correction. */
  readonly updates: number;
  /** Skipped steps since the last update. */
  readonly consecutiveSkips: number;
  readonly lossScale: LossScaleState;
}
