/**
 * The device seam: memory with a ledger, and ops issued to queues. An op is checked and issued in program order and returns at
 * once; a queue runs it; an event orders one queue after another; JavaScript awaits an event only where it needs a value.
 *
 * A device is this class over a backend. The CPU backend runs the native kernels; the simulated one allocates and computes
 * nothing. Ledger, placement, scratch and ordering are here, so the two cannot differ in them.
 */
import { DisposedError, InternalError, MemoryBudgetError } from "../errors/errors.ts";
import { Arena } from "./arena.ts";
import { type DType, dtypeBytes } from "./dtype.ts";
import { encode, regionsOf, scratchKey } from "./encode.ts";
import type { TagNames } from "./failure.ts";
import { type MemoryLabel, MemoryLedger, type Tier } from "./ledger.ts";
import { LockedMemory, type LockReport } from "./locked-memory.ts";
import { operationsOf } from "./operations.ts";
import { type OpArgs, type OpName, opFields, type Span } from "./ops.ts";
import { type Event, type QueueName, queueNames, queueTiers } from "./queue.ts";
import { diskAlignmentBytes, type SwapOptions } from "./swap.ts";
import { Timeline } from "./timeline.ts";
import { TrafficLedger } from "./traffic.ts";

/** What runs the ops. Sequence numbers count from 1 on each queue. */
export interface Backend {
  readonly name: "cpu" | "simulated";
  /** Words for the tags of collectives in error messages. */
  tagNames: TagNames;
  /** Region handle of a tier's memory. */
  region(tier: Tier): number;
  issue(queue: QueueName, op: IssuedOp): number;
  scratchBytes(queue: QueueName, op: number, args: Float64Array): number;
  wait(queue: QueueName, event: Event): number;
  reached(event: Event): Promise<void>;
  /** Copies bytes out; on a backend that holds none, `declared` is what is read. */
  read(span: Span, into: Uint8Array, declared: Uint8Array): void;
  /** Locks whole pages of a tier's memory; false if the system refuses. */
  lock(from: Span, bytes: number): boolean;
  /** An op that copies `from`, whose bytes are taken at once. */
  upload(queue: QueueName, to: Span, from: Uint8Array): number;
  /** Microseconds on the clock of the queues. */
  now(): number;
  /** Switches a queue's clock. @returns what it measured since the last call: [sequence, start, end] triples in microseconds */
  measure(queue: QueueName, enabled: boolean): Float64Array;
  /** Makes the disk tier. @returns how ops name it, how much of it lies in host memory, and what the user should be told */
  openDisk(options: DiskOptions): Promise<OpenedDisk>;
  dispose(): void;
}

/** An op and how it is written for the native core. */
export interface IssuedOp<K extends OpName = OpName> {
  readonly name: K;
  readonly args: OpArgs<K>;
  readonly code: number;
  readonly values: Float64Array;
}

export type DiskOptions = Omit<SwapOptions, "shares">;

export interface OpenedDisk {
  readonly swap: number;
  readonly memoryBytes: number;
  readonly notices: readonly string[];
}

/** Bytes of the disk tier. */
export interface DiskRange {
  /** In words. */
  readonly what: string;
  readonly offset: number;
  readonly bytes: number;
}

export interface DeviceOptions {
  readonly backend: Backend;
  /** Address space of the device tier in bytes; costs nothing until used. */
  readonly arenaBytes: number;
  readonly budgets?: Partial<Record<Tier, number>>;
  /** What to do where a budget does not hold; left out: what helps a training. */
  readonly budgetAdvice?: string | undefined;
}

/** One allocation. Freed by `Device.free`, in the order of the queue that uses it last. */
export class DeviceBuffer {
  readonly tier: Tier;
  readonly label: MemoryLabel;
  readonly bytes: number;
  readonly #span: Span;
  #freed = false;

  constructor(tier: Tier, label: MemoryLabel, bytes: number, span: Span) {
    this.tier = tier;
    this.label = label;
    this.bytes = bytes;
    this.#span = span;
  }

  get freed(): boolean {
    return this.#freed;
  }

  /** The address `offsetBytes` into the buffer. @throws DisposedError after it was freed */
  at(offsetBytes = 0): Span {
    if (this.#freed) throw new DisposedError(`a ${this.label} buffer of ${this.bytes} bytes`, "keep it alive longer");
    return offsetBytes === 0 ? this.#span : { region: this.#span.region, offset: this.#span.offset + offsetBytes };
  }

  /** @internal marks it freed and tells where it lay */
  retire(): number {
    if (this.#freed) throw new InternalError(`a ${this.label} buffer of ${this.bytes} bytes was freed twice`);
    this.#freed = true;
    return this.#span.offset;
  }
}

export class Device {
  readonly ledger: MemoryLedger;
  readonly traffic = new TrafficLedger();
  readonly timeline = new Timeline(
    (queue, enabled) => this.#backend.measure(queue, enabled),
    () => this.#backend.now(),
  );
  /** Offsets of buffers and of tensors in flat buffers are multiples of this many bytes. */
  readonly alignmentBytes = 256;
  readonly #backend: Backend;
  readonly #arenas: Record<Tier, Arena>;
  readonly #last = Object.fromEntries(queueNames.map((q) => [q, 0])) as Record<QueueName, number>;
  #hasFailed = false;
  #swap = -1;
  #locked: LockedMemory;
  readonly #scratchSizes = new Map<string, number>();

  constructor(options: DeviceOptions) {
    this.#backend = options.backend;
    this.ledger = new MemoryLedger(options.budgets, options.budgetAdvice);
    const arena = (alignmentBytes = this.alignmentBytes): Arena => new Arena(options.arenaBytes, alignmentBytes);
    this.#arenas = { device: arena(), host: arena(), disk: arena(diskAlignmentBytes) };
    this.#locked = this.#lockedMemory(new Set());
  }

  get name(): Backend["name"] {
    return this.#backend.name;
  }

  /** Whether values exist: on a simulated device they are declared, not computed. */
  get computes(): boolean {
    return this.#backend.name !== "simulated";
  }

  /** Collectives are known by tags; whoever makes them names them. */
  nameTags(names: TagNames): void {
    this.#backend.tagNames = names;
  }

  /**
   * @param queue the queue that touches the memory first; it waits for the previous owner's ops on other queues
   * @throws MemoryBudgetError when the tier's budget does not hold it
   */
  allocate(label: MemoryLabel, bytes: number, queue: QueueName = "compute", tier: Tier = "device"): DeviceBuffer {
    const arena = this.#arenas[tier];
    const size = arena.roundUp(bytes);
    if (!arena.hasRoom(size)) {
      const all = arena.capacityBytes;
      throw new MemoryBudgetError(
        tier,
        size,
        all,
        `${size} bytes for ${label} do not fit the ${all} bytes of ${tier} memory`,
      );
    }
    this.ledger.allocate(tier, label, size);
    const { offset, fences } = arena.take(size);
    for (const fence of fences) this.wait(queue, fence);
    if (tier === "host") this.#locked.add(label, offset, size);
    return new DeviceBuffer(tier, label, size, { region: this.#backend.region(tier), offset });
  }

  /** The memory may be reused once `queue`, which used it last, has done what it was given so far. */
  free(buffer: DeviceBuffer, queue: QueueName = "compute"): void {
    this.#arenas[buffer.tier].give(buffer.retire(), buffer.bytes, [this.mark(queue)]);
    this.ledger.free(buffer.tier, buffer.label, buffer.bytes);
  }

  /** Host memory of these kinds is page-locked when it is allocated from now on (`pin_memory`), as far as the system lets it. */
  lockHost(kinds: ReadonlySet<MemoryLabel>): void {
    this.#locked = this.#lockedMemory(kinds);
  }

  get locked(): LockReport {
    return this.#locked;
  }

  /** Issues an op. Returns the event of its completion. @throws RangeError when a range leaves its memory */
  issue<K extends OpName>(queue: QueueName, name: K, args: OpArgs<K>): Event {
    const tiers: readonly Tier[] = queueTiers[queue];
    if (!regionsOf(name, args).every((region) => tiers.some((tier) => this.#backend.region(tier) === region)))
      throw new InternalError(
        `${name} on the ${queue} queue was given memory of another tier; tiers are crossed by copies`,
      );
    const scratch = "scratch" in opFields[name] ? this.#scratch(queue, name, args) : undefined;
    const { code, values } = encode(name, args, scratch?.at() ?? null);
    const event = { queue, sequence: this.#backend.issue(queue, { name, args, code, values }) };
    this.#last[queue] = event.sequence;
    this.timeline.noteOp(event, name, args);
    if (scratch) this.free(scratch, queue);
    this.traffic.addOperations(operationsOf(name, args));
    return event;
  }

  /** Everything given to `queue` so far. */
  mark(queue: QueueName): Event {
    return { queue, sequence: this.#last[queue] };
  }

  /** Later ops of `queue` start after `event`. */
  wait(queue: QueueName, event: Event): void {
    if (event.queue === queue || event.sequence === 0) return;
    const sequence = this.#backend.wait(queue, event);
    this.#last[queue] = sequence;
    this.timeline.noteWait({ queue, sequence }, event);
  }

  /**
   * Issues a counted copy between the device and the host.
   * @param count elements @param queue down: from the device, up: to it
   */
  cross(queue: "down" | "up", from: Span, to: Span, count: number, dtype: DType): Event {
    const [source, target] = queue === "down" ? (["device", "host"] as const) : (["host", "device"] as const);
    if (from.region !== this.#backend.region(source) || to.region !== this.#backend.region(target))
      throw new InternalError(`a copy ${queue} goes from the ${source} to the ${target}`);
    const sent = queue === "down" ? count : 0;
    this.traffic.add(queue, sent, count - sent, dtypeBytes[dtype]);
    return this.issue(queue, "copy", { bytes: count * dtypeBytes[dtype], src: from, dst: to });
  }

  /** Makes the disk tier with room for what was allocated in it. @returns what the user should be told */
  async openDisk(options: Omit<DiskOptions, "capacityBytes">): Promise<readonly string[]> {
    const capacityBytes = this.#arenas.disk.highWaterBytes;
    if (capacityBytes === 0) return [];
    const { swap, memoryBytes, notices } = await this.#backend.openDisk({ ...options, capacityBytes });
    this.#swap = swap;
    this.ledger.reserve("host", memoryBytes);
    return notices;
  }

  /** Issues a counted transfer between a range of the disk tier and host memory. */
  disk(queue: "diskRead" | "diskWrite", range: DiskRange, host: Span): Event {
    const { what, offset, bytes } = range;
    const sent = queue === "diskWrite" ? bytes : 0;
    this.traffic.add(queue, sent, bytes - sent, 1); // a disk knows no elements
    return this.timeline.within(`${what} of ${this.timeline.scope}`, () =>
      queue === "diskRead"
        ? this.#diskRead(range, host)
        : this.issue(queue, "diskWrite", { swap: this.#swap, offset, bytes, src: host }),
    );
  }

  /** Reads a range of the disk tier aside of training: it stands in no step's traffic. */
  diskLook(range: DiskRange, host: Span): Event {
    return this.timeline.aside(`${range.what} that are kept`, () => this.#diskRead(range, host));
  }

  /** Resolves when `event` has happened; rejects with the error of the op that failed at or before it. */
  async reached(event: Event): Promise<void> {
    if (event.sequence === 0) return;
    const waited = this.timeline.noteProgramWait(event);
    await this.reachedAside(event);
    waited();
  }

  /** The same for work that runs aside of the program's own calls: its waiting holds nothing up. */
  async reachedAside(event: Event): Promise<void> {
    if (event.sequence === 0) return;
    try {
      await this.#backend.reached(event);
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    }
  }

  /** An op failed and somebody who waited was told; whoever waits after that hears the same again. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Reads `count` elements once everything given to `queue` has happened. `declared` is the answer of a simulated device. */
  async read(
    span: Span,
    dtype: DType,
    count: number,
    declared: ArrayBufferView,
    queue: QueueName = "compute",
  ): Promise<Uint8Array> {
    await this.reached(this.mark(queue));
    const bytes = new Uint8Array(count * dtypeBytes[dtype]);
    this.#backend.read(span, bytes, new Uint8Array(declared.buffer, declared.byteOffset, declared.byteLength));
    return bytes;
  }

  /** Fills `into` with what is there now: the caller knows that nothing that was issued still writes it. */
  look(span: Span, into: Uint8Array): void {
    this.#backend.read(span, into, into);
  }

  /** Issues a copy of host bytes to the device; `from` may be reused at once. */
  upload(to: Span, from: ArrayBufferView, queue: QueueName = "compute"): Event {
    const bytes = new Uint8Array(from.buffer, from.byteOffset, from.byteLength);
    const event = { queue, sequence: this.#backend.upload(queue, to, bytes) };
    this.#last[queue] = event.sequence;
    this.timeline.noteOp(event, "upload");
    return event;
  }

  dispose(): void {
    this.timeline.drain();
    this.#backend.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #diskRead({ offset, bytes }: DiskRange, host: Span): Event {
    return this.issue("diskRead", "diskRead", { swap: this.#swap, offset, bytes, dst: host });
  }

  #lockedMemory(kinds: ReadonlySet<MemoryLabel>): LockedMemory {
    const region = this.#backend.region("host");
    return new LockedMemory(kinds, (offset, bytes) => this.#backend.lock({ region, offset }, bytes));
  }

  #scratch<K extends OpName>(queue: QueueName, name: K, args: OpArgs<K>): DeviceBuffer | undefined {
    const key = scratchKey(name, args);
    let bytes = this.#scratchSizes.get(key);
    if (bytes === undefined) {
      const { code, values } = encode(name, args, null);
      bytes = this.#backend.scratchBytes(queue, code, values);
      this.#scratchSizes.set(key, bytes);
    }
    return bytes > 0 ? this.allocate("scratch", bytes, queue, queueTiers[queue][0]) : undefined;
  }
}
