/** A configuration as typed TypeScript: the key table's rows as nested objects, for completion and for errors at compile time. */

import type { ConfigScalar } from "./json.ts";
import type { KeySpec } from "./key-kinds.ts";
import type { KeyPath, keys } from "./keys.ts";
import type { ValueType } from "./value-types.ts";

/** One of `shunya.parameter_groups` as it is written. */
export interface ParameterGroupInput {
  /** Patterns of parameter names: `*` stands for any characters. */
  readonly match: string | readonly string[];
  readonly lr?: number | undefined;
  readonly weight_decay?: number | undefined;
}

/** Rows whose values are written otherwise than they are read. */
interface WrittenOtherwise {
  readonly "shunya.parameter_groups": readonly ParameterGroupInput[];
}

type Row<P> = P extends KeyPath ? (typeof keys)[P] : never;
type Written<P> = P extends keyof WrittenOtherwise
  ? WrittenOtherwise[P]
  : Row<P> extends { readonly status: "used" | "replaced"; readonly type: ValueType<infer T> }
    ? T | "auto"
    : Row<P> extends Extract<KeySpec, { status: "fixed" }>
      ? ConfigScalar | object
      : unknown;

type Head<P extends string> = P extends `${infer First}.${string}` ? First : P;
type Rest<P extends string, First extends string> = P extends `${First}.${infer Under}` ? Under : never;
type Section<P extends string, Prefix extends string> = {
  readonly [Name in Head<P>]?:
    | ([Rest<P, Name>] extends [never] ? Written<`${Prefix}${Name}`> : Section<Rest<P, Name>, `${Prefix}${Name}.`>)
    | undefined;
};

/** A configuration with the key table's spellings; values that only text files need (numbers as text, "yes") are left out. */
export type ConfigInput = Section<KeyPath, ""> & { readonly $schema?: string | undefined };

/** Returns the configuration as it is: `export default defineConfig({ zero_optimization: { stage: 3 } })`. */
export function defineConfig<const C extends ConfigInput>(config: C): C {
  return config;
}
