/** Ranks as processes of their own, driven call by call from a test, over memory that the test maps too. */
import { type ChildProcess, fork } from "node:child_process";
import { closeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { encode } from "../../src/device/encode.ts";
import { loadNative, type NativeFailure } from "../../src/device/native.ts";
import type { OpArgs, OpName, Segment } from "../../src/device/ops.ts";

const native = loadNative();
const workerPath = fileURLToPath(new URL("./rank-process.mjs", import.meta.url));
const addonPath = fileURLToPath(new URL("../../build/shunya.node", import.meta.url));
const firstDescriptor = 4;

interface Answer {
  id: number;
  value?: unknown;
  error?: Partial<NativeFailure> & { name: string; message: string };
}

/** One process; `call` runs a method of the native core in it. */
export class RankProcess {
  readonly process: ChildProcess;
  readonly #open = new Map<number, { resolve: (value: unknown) => void; reject: (error: unknown) => void }>();
  #calls = 0;

  /** @param descriptors are the child's descriptors 4, 5, ... in this order */
  constructor(descriptors: readonly number[]) {
    this.process = fork(workerPath, [addonPath], {
      serialization: "advanced",
      execArgv: [],
      stdio: ["ignore", "inherit", "inherit", "ipc", ...descriptors],
    });
    this.process.on("message", (message) => {
      const { id, value, error } = message as Answer;
      const call = this.#open.get(id);
      this.#open.delete(id);
      if (error) call?.reject(Object.assign(new Error(error.message), error));
      else call?.resolve(value);
    });
  }

  call<T>(method: string, ...args: unknown[]): Promise<T> {
    const id = this.#calls++;
    return new Promise<T>((resolve, reject) => {
      this.#open.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.process.send({ id, method, args });
    });
  }
}

/** Memory of `ranks` ranks and `groups` control regions, and the processes that share them. */
export class RankPool {
  readonly ranks: readonly RankProcess[];
  /** This process's mappings. */
  readonly arenas: readonly number[];
  readonly controls: readonly number[];
  readonly arenaBytes: number;
  readonly controlBytes: number;
  #nextControl = 0;

  constructor(ranks: number, groups: number, arenaBytes: number) {
    this.arenaBytes = arenaBytes;
    this.controlBytes = native.controlBytes(ranks);
    const controls = Array.from({ length: groups }, () => native.createSharedMemory(this.controlBytes));
    const arenas = Array.from({ length: ranks }, () => native.createSharedMemory(arenaBytes));
    this.controls = controls.map((descriptor) => native.openRegion(descriptor, this.controlBytes));
    this.arenas = arenas.map((descriptor) => native.openRegion(descriptor, arenaBytes));
    this.ranks = Array.from({ length: ranks }, () => new RankProcess([...controls, ...arenas]));
    for (const descriptor of [...controls, ...arenas]) closeSync(descriptor);
  }

  /** A fresh group of the first `world` ranks, with a queue in each. */
  async group(world: number, deadlineMs = 10_000, threads = 1): Promise<TestGroup> {
    const control = this.#nextControl++;
    if (control >= this.controls.length)
      throw new Error(`the pool has control memory for ${this.controls.length} groups`);
    const members = await Promise.all(
      this.ranks.slice(0, world).map(async (process, rank) => {
        const controlRegion = await process.call<number>("openRegion", firstDescriptor + control, this.controlBytes);
        const arenas: number[] = [];
        for (let r = 0; r < world; r++) {
          const descriptor = firstDescriptor + this.controls.length + r;
          arenas.push(await process.call<number>("openRegion", descriptor, this.arenaBytes));
        }
        const group = await process.call<number>("createGroup", rank, world, controlRegion, arenas, deadlineMs);
        const queue = await process.call<number>("createQueue", threads);
        return { process, rank, group, queue, arena: arenas[rank]! };
      }),
    );
    return new TestGroup(members, this.controls[control]!, this.arenas);
  }

  close(): void {
    for (const { process } of this.ranks) process.kill("SIGKILL");
    for (const region of [...this.controls, ...this.arenas]) native.closeRegion(region);
  }
}

export interface Member {
  readonly process: RankProcess;
  readonly rank: number;
  readonly group: number;
  readonly queue: number;
  readonly arena: number;
}

/** A piece of a collective by byte offsets in the rank's arena. */
export interface Piece {
  readonly whole: number;
  readonly own: number;
  readonly stride: number;
  readonly start: number;
  readonly count: number;
}

export class TestGroup {
  readonly members: readonly Member[];
  readonly control: number;
  readonly #arenas: readonly number[];

  constructor(members: readonly Member[], control: number, arenas: readonly number[]) {
    this.members = members;
    this.control = control;
    this.#arenas = arenas;
  }

  /** Issues an op in one rank; resolves with its sequence number. `fields` of this rank's group are filled in. */
  issue<K extends OpName>(member: Member, name: K, fields: Omit<OpArgs<K>, "group">): Promise<number> {
    const call = encode(name, { ...fields, group: member.group } as unknown as OpArgs<K>, null);
    return member.process.call<number>("issue", member.queue, call.code, call.values.slice());
  }

  async run<K extends OpName>(member: Member, name: K, fields: Omit<OpArgs<K>, "group">): Promise<void> {
    const sequence = await this.issue(member, name, fields);
    await member.process.call("reached", member.queue, sequence);
  }

  /** The same call in every rank. */
  async all<K extends OpName>(name: K, fields: (member: Member) => Omit<OpArgs<K>, "group">): Promise<void> {
    await Promise.all(this.members.map((member) => this.run(member, name, fields(member))));
  }

  segments(member: Member, pieces: readonly Piece[]): Segment[] {
    return pieces.map(({ whole, own, ...sizes }) => ({
      whole: { region: member.arena, offset: whole },
      own: { region: member.arena, offset: own },
      ...sizes,
    }));
  }

  write(rank: number, offset: number, bytes: Uint8Array): void {
    native.writeRegion(this.#arenas[rank]!, offset, bytes);
  }

  read(rank: number, offset: number, length: number): Uint8Array {
    const into = new Uint8Array(length);
    native.readRegion(this.#arenas[rank]!, offset, into);
    return into;
  }

  /** What each rank's promise was rejected with (undefined where it was not). */
  async failures(promises: readonly Promise<unknown>[]): Promise<(NativeFailure | undefined)[]> {
    const settled = await Promise.allSettled(promises);
    return settled.map((s) => (s.status === "rejected" ? (s.reason as NativeFailure) : undefined));
  }
}
