/** What a PyTorch + DeepSpeed job takes on a real card. The formulas and how near they come to measured jobs: docs/deepspeed-estimates.md. */

export { estimateDeepSpeed } from "./deepspeed/estimate.ts";
export { deepSpeedZero2Estimate, deepSpeedZero3Estimate } from "./deepspeed/published-estimators.ts";
export * from "./deepspeed/question.ts";
export { deepSpeedPlacements } from "./deepspeed/states.ts";
