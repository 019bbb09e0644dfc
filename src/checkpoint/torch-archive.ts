/**
 * A file of PyTorch's torch.save (since 1.6): a zip archive of data.pkl and one stored, uncompressed entry for each storage. The
 * pickle is read as data (pickle.ts); elements of tensors are read from the file by range, and never all at once.
 */
import { type FileHandle, open, stat } from "node:fs/promises";
import yauzl, { type Entry, type ZipFile } from "yauzl";
import { type FloatType, floatBytes, toFloat32 } from "../device/halves.ts";
import { ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { crc32 } from "./crc32.ts";
import { readFully } from "./file-range.ts";
import { readPickle } from "./pickle.ts";
import { shownName } from "./pickle-bytes.ts";
import type { Constructor, PickleConstant } from "./pickle-values.ts";
import { type TorchStorage, type TorchTensor, torchGlobals, torchStorage, torchTypeBytes } from "./torch-globals.ts";

/** Of data.pkl: names, shapes and settings of the largest models take a few MB. */
const mostPickleBytes = 64 * 1024 * 1024;
/** One a storage, and a few besides. */
const mostEntries = 1_000_000;
/** Elements of a tensor that does not lie in order are picked from a piece of the file in memory, at most this large. */
const mostSpanBytes = 1024 * 1024 * 1024;

export interface TorchArchive extends AsyncDisposable {
  readonly path: string;
  /** What was saved, with tensors as TorchTensor. */
  readonly value: unknown;
  /** Elements [first, first + count), row-major, as fp32. @throws ModelError where the tensor is not of a float type */
  readFloat32(tensor: TorchTensor, first: number, count: number): Promise<Float32Array>;
  close(): Promise<void>;
}

/**
 * Reads the pickle, and checks that every storage that it names is in the archive in its full length.
 * @param globals names that are allowed besides those of tensors and plain values
 * @throws ModelError
 */
export async function openTorchArchive(
  path: string,
  globals: ReadonlyMap<string, Constructor | PickleConstant> = new Map(),
): Promise<TorchArchive> {
  const fail = (error: NodeJS.ErrnoException): never => {
    throw new ModelError(`${path}: ${reasonOf(error)}`, { cause: error });
  };
  // Before opening: to open a pipe would wait for its writer.
  const found = await stat(path).catch(fail);
  if (!found.isFile()) throw new ModelError(`${path} is not a regular file; wanted one of PyTorch's torch.save`);
  const handle = await open(path, "r").catch(fail);
  try {
    await refuseOldFormat(path, handle, found.size);
    const entries = await readEntries(path, handle, found.size);
    const pickle = [...entries.keys()].find((name) => /^[^/]*\/data\.pkl$/.test(name));
    if (pickle === undefined)
      throw new ModelError(`${path} is a zip archive without data.pkl; wanted one of torch.save`);
    const prefix = pickle.slice(0, -"data.pkl".length);
    await checkByteOrder(path, handle, entries.get(`${prefix}byteorder`));
    const bytes = await readEntry(path, handle, entries.get(pickle)!, mostPickleBytes);
    const starts = new Map<TorchStorage, number>();
    const persistent: Constructor = (id, construction) => {
      const storage = torchStorage(id, construction) as TorchStorage;
      const entry = entries.get(`${prefix}data/${storage.key}`);
      const wanted = storage.elements * torchTypeBytes[storage.type];
      if (entry?.bytes !== wanted) {
        const has = entry === undefined ? "is not in the archive" : `has ${entry.bytes} bytes`;
        throw construction.error(`storage ${storage.key} ${has}; wanted ${wanted} bytes of ${storage.type}`);
      }
      starts.set(storage, entry.start);
      return storage;
    };
    const all = new Map([...torchGlobals, ...globals]);
    const value = readPickle(bytes, { path: `${path}, data.pkl`, globals: all, persistent });
    return new OpenArchive(path, handle, value, starts);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

class OpenArchive implements TorchArchive {
  readonly path: string;
  readonly value: unknown;
  readonly #handle: FileHandle;
  readonly #starts: ReadonlyMap<TorchStorage, number>;

  constructor(path: string, handle: FileHandle, value: unknown, starts: ReadonlyMap<TorchStorage, number>) {
    this.path = path;
    this.value = value;
    this.#handle = handle;
    this.#starts = starts;
  }

  async readFloat32(tensor: TorchTensor, first: number, count: number): Promise<Float32Array> {
    const places = new Places(tensor);
    if (places.areInOrder) return this.#read(tensor.storage, tensor.offset + first, count);
    const values = new Float32Array(count);
    if (count === 0) return values;
    const [low, high] = places.bounds(first, count);
    const bytes = (high + 1 - low) * torchTypeBytes[tensor.storage.type];
    if (bytes > mostSpanBytes)
      throw new ModelError(
        `${this.path}: a tensor of [${tensor.shape.join(", ")}] lies scattered over ${bytes} bytes; save it with .contiguous()`,
      );
    const span = await this.#read(tensor.storage, low, high + 1 - low);
    let i = 0;
    for (const place of places.of(first, count)) values[i++] = span[place - low]!;
    return values;
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #read(storage: TorchStorage, first: number, count: number): Promise<Float32Array> {
    const { type } = storage;
    if (!Object.hasOwn(floatBytes, type))
      throw new ModelError(`${this.path}: found elements of type ${type}; wanted F32, F16 or BF16`);
    const size = torchTypeBytes[type];
    const at = this.#starts.get(storage)! + first * size;
    return toFloat32(await readFully(this.path, this.#handle, at, count * size), type as FloatType);
  }
}

/** Where a tensor's elements are in its storage. */
class Places {
  readonly #tensor: TorchTensor;

  constructor(tensor: TorchTensor) {
    this.#tensor = tensor;
  }

  /** One after the other, row-major. */
  get areInOrder(): boolean {
    const { shape, strides } = this.#tensor;
    let wanted = 1;
    for (let i = shape.length - 1; i >= 0; i--) {
      if (shape[i] !== 1 && strides[i] !== wanted) return false;
      wanted *= shape[i]!;
    }
    return true;
  }

  /** The lowest and the highest place of elements [first, first + count), or somewhat more. */
  bounds(first: number, count: number): [low: number, high: number] {
    const { offset, shape, strides } = this.#tensor;
    let [low, high] = [offset, offset];
    let [from, to] = [first, first + count - 1];
    let inner = shape.reduce((product, size) => product * size, 1);
    // Down to the first dimension in which the range has more than one index; below that all of them may occur.
    for (const [i, size] of shape.entries()) {
      inner /= size;
      const [a, b] = [Math.floor(from / inner), Math.floor(to / inner)];
      low += a * strides[i]!;
      high += b * strides[i]!;
      if (a !== b) {
        for (let j = i + 1; j < shape.length; j++) high += (shape[j]! - 1) * strides[j]!;
        return [low, high];
      }
      [from, to] = [from % inner, to % inner];
    }
    return [low, high];
  }

  *of(first: number, count: number): Generator<number> {
    const { offset, shape, strides } = this.#tensor;
    const index = shape.map(() => 0);
    let rest = first;
    for (let i = shape.length - 1; i >= 0; i--) {
      index[i] = rest % shape[i]!;
      rest = Math.floor(rest / shape[i]!);
    }
    let place = index.reduce((sum, at, i) => sum + at * strides[i]!, offset);
    for (let done = 0; done < count; done++) {
      yield place;
      for (let i = shape.length - 1; i >= 0; i--) {
        place += strides[i]!;
        if (++index[i]! < shape[i]!) break;
        place -= shape[i]! * strides[i]!;
        index[i] = 0;
      }
    }
  }
}

/** A stored entry: its bytes as they are, from `start` on. */
interface StoredEntry {
  readonly name: string;
  readonly start: number;
  readonly bytes: number;
  readonly crc32: number;
}

async function readEntries(path: string, handle: FileHandle, fileBytes: number): Promise<Map<string, StoredEntry>> {
  const entries = new Map<string, StoredEntry>();
  let zip: ZipFile | undefined;
  try {
    zip = await yauzl.fromFdPromise(handle.fd, { autoClose: false });
    if (zip.entryCount > mostEntries) throw new Error(`it has ${zip.entryCount} entries`);
    for await (const entry of zip.eachEntry()) {
      const { fileDataStart: start } = await zip.readLocalFileHeaderPromise(entry, { minimal: true });
      const stored = checkStored(path, entry, start, fileBytes);
      if (entries.has(stored.name)) throw new Error(`${shownName(stored.name)} is in it twice`);
      entries.set(stored.name, stored);
    }
    return entries;
  } catch (error) {
    if (error instanceof ModelError) throw error;
    throw new ModelError(
      `${path} cannot be read as a zip archive (${reasonOf(error)}); wanted a file of PyTorch's torch.save: it is damaged or not complete, fetch it again`,
      { cause: error },
    );
  }
}

function checkStored(path: string, entry: Entry, start: number, fileBytes: number): StoredEntry {
  const { fileName: name, uncompressedSize: bytes } = entry;
  if (entry.compressionMethod !== 0 || entry.isEncrypted())
    throw new ModelError(
      `${path}: ${shownName(name)} is compressed or encrypted; wanted stored bytes, as torch.save writes`,
    );
  if (start + bytes > fileBytes)
    throw new ModelError(
      `${path}: ${shownName(name)} ends at byte ${start + bytes} of ${fileBytes}: the file is truncated`,
    );
  return { name, start, bytes, crc32: entry.crc32 };
}

/** A small entry as a whole, compared with its checksum. */
async function readEntry(path: string, handle: FileHandle, entry: StoredEntry, most: number): Promise<Uint8Array> {
  const name = shownName(entry.name);
  if (entry.bytes > most) throw new ModelError(`${path}: ${name} has ${entry.bytes} bytes; wanted at most ${most}`);
  const bytes = await readFully(path, handle, entry.start, entry.bytes);
  if (crc32(bytes) !== entry.crc32)
    throw new ModelError(`${path}: ${name} is not what was written (its checksum differs): fetch it again`);
  return bytes;
}

async function checkByteOrder(path: string, handle: FileHandle, entry: StoredEntry | undefined): Promise<void> {
  if (entry === undefined) return;
  const order = Buffer.from(await readEntry(path, handle, entry, 100)).toString("latin1");
  if (order !== "little") throw new ModelError(`${path}: found byte order ${shownName(order)}; wanted little`);
}

/** The format from before PyTorch 1.6 begins with a pickled number of ten bytes. */
const oldBeginning = Buffer.from("80028a0a6cfc9c46f9206aa85019", "hex");

async function refuseOldFormat(path: string, handle: FileHandle, fileBytes: number): Promise<void> {
  const begin = await readFully(path, handle, 0, Math.min(oldBeginning.length, fileBytes));
  if (Buffer.compare(begin, oldBeginning) !== 0) return;
  throw new ModelError(
    `${path} is in PyTorch's format from before version 1.6, which is not read; where PyTorch is, write it anew: ` +
      `python3 -c 'import torch; f = ${JSON.stringify(path)}; torch.save(torch.load(f, map_location="cpu", weights_only=True), f)'`,
  );
}
