/** Element types. Half precisions are carried as bytes with this tag, never inferred from a typed array's kind. */
export type DType = "f32" | "bf16" | "f16" | "i32" | "f64";

/** Wire codes of the native core (native/kernels/kernels.h). */
export const dtypeCode: Readonly<Record<DType, number>> = { f32: 0, bf16: 1, f16: 2, i32: 3, f64: 4 };

export const dtypeBytes: Readonly<Record<DType, number>> = { f32: 4, bf16: 2, f16: 2, i32: 4, f64: 8 };
