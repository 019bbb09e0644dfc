/**
 * Python's pickles (protocols 2 to 5), read as data. A pickle is a program for a small stack machine, and Python's own reader
 * lets it import and call anything. Here it may build plain values and what the caller lists by name; every other name is an
 * error at its place, and nothing of it is ever carried out.
 *
 * None is null, an int a number (a bigint beyond 2^53), bytes a Uint8Array, a list an array, a tuple a frozen array, a dict a Map,
 * an object of an allowed class a PickleObject. Hostile input costs time and memory in proportion to its length: no instruction
 * makes more than it consumes, there are at most so many, constructors that copy have a budget, and a value that is finished
 * cannot be changed, so that no value contains itself.
 */
import { PickleBytes, shownName } from "./pickle-bytes.ts";
import {
  type Construction,
  type Constructor,
  describeValue,
  isBuildable,
  isContainer,
  isKey,
  isList,
  isMap,
  isTuple,
  PickleConstant,
  PickleGlobal,
  PickleObject,
} from "./pickle-values.ts";

export interface PickleOptions {
  /** How errors name the pickle. */
  readonly path: string;
  /** What may be named, by `module name`: as constructors, or as other values to be passed on. */
  readonly globals: ReadonlyMap<string, Constructor | PickleConstant>;
  /** What stands for a thing that is kept outside of the pickle. Undefined: there is none. */
  readonly persistent?: Constructor;
}

/** @throws ModelError that says what was found at which byte */
export function readPickle(bytes: Uint8Array, options: PickleOptions): unknown {
  return new Machine(new PickleBytes(options.path, bytes), options).run();
}

type Instruction = (machine: Machine) => void;

/** Some 25 build a tensor of a state dict; a value takes up to 300 bytes of memory. */
const mostInstructions = 2_000_000;

class Machine {
  readonly bytes: PickleBytes;
  readonly #options: PickleOptions;
  readonly #stack: unknown[] = [];
  /** Lengths of the stack where marks stand. */
  readonly #marks: number[] = [];
  readonly #memo = new Map<number, unknown>();
  /** Containers that stand on the stack where they were made: these alone may still be filled. */
  readonly #open = new Set<unknown>();
  readonly #construction: Construction = {
    spend: (count) => this.#spend(count),
    call: (callable, args) => this.#call(callable, args),
    error: (message) => this.bytes.error(message),
  };
  /** Values and bytes that may still be copied. */
  #budget: number;

  constructor(bytes: PickleBytes, options: PickleOptions) {
    this.bytes = bytes;
    this.#options = options;
    this.#budget = 4 * bytes.length;
  }

  run(): unknown {
    if (this.bytes.next() !== 0x80) throw this.bytes.error("found no protocol; wanted a pickle of protocol 2 to 5");
    const protocol = this.bytes.byte();
    if (protocol < 2 || protocol > 5) throw this.bytes.error(`found protocol ${protocol}; wanted 2 to 5`);
    for (let count = 0; ; count++) {
      const code = this.bytes.next();
      if (count === mostInstructions)
        throw this.bytes.error(`found more than ${mostInstructions} instructions: it is no checkpoint`);
      if (code === stopCode) return this.#result();
      const instruction = instructions[code];
      if (!instruction)
        throw this.bytes.error(`found the instruction 0x${code.toString(16).padStart(2, "0")}, which is not known`);
      instruction(this);
    }
  }

  push(value: unknown): void {
    this.#stack.push(value);
  }

  /** A container that is to be filled. */
  pushOpen(value: unknown): void {
    this.#open.add(value);
    this.#stack.push(value);
  }

  pop(): unknown {
    this.#need(1);
    const value = this.#stack.pop();
    this.#open.delete(value);
    return value;
  }

  mark(): void {
    this.#marks.push(this.#stack.length);
  }

  /** What was pushed since the last mark. */
  popMark(): unknown[] {
    const at = this.#marks.pop();
    if (at === undefined) throw this.bytes.error("found the end of a group that has not begun");
    const values = this.#stack.splice(at);
    for (const value of values) this.#open.delete(value);
    return values;
  }

  /** The container below, to be filled. */
  target<T>(isFitting: (value: unknown) => value is T, wanted: string): T {
    this.#need(1);
    const value = this.#stack.at(-1);
    if (!isFitting(value)) throw this.bytes.error(`found ${describeValue(value)}; wanted ${wanted}`);
    if (!this.#open.has(value)) throw this.bytes.error(`found ${wanted} that is changed after it was finished`);
    return value;
  }

  remember(key: number): void {
    this.#need(1);
    this.#memo.set(key, this.#stack.at(-1));
  }

  memoize(): void {
    this.remember(this.#memo.size);
  }

  recall(key: number): void {
    if (!this.#memo.has(key)) throw this.bytes.error(`found a reference to value ${key}, which there is not`);
    const value = this.#memo.get(key);
    if (this.#open.has(value)) throw this.bytes.error(`found ${describeValue(value)} that contains itself`);
    this.#stack.push(value);
  }

  global(module: unknown, name: unknown): void {
    if (typeof module !== "string" || typeof name !== "string")
      throw this.bytes.error(`found ${describeValue(module)} as a module's name`);
    const found = this.#options.globals.get(`${module} ${name}`);
    const full = shownName(`${module}.${name}`);
    if (found === undefined)
      throw this.bytes.error(
        `found ${full}; a pickle may run anything under such a name, so only tensors and plain values are read`,
      );
    this.#stack.push(found instanceof PickleConstant ? found.value : new PickleGlobal(full, found));
  }

  construct(callable: unknown, args: unknown): void {
    const value = this.#call(callable, args);
    if (isContainer(value)) this.pushOpen(value);
    else this.#stack.push(value);
  }

  #call(callable: unknown, args: unknown): unknown {
    if (!(callable instanceof PickleGlobal)) throw this.bytes.error(`found a call of ${describeValue(callable)}`);
    if (!isTuple(args))
      throw this.bytes.error(`found ${describeValue(args)} for ${callable.name}; wanted its arguments`);
    return callable.construct(args, this.#construction);
  }

  persistent(id: unknown): void {
    const { persistent } = this.#options;
    if (!persistent || !isTuple(id))
      throw this.bytes.error(`found ${describeValue(id)} as the name of what is outside`);
    this.#stack.push(persistent(id, this.#construction));
  }

  build(): void {
    const state = this.pop();
    const object = this.target(isBuildable, "an object");
    // What an OrderedDict or a tensor has beside its content (`_metadata` of a state dict) says nothing about the content.
    if (!(object instanceof PickleObject)) return;
    if (!isMap(state)) throw this.bytes.error(`found ${describeValue(state)} as attributes of ${object.className}`);
    this.#spend(state.size);
    for (const [key, value] of state) object.attributes.set(key, value);
  }

  setItems(values: readonly unknown[]): void {
    const map = this.target(isMap, "a dict");
    if (values.length % 2 === 1) throw this.bytes.error("found a key without a value");
    for (let i = 0; i < values.length; i += 2) {
      if (!isKey(values[i])) throw this.bytes.error(`found ${describeValue(values[i])} as the key of a dict`);
      map.set(values[i], values[i + 1]);
    }
  }

  #spend(count: number): void {
    this.#budget -= count;
    if (this.#budget < 0) throw this.bytes.error("found values that are copied over and over: it is no checkpoint");
  }

  #result(): unknown {
    const value = this.pop();
    if (this.#stack.length > 0) throw this.bytes.error(`found ${this.#stack.length} values besides the result`);
    return value;
  }

  /** Values above the last mark. */
  #need(count: number): void {
    const available = this.#stack.length - (this.#marks.at(-1) ?? 0);
    if (available < count) throw this.bytes.error("found an instruction for a value that there is not");
  }
}

const tuple = (...values: unknown[]): readonly unknown[] => Object.freeze(values);
const tupleOf =
  (count: 1 | 2 | 3): Instruction =>
  (machine) => {
    const values: unknown[] = [];
    for (let i = 0; i < count; i++) values.unshift(machine.pop());
    machine.push(tuple(...values));
  };
/** Python 2's text, of which nothing is known but the bytes. */
const byteText = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");

const stopCode = ".".charCodeAt(0);

/** By the code of each instruction; those of protocols 0 and 1 that no later one writes are left out. */
const named: Readonly<Record<string, Instruction>> = {
  "\x95": (m) => void m.bytes.uint64(), // a frame: how much could be read at once
  "(": (m) => m.mark(),
  "0": (m) => void m.pop(),
  "1": (m) => void m.popMark(),
  N: (m) => m.push(null),
  "\x88": (m) => m.push(true),
  "\x89": (m) => m.push(false),
  K: (m) => m.push(m.bytes.byte()),
  M: (m) => m.push(m.bytes.uint16()),
  J: (m) => m.push(m.bytes.int32()),
  "\x8a": (m) => m.push(m.bytes.integer(m.bytes.byte())),
  "\x8b": (m) => m.push(m.bytes.integer(m.bytes.uint32())),
  G: (m) => m.push(m.bytes.float64()),
  "\x8c": (m) => m.push(m.bytes.text(m.bytes.byte())),
  X: (m) => m.push(m.bytes.text(m.bytes.uint32())),
  "\x8d": (m) => m.push(m.bytes.text(m.bytes.uint64())),
  U: (m) => m.push(byteText(m.bytes.copy(m.bytes.byte()))),
  T: (m) => m.push(byteText(m.bytes.copy(m.bytes.uint32()))),
  C: (m) => m.push(m.bytes.copy(m.bytes.byte())),
  B: (m) => m.push(m.bytes.copy(m.bytes.uint32())),
  "\x8e": (m) => m.push(m.bytes.copy(m.bytes.uint64())),
  "\x96": (m) => m.push(m.bytes.copy(m.bytes.uint64())),
  "]": (m) => m.pushOpen([]),
  "}": (m) => m.pushOpen(new Map()),
  "\x8f": (m) => m.pushOpen([]),
  ")": (m) => m.push(tuple()),
  "\x85": tupleOf(1),
  "\x86": tupleOf(2),
  "\x87": tupleOf(3),
  t: (m) => m.push(Object.freeze(m.popMark())),
  "\x91": (m) => m.push(Object.freeze(m.popMark())),
  a: (m) => {
    const value = m.pop();
    m.target(isList, "a list").push(value);
  },
  e: (m) => appendAll(m, m.popMark()),
  "\x90": (m) => appendAll(m, m.popMark()),
  s: (m) => {
    const value = m.pop();
    m.setItems([m.pop(), value]);
  },
  u: (m) => m.setItems(m.popMark()),
  q: (m) => m.remember(m.bytes.byte()),
  r: (m) => m.remember(m.bytes.uint32()),
  "\x94": (m) => m.memoize(),
  h: (m) => m.recall(m.bytes.byte()),
  j: (m) => m.recall(m.bytes.uint32()),
  c: (m) => {
    const module = m.bytes.line();
    m.global(module, m.bytes.line());
  },
  "\x93": (m) => {
    const name = m.pop();
    m.global(m.pop(), name);
  },
  R: (m) => {
    const args = m.pop();
    m.construct(m.pop(), args);
  },
  "\x81": (m) => {
    const args = m.pop();
    m.construct(m.pop(), args);
  },
  b: (m) => m.build(),
  Q: (m) => m.persistent(m.pop()),
};

function appendAll(machine: Machine, values: readonly unknown[]): void {
  const list = machine.target(isList, "a list");
  for (const value of values) list.push(value);
}

const instructions: readonly (Instruction | undefined)[] = Array.from(
  { length: 256 },
  (_, code) => named[String.fromCharCode(code)],
);
