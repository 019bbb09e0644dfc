/** A file of named tensors, whatever its format. */
export interface WeightFile {
  readonly path: string;
  /** Element types have safetensors' names: "F32", "BF16" and so on. */
  readonly tensors: ReadonlyMap<string, { readonly shape: readonly number[]; readonly dtype: string }>;
  /** Elements [firstElement, firstElement + count), row-major, as fp32; 16-bit floats convert exactly. */
  readFloat32(name: string, firstElement: number, count: number): Promise<Float32Array>;
  close(): Promise<void>;
}
