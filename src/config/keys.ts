/**
 * The table of configuration keys: DeepSpeed's, by dotted path, and our own under `shunya`. Everything that the reader, the error
 * messages, the spelling help and the documentation know about keys comes from here; a new key is a new row.
 * Defaults are DeepSpeed's, save for sizes, which the plan derives from the model when they are left out.
 */

import { otherKeys, reportingKeys } from "./keys-other.ts";
import { batchKeys, optimizerKeys, precisionKeys, schedulerKeys } from "./keys-training.ts";
import { tuningKeys } from "./keys-tuning.ts";
import { zeroKeys } from "./keys-zero.ts";

export const keys = {
  ...batchKeys,
  ...precisionKeys,
  ...zeroKeys,
  ...optimizerKeys,
  ...schedulerKeys,
  ...reportingKeys,
  ...otherKeys,
  ...tuningKeys,
};

export type KeyPath = keyof typeof keys;
/** Paths of the keys that this version acts on. */
export type UsedPath = { [K in KeyPath]: (typeof keys)[K] extends { status: "used" } ? K : never }[KeyPath];

/** Other spellings that DeepSpeed accepts, of keys or of whole sections, and the one that the table uses. */
export const aliases: Readonly<Record<string, string>> = {
  bfloat16: "bf16",
  "zero_optimization.stage3_gather_fp16_weights_on_model_save":
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
  ...Object.fromEntries(
    Object.keys(keys)
      .filter((path) => path.startsWith("zero_optimization.stage3_"))
      .map((path) => [path.replace(".stage3_", "."), path]),
  ),
};

/** Spellings that DeepSpeed refuses today although its own tutorials, or many files, have them: read, with a warning. */
export const misspellings: Readonly<Record<string, string>> = {
  "zero_optimization.stage3_param_persitance_threshold": "zero_optimization.stage3_param_persistence_threshold",
  "zero_optimization.stage3_param_persistance_threshold": "zero_optimization.stage3_param_persistence_threshold",
  "zero_optimization.stage3_param_persitence_threshold": "zero_optimization.stage3_param_persistence_threshold",
};

/** Sections that DeepSpeed itself checks: it refuses unknown names there, and drops "auto", so that the default holds. */
export const checkedSections: readonly string[] = [
  "zero_optimization",
  "fp16",
  "bf16",
  "csv_monitor",
  "tensorboard",
  "comms_logger",
];
