/** Ops as the native core reads them: an op code and the fields as doubles, in the order of the op table. */
import { InternalError } from "../errors/errors.ts";
import { dtypeCode } from "./dtype.ts";
import { type FieldKind, type OpArgs, type OpName, opFields, opNames, type Segment, type Span } from "./ops.ts";

const codes = new Map(opNames.map((name, code) => [name, code]));
const values = new Float64Array(4096);

const fieldsOf = Object.fromEntries(opNames.map((name) => [name, Object.entries(opFields[name])])) as Record<
  OpName,
  [string, FieldKind][]
>;

const addressFieldsOf = Object.fromEntries(
  opNames.map((name) => [
    name,
    fieldsOf[name].filter(([field, kind]) => field !== "scratch" && ["span", "span?", "segments"].includes(kind)),
  ]),
) as typeof fieldsOf;

function putSpan(at: number, span: Span | null): number {
  values[at] = span ? span.region : -1;
  values[at + 1] = span ? span.offset : 0;
  return at + 2;
}

function putSegments(at: number, segments: readonly Segment[]): number {
  if (at + 1 + segments.length * 7 > values.length)
    throw new InternalError(`${segments.length} segments in one collective`);
  values[at++] = segments.length;
  for (const s of segments) {
    at = putSpan(at, s.whole);
    values[at++] = s.stride;
    values[at++] = s.start;
    values[at++] = s.count;
    at = putSpan(at, s.own);
  }
  return at;
}

/** Every region an op names, for a check of where it may reach; scratch is not among them. */
export function regionsOf<K extends OpName>(name: K, args: OpArgs<K>): number[] {
  const given = args as Readonly<Record<string, unknown>>;
  const regions: number[] = [];
  for (const [field, kind] of addressFieldsOf[name]) {
    const value = given[field] as Span | readonly Segment[] | null;
    if (kind === "segments")
      for (const { whole, own } of value as readonly Segment[]) regions.push(whole.region, own.region);
    else if (value) regions.push((value as Span).region);
  }
  return regions;
}

/** The returned view is valid until the next call. */
export function encode<K extends OpName>(
  name: K,
  args: OpArgs<K>,
  scratch: Span | null,
): { code: number; values: Float64Array } {
  let at = 0;
  const given = args as Readonly<Record<string, unknown>>;
  for (const [field, kind] of fieldsOf[name]) {
    const value = field === "scratch" ? scratch : given[field];
    if (kind === "span" || kind === "span?") at = putSpan(at, value as Span | null);
    else if (kind === "dtype") values[at++] = dtypeCode[value as keyof typeof dtypeCode];
    else if (kind === "segments") at = putSegments(at, value as readonly Segment[]);
    else values[at++] = Number(value);
  }
  return { code: codes.get(name)!, values: values.subarray(0, at) };
}

/** Equal for calls that need the same scratch: everything but addresses, random numbers' names and factors. */
export function scratchKey<K extends OpName>(name: K, args: OpArgs<K>): string {
  const given = args as Readonly<Record<string, unknown>>;
  let key: string = name;
  for (const [field, kind] of fieldsOf[name])
    if (kind === "size" || kind === "dtype" || kind === "flag") key += `,${String(given[field])}`;
    else if (kind === "span?") key += given[field] === null ? ",-" : ",+";
  return key;
}
