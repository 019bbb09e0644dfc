/** Reads weights from a safetensors file by range; the file is never loaded as a whole. */

import { type FileHandle, open, stat } from "node:fs/promises";
import { type FloatType, floatBytes, toFloat32 } from "../device/halves.ts";
import { InternalError, ModelError } from "../errors/errors.ts";
import { reasonOf } from "../errors/system-error.ts";
import { readFully } from "./file-range.ts";
import { type Header, lengthBytes, maxHeaderBytes, parseHeader, type TensorEntry } from "./safetensors-header.ts";

export interface SafetensorsFile extends AsyncDisposable {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string>;
  /** Where the header ends and the first tensor may begin. */
  readonly dataStart: number;
  /** Bytes of elements [firstElement, firstElement + count) of a float tensor, as stored (little-endian). */
  read(name: string, firstElement: number, count: number): Promise<Uint8Array<ArrayBuffer>>;
  /** The same elements as fp32; F16 and BF16 convert exactly. */
  readFloat32(name: string, firstElement: number, count: number): Promise<Float32Array<ArrayBuffer>>;
  close(): Promise<void>;
}

/** Opens a file and checks its whole header. Throws ModelError that names the file, the tensor, what was found and wanted. */
export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  const fail = (error: NodeJS.ErrnoException): never => {
    throw new ModelError(`${path}: ${reasonOf(error)}`, { cause: error });
  };
  // Before opening: to open a pipe would wait for its writer.
  const found = await stat(path).catch(fail);
  if (!found.isFile()) throw new ModelError(`${path} is not a regular file; wanted a safetensors file`);
  const handle = await open(path, "r").catch(fail);
  try {
    if (found.size < lengthBytes) {
      throw new ModelError(`${path} has ${found.size} bytes; wanted at least ${lengthBytes}: the file is truncated`);
    }
    const length = new DataView((await readFully(path, handle, 0, lengthBytes)).buffer).getBigUint64(0, true);
    if (length > BigInt(maxHeaderBytes)) {
      throw new ModelError(
        `${path}: the header's length is ${length} bytes; wanted at most ${maxHeaderBytes}: not a safetensors file`,
      );
    }
    const dataStart = lengthBytes + Number(length);
    if (dataStart > found.size) {
      throw new ModelError(
        `${path} has ${found.size} bytes; wanted ${dataStart} for the header alone: the file is truncated`,
      );
    }
    const json = await readFully(path, handle, lengthBytes, Number(length));
    return new OpenFile(path, handle, dataStart, parseHeader(path, json, found.size - dataStart));
  } catch (error) {
    await handle.close();
    throw error;
  }
}

class OpenFile implements SafetensorsFile {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: ReadonlyMap<string, string>;
  readonly dataStart: number;
  readonly #handle: FileHandle;

  constructor(path: string, handle: FileHandle, dataStart: number, header: Header) {
    this.path = path;
    this.tensors = header.tensors;
    this.metadata = header.metadata;
    this.#handle = handle;
    this.dataStart = dataStart;
  }

  async read(name: string, firstElement: number, count: number): Promise<Uint8Array<ArrayBuffer>> {
    const entry = this.#entry(name);
    if (firstElement < 0 || count < 0 || firstElement + count > entry.elements) {
      throw new InternalError(
        `elements ${firstElement} to ${firstElement + count} of tensor ${name} with ${entry.elements}`,
      );
    }
    const size = floatBytes[floatType(this.path, entry)];
    return readFully(this.path, this.#handle, this.dataStart + entry.begin + firstElement * size, count * size);
  }

  async readFloat32(name: string, firstElement: number, count: number): Promise<Float32Array<ArrayBuffer>> {
    return toFloat32(await this.read(name, firstElement, count), floatType(this.path, this.#entry(name)));
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #entry(name: string): TensorEntry {
    const entry = this.tensors.get(name);
    if (entry === undefined) throw new ModelError(`${this.path}: no tensor ${name}`);
    return entry;
  }
}

function floatType(path: string, entry: TensorEntry): FloatType {
  if (Object.hasOwn(floatBytes, entry.dtype)) return entry.dtype as FloatType;
  throw new ModelError(`${path}: tensor ${entry.name}: found dtype ${entry.dtype}; wanted F32, F16 or BF16`);
}
