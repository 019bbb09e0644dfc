/**
 * Frozen tensors that came from a model folder. They never change and can be read there again, so a checkpoint needs only their name and
 * a digest. That is made of their fp32 values as the engine is filled, before they are rounded: so it costs no second read, and does not
 * depend on the precision of training. Each rank sums up its own range alone, and the ranks' parts are added.
 */
import type { Exchanger } from "../comm/group.ts";
import { loadNative } from "../device/native.ts";
import { piecesWithin } from "../plan/layout.ts";
import type { FlatState } from "./flat.ts";
import type { StateSource } from "./state.ts";

/** The digest of every tensor that stays in `folder`, by name: 64 bits, as 16 hexadecimal digits. */
export interface Base {
  readonly folder: string;
  readonly digests: ReadonlyMap<string, string>;
}

/** The digest of a tensor whose values come in parts, in any order, each once. */
export class TensorDigest {
  /** Below 2^64. */
  #sum = 0n;

  add(values: Float32Array, first: number): void {
    this.addSum(loadNative().elementDigest(values, first));
  }

  /** @param sum of other parts */
  addSum(sum: bigint): void {
    this.#sum = BigInt.asUintN(64, this.#sum + sum);
  }

  get sum(): bigint {
    return this.#sum;
  }

  get hex(): string {
    return this.#sum.toString(16).padStart(16, "0");
  }
}

interface OwnTensor {
  /** Elements [first, end) of the tensor are this rank's. */
  readonly first: number;
  readonly end: number;
  readonly digest: TensorDigest;
}

export class BaseTensors {
  /** Gives what the source gives, and notes of what it is. Undefined where there is none. */
  readonly source: StateSource | undefined;
  readonly #folder: string | undefined;
  /** In plan order, the same on every rank: also tensors of which this one owns nothing. */
  readonly #tensors = new Map<string, OwnTensor>();

  /** @param source of first values: what it gives of frozen tensors is in the base where it says in which folder */
  constructor(flats: readonly FlatState[], source: StateSource | undefined) {
    for (const { layout, own } of source?.folderOf ? flats : []) {
      if (layout.trainable) continue;
      const ranges = new Map(piecesWithin(layout, own.start, own.end).map((range) => [range.name, range]));
      for (const { name } of layout.pieces) {
        const folder = source!.folderOf!(name);
        this.#folder ??= folder;
        if (folder === undefined || folder !== this.#folder) continue;
        const { first, count } = ranges.get(name) ?? { first: 0, count: 0 };
        this.#tensors.set(name, { first, end: first + count, digest: new TensorDigest() });
      }
    }
    this.source = source && this.#tensors.size > 0 ? this.#noting(source) : source;
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  /** What all ranks read together; each calls it once it is filled. Undefined where nothing stays in a folder. */
  async agree(group: Exchanger): Promise<Base | undefined> {
    if (this.#folder === undefined) return undefined;
    const all = await group.exchange(
      Float64Array.from([...this.#tensors.values()].flatMap(({ digest }) => halvesOf(digest.sum))),
      "the digests of frozen parameters",
    );
    const digests = [...this.#tensors.keys()].map((name, i) => {
      const whole = new TensorDigest();
      for (const sums of all) whole.addSum(sumOf(sums[2 * i]!, sums[2 * i + 1]!));
      return [name, whole.hex] as const;
    });
    return { folder: this.#folder, digests: new Map(digests) };
  }

  #noting(source: StateSource): StateSource {
    return {
      has: (name, kind) => source.has(name, kind),
      read: async (name, kind, first, into) => {
        await source.read(name, kind, first, into);
        const tensor = this.#tensors.get(name);
        if (!tensor) return;
        const [from, end] = [Math.max(first, tensor.first), Math.min(first + into.length, tensor.end)];
        if (from < end) tensor.digest.add(into.subarray(from - first, end - first), from);
      },
    };
  }
}

/** As numbers that fp64 holds. */
const halvesOf = (sum: bigint): [high: number, low: number] => [Number(sum >> 32n), Number(sum & 0xffffffffn)];
const sumOf = (high: number, low: number): bigint => (BigInt(high) << 32n) | BigInt(low);
