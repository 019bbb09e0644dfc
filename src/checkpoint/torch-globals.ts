/** The names that a file of PyTorch's torch.save may hold: what builds tensors, and Python's own plain values. */
import { type Constructor, describeValue, isTuple, PickleConstant, PickleGlobal } from "./pickle-values.ts";

/** Element types as safetensors names them. */
export type TorchType = keyof typeof torchTypeBytes;

export const torchTypeBytes = {
  ...{ F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U8: 1, BOOL: 1 },
  ...{ U16: 2, U32: 4, U64: 8, F8_E4M3: 1, F8_E5M2: 1 },
} as const;

/** Bytes of their own in the file, by key. */
export class TorchStorage {
  readonly key: string;
  readonly type: TorchType;
  readonly elements: number;
  constructor(key: string, type: TorchType, elements: number) {
    this.key = key;
    this.type = type;
    this.elements = elements;
  }
}

/** A view of a storage, offsets and strides in elements. Every element of it lies within the storage. */
export class TorchTensor {
  readonly storage: TorchStorage;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly elements: number;
  constructor(storage: TorchStorage, offset: number, shape: readonly number[], strides: readonly number[]) {
    this.storage = storage;
    this.offset = offset;
    this.shape = shape;
    this.strides = strides;
    this.elements = elementsOf(shape);
  }
}

const elementsOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
/** As many dimensions as PyTorch has. */
const isCounts = (value: unknown): value is readonly number[] =>
  isTuple(value) && value.length <= 64 && value.every(isCount);

const storageTypes: Readonly<Record<string, TorchType>> = {
  ...{ DoubleStorage: "F64", FloatStorage: "F32", HalfStorage: "F16", BFloat16Storage: "BF16", LongStorage: "I64" },
  ...{ IntStorage: "I32", ShortStorage: "I16", CharStorage: "I8", ByteStorage: "U8", BoolStorage: "BOOL" },
};

const elementTypes: Readonly<Record<string, TorchType>> = {
  ...{ float64: "F64", float32: "F32", float16: "F16", bfloat16: "BF16", int64: "I64", int32: "I32", int16: "I16" },
  ...{ int8: "I8", uint8: "U8", bool: "BOOL", uint16: "U16", uint32: "U32", uint64: "U64" },
  ...{ float8_e4m3fn: "F8_E4M3", float8_e5m2: "F8_E5M2" },
};

/** torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, metadata) */
const rebuildTensor: Constructor = ([storage, offset, shape, strides], { error }) => {
  if (!(storage instanceof TorchStorage)) throw error(`found a tensor of ${describeValue(storage)}; wanted a storage`);
  if (!isCount(offset) || !isCounts(shape) || !isCounts(strides) || shape.length !== strides.length)
    throw error("found a tensor whose offset, shape and strides are no whole numbers of one length");
  const elements = elementsOf(shape);
  const last = offset + shape.reduce((sum, size, i) => sum + (size - 1) * strides[i]!, 0);
  if (!Number.isSafeInteger(elements) || (elements > 0 && !(last < storage.elements)))
    throw error(
      `found a tensor of [${shape.slice(0, 8).join(", ")}] from element ${offset} on in a storage of ${storage.elements}`,
    );
  return new TorchTensor(storage, offset, shape, strides);
};

/** torch._utils._rebuild_parameter(data, requires_grad, hooks) */
const rebuildParameter: Constructor = ([data], { error }) => {
  if (data instanceof TorchTensor) return data;
  throw error(`found a parameter of ${describeValue(data)}; wanted a tensor`);
};

/** torch._tensor._rebuild_from_type_v2(constructor, class, arguments, attributes): attributes of tensors are no numbers. */
const rebuildFromType: Constructor = ([maker, , args], { call, error }) => {
  if (!(maker instanceof PickleGlobal) || maker.construct === rebuildFromType)
    throw error(`found a tensor made by ${describeValue(maker)}`);
  return call(maker, args);
};

const emptyDict: Constructor = (args, { error }) => {
  if (args.length > 0)
    throw error(`found a dict made of ${describeValue(args[0])}; wanted one that is filled in place`);
  return new Map();
};

/** A set is what Python writes as a list of its members. */
const setOfList: Constructor = ([members = []], { error, spend }) => {
  if (!Array.isArray(members)) throw error(`found a set of ${describeValue(members)}`);
  spend(members.length);
  return Object.freeze([...members]);
};

/** _codecs.encode(text, "latin1"), which is how protocol 2 writes bytes. */
const encode: Constructor = ([text, encoding], { error, spend }) => {
  if (typeof text !== "string" || encoding !== "latin1") throw error(`found an encoding of ${describeValue(text)}`);
  spend(text.length);
  return Uint8Array.from(Buffer.from(text, "latin1"));
};

/** torch.Size(sizes) and torch.device(name): the plain value. */
const plain: Constructor = ([value], { error }) => {
  if (isTuple(value) || typeof value === "string") return value;
  throw error(`found ${describeValue(value)} as sizes or the name of a device`);
};

export const torchGlobals: ReadonlyMap<string, Constructor | PickleConstant> = new Map<
  string,
  Constructor | PickleConstant
>([
  ["collections OrderedDict", emptyDict],
  ["__builtin__ set", setOfList],
  ["builtins set", setOfList],
  ["_codecs encode", encode],
  ["torch Size", plain],
  ["torch device", plain],
  ["torch Tensor", new PickleConstant("torch.Tensor")],
  ["torch._utils _rebuild_tensor_v2", rebuildTensor],
  ["torch._utils _rebuild_parameter", rebuildParameter],
  ["torch._tensor _rebuild_from_type_v2", rebuildFromType],
  ...Object.entries(storageTypes).map(([name, type]) => [`torch ${name}`, new PickleConstant(type)] as const),
  ...Object.entries(elementTypes).map(([name, type]) => [`torch ${name}`, new PickleConstant(type)] as const),
]);

/** ("storage", type, key, device, elements) */
export const torchStorage: Constructor = ([kind, type, key, , elements], { error }) => {
  const isKey = typeof key === "string" && /^\w{1,40}$/.test(key);
  if (
    kind !== "storage" ||
    typeof type !== "string" ||
    !Object.hasOwn(torchTypeBytes, type) ||
    !isKey ||
    !isCount(elements)
  )
    throw error(`found ${describeValue(type)}, ${describeValue(key)}, ${describeValue(elements)}; wanted a storage`);
  return new TorchStorage(key, type as TorchType, elements);
};
