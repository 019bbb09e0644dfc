/** How fast this machine is, in a quarter of a second: what one thread does in registers alone. */
import { availableParallelism } from "node:os";
import { dtypeCode } from "../device/dtype.ts";
import { loadNative } from "../device/native.ts";
import type { MachineSpeed } from "./choice.ts";

/** Whatever else the machine does slows a probe down and never speeds it up. */
const probes = 3;

/** @throws NativeMissingError */
export function measureSpeed(): MachineSpeed {
  const native = loadNative();
  const best = (dtype: "f32" | "bf16"): number =>
    Math.max(...Array.from({ length: probes }, () => native.measurePeak(dtypeCode[dtype])));
  return { fp32: best("f32"), bf16: best("bf16"), cores: availableParallelism() };
}
