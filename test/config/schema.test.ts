// The schema for editors: equal to the file that is published, and of one mind with the reader.
import { describe, expect, test } from "vitest";
import { nodeFromValue } from "../../src/config/json.ts";
import type { KeySpec } from "../../src/config/key-kinds.ts";
import { keys } from "../../src/config/keys.ts";
import { isNote } from "../../src/config/known-keys.ts";
import { configSchema } from "../../src/config/schema.ts";
import type { JsonSchema, ValueType } from "../../src/config/value-types.ts";

// `npx vitest run test/config/schema.test.ts -u` writes it.
test("shunya.schema.json is generated from the key table", async () => {
  await expect(`${JSON.stringify(configSchema(), undefined, 2)}\n`).toMatchFileSnapshot("../../shunya.schema.json");
});

/** The part of JSON Schema that the schema uses; an unknown word is a failure. */
function isValid(schema: JsonSchema, value: unknown): boolean {
  const types: Record<string, (value: unknown) => boolean> = {
    object: (v) => typeof v === "object" && v !== null && !Array.isArray(v),
    array: Array.isArray,
    integer: Number.isInteger,
    number: (v) => typeof v === "number",
    boolean: (v) => typeof v === "boolean",
    string: (v) => typeof v === "string",
    null: (v) => v === null,
  };
  const words: Record<string, (wanted: never) => boolean> = {
    $schema: () => true,
    title: () => true,
    description: () => true,
    default: () => true,
    deprecated: () => true,
    type: (name: string) => types[name]!(value),
    const: (wanted: unknown) => value === wanted,
    enum: (wanted: unknown[]) => wanted.includes(value),
    minimum: (least: number) => typeof value !== "number" || value >= least,
    maximum: (most: number) => typeof value !== "number" || value <= most,
    exclusiveMinimum: (least: number) => typeof value !== "number" || value > least,
    exclusiveMaximum: (limit: number) => typeof value !== "number" || value < limit,
    minLength: (least: number) => typeof value !== "string" || value.length >= least,
    minItems: (least: number) => !Array.isArray(value) || value.length >= least,
    maxItems: (most: number) => !Array.isArray(value) || value.length <= most,
    items: (item: JsonSchema) => !Array.isArray(value) || value.every((v) => isValid(item, v)),
    anyOf: (schemas: JsonSchema[]) => schemas.some((s) => isValid(s, value)),
    required: (names: string[]) => names.every((name) => Object.hasOwn(value as object, name)),
    properties: (known: Record<string, JsonSchema>) =>
      !types.object!(value) ||
      Object.entries(value as object).every(([name, v]) => known[name] === undefined || isValid(known[name], v)),
    pattern: (wanted: string) => typeof value !== "string" || new RegExp(wanted).test(value),
    patternProperties: () => true, // all that is used says nothing of the values
    additionalProperties: () => {
      const patterns = Object.keys((schema.patternProperties as object | undefined) ?? {}).map((p) => new RegExp(p));
      const isKnown = (name: string) =>
        name in (schema.properties as Record<string, unknown>) || patterns.some((p) => p.test(name));
      return !types.object!(value) || Object.keys(value as object).every(isKnown);
    },
  };
  return Object.entries(schema).every(([word, wanted]) => words[word]!(wanted as never));
}

const nested = (path: string, value: unknown): unknown =>
  path.split(".").reduceRight((inner, name) => ({ [name]: inner }), value);

describe("the schema and the reader agree", () => {
  const schema = configSchema();
  const samples = [
    ...[
      -1,
      0,
      0.5,
      1,
      2,
      3,
      4,
      8.0,
      1e-8,
      5e8,
      1e14,
      true,
      false,
      null,
      "auto",
      "cpu",
      "none",
      "nvme",
      "fp32",
      "Adam",
      "",
    ],
    ...[[0.9, 0.999], [0.9], [1, 1], [], ["a"], {}],
  ];
  const rows = Object.entries(keys) as [string, KeySpec][];

  test.each(rows)("%s", (path, spec) => {
    for (const sample of samples) {
      const node = nodeFromValue(sample, path, 0, "test");
      const bySchema = isValid(schema, nested(path, sample));
      // Coerced values are read, and an editor may ask for their plain form.
      const isPlain = (type: ValueType<unknown>): boolean =>
        type.read(node) === undefined || JSON.stringify(type.read(node)) === JSON.stringify(sample);
      if (spec.status === "fixed") expect([sample, bySchema]).toEqual([sample, spec.accepts(node)]);
      else if (spec.status === "used") {
        const isLeftOut = sample === "auto" || (sample === null && spec.nullable);
        const byReader = isLeftOut || spec.type.read(node) !== undefined;
        if (isLeftOut || isPlain(spec.type)) expect([sample, bySchema]).toEqual([sample, byReader]);
      } else if (spec.status === "unused" && spec.type !== undefined && node.kind !== "object") {
        const isLeftOut = sample === "auto" || sample === null || spec.obeyed.some((value) => value === sample);
        const byReader = isLeftOut || spec.type.read(node) !== undefined;
        if (isLeftOut || isPlain(spec.type)) expect([sample, bySchema]).toEqual([sample, byReader]);
      }
    }
  });

  test("unknown keys are refused at every level, and $schema is not", () => {
    expect(isValid(schema, { $schema: "./shunya.schema.json" })).toBe(true);
    for (const path of [
      "stage",
      "zero_optimization.stages",
      "optimizer.params.lrr",
      "zero_optimization.offload_param.x",
    ])
      expect([path, isValid(schema, nested(path, 1))]).toEqual([path, false]);
  });

  test("words in any case and notes are taken, as the reader takes them", () => {
    for (const type of ["adamw", "AdamW", "ADAMW", "sgd"])
      expect([type, isValid(schema, { optimizer: { type } })]).toEqual([type, true]);
    for (const type of ["adamww", "Adam|AdamW", ""])
      expect([type, isValid(schema, { optimizer: { type } })]).toEqual([type, false]);
    for (const note of ["_comment", "//", "// why", "#x", "Comment2", "__NOTES__", "_help_1"]) {
      expect([note, isNote(note), isValid(schema, { [note]: "x" })]).toEqual([note, true, true]);
      expect(
        isValid(schema, { zero_optimization: { stage: 1, [note]: 1 }, optimizer: { params: { [note]: 1 } } }),
      ).toBe(true);
    }
    for (const name of ["comment_x", "_commentary", "docs", ""])
      expect([name, isNote(name), isValid(schema, { [name]: "x" })]).toEqual([name, false, false]);
  });

  test("DeepSpeed's other spellings are known", () => {
    expect(isValid(schema, { bfloat16: { enabled: true } })).toBe(true);
    expect(isValid(schema, { zero_optimization: { prefetch_bucket_size: 5e7 } })).toBe(true);
    expect(isValid(schema, { zero_optimization: { prefetch_bucket_size: "many" } })).toBe(false);
  });
});
