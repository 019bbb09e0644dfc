// Training checkpoints on disk: what a folder holds, damage of every sort, disks that refuse, and which one is found.
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { publishedSteps } from "../../src/checkpoint/checkpoint-folders.ts";
import { findTraining } from "../../src/checkpoint/find-training.ts";
import { openTraining } from "../../src/checkpoint/open-training.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { saveCheckpoint } from "../../src/checkpoint/save-training.ts";
import { entryName, manifestName, parseEntryName } from "../../src/checkpoint/training-manifest.ts";
import { CheckpointError, UsageError } from "../../src/errors/errors.ts";
import { initialize } from "../../src/index.ts";
import { createLogger } from "../../src/log/logger.ts";
import type { LanguageBatch } from "../../src/nn/models/gpt2.ts";
import type { Engine } from "../../src/zero/engine.ts";
import { batchOf } from "../laws/jobs.ts";
import { buildModel, gpt2 } from "../laws/models.ts";
import { engineOf, smallJob, trainStep } from "../zero/support.ts";
import { temporaryFolder } from "./files.ts";

const here = temporaryFolder();
const job = smallJob({
  config: {
    train_micro_batch_size_per_gpu: 2,
    bf16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 0.01 } },
  },
});
/** Checkpoints of steps 1 and 2, never changed. */
const good = join(here, "good");
const newest = join(good, "step-00000002");
const rankFile = "rank-0000-of-0001.safetensors";

beforeAll(async () => {
  await using engine = await engineOf({ job });
  for (let step = 0; step < 2; step++) {
    await trainStep(engine, job, step);
    await saveCheckpoint(engine, good, { run: { text: "what the user says" } });
  }
});
afterAll(() => rmSync(here, { recursive: true, force: true }));

const bytesOf = (values: Float32Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

let copies = 0;
/** A copy of both checkpoints that a test may break. */
function copyOfGood(): { folder: string; newest: string } {
  const folder = join(here, `copy-${copies++}`);
  cpSync(good, folder, { recursive: true });
  return { folder, newest: join(folder, "step-00000002") };
}

interface Resumed {
  readonly engine: Engine<LanguageBatch>;
  readonly said: string[];
}

async function resume(path: string, changes: { model?: object; config?: object; seed?: number; run?: object } = {}) {
  const said: string[] = [];
  const engine = await initialize<LanguageBatch>({
    model: buildModel(gpt2(changes.model), 0),
    config: { ...job.config, ...changes.config },
    resume: path,
    logger: createLogger({ rank: 0, write: (line) => said.push(line) }),
    threads: 1,
    ...(changes.seed !== undefined && { seed: changes.seed }),
    ...(changes.run && { run: changes.run as never }),
  });
  return { engine, said } satisfies Resumed;
}

describe("a checkpoint's folder", () => {
  test("holds one file a rank and a description in plain JSON, and nothing else", async () => {
    expect(readdirSync(good).sort()).toEqual(["step-00000001", "step-00000002"]);
    expect(readdirSync(newest).sort()).toEqual([manifestName, rankFile]);
    const manifest = JSON.parse(readFileSync(join(newest, manifestName), "utf8"));
    expect(manifest).toMatchObject({
      format: "shunya-checkpoint",
      formatVersion: 2,
      step: 2,
      worldSize: 1,
      seed: 42,
      nextSample: 4,
      progress: { attempted: 2, updates: 2, consecutiveSkips: 0 },
      config: { precision: "bf16", trainBatch: 2 },
      run: { text: "what the user says" },
      kinds: ["master", "firstMoment", "secondMoment"],
    });
    expect(manifest.tensors["transformer.h.0.mlp.c_fc.weight"] ?? manifest.tensors["h.0.mlp.c_fc.weight"]).toEqual({
      shape: [32, 128],
      dtype: "bf16",
      trainable: true,
    });
    await using file = await openSafetensors(join(newest, rankFile));
    expect(file.tensors.size).toBe(3 * Object.keys(manifest.tensors).length);
    for (const entry of file.tensors.values()) expect(entry).toMatchObject({ dtype: "F32", shape: [entry.elements] });
  });

  test("an entry's name is read back, whatever the tensor is called", () => {
    const name = "a|master|7.weight";
    expect(parseEntryName(entryName(name, "secondMoment", 12))).toEqual({ name, kind: "secondMoment", first: 12 });
    for (const wrong of ["a", "a|master", "a|unknown|0", "a|master|-1", "a|master|01", "|master|0"])
      expect(parseEntryName(wrong)).toBeUndefined();
  });

  test("is replaced where the same step is saved again; what was left behind goes", async () => {
    const { folder } = copyOfGood();
    mkdirSync(join(folder, ".step-00000009.partial-0123abcd"));
    mkdirSync(join(folder, ".step-00000002.replaced-0123abcd"));
    mkdirSync(join(folder, "mine"));
    const { engine } = await resume(folder);
    await using _ = engine;
    appendFileSync(join(folder, "step-00000002", rankFile), "damage");
    expect(await saveCheckpoint(engine, folder)).toMatchObject({ folder: join(folder, "step-00000002"), step: 2 });
    expect(readdirSync(folder).sort()).toEqual(["mine", "step-00000001", "step-00000002"]);
    const again = readFileSync(join(folder, "step-00000002", rankFile));
    expect(again.equals(readFileSync(join(newest, rankFile)))).toBe(true);
  });

  test("that was moved aside when the process ended is still the one of its step", async () => {
    const { folder } = copyOfGood();
    renameSync(join(folder, "step-00000002"), join(folder, ".step-00000002.replaced-0123abcd"));
    await using found = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
    expect(found.manifest.step).toBe(2);
    const { engine } = await resume(join(folder, "step-00000001"));
    await using _ = engine;
    await saveCheckpoint(engine, folder);
    expect(readdirSync(folder).sort()).toEqual(["step-00000001", "step-00000002"]);
  });

  test("keeps the newest, and the one that it is to keep in any case; later ones do not count", async () => {
    const { folder } = copyOfGood();
    const steps = (): string[] => readdirSync(folder).map((name) => name.replace("step-0000000", ""));
    // A later one, which the run passed over.
    cpSync(join(folder, "step-00000002"), join(folder, "step-00000009"), { recursive: true });
    rmSync(join(folder, "step-00000009", rankFile));
    const first = join(folder, "step-00000001");
    const { engine } = await resume(first);
    await using _ = engine;
    for (const wanted of ["1 2 9", "1 2 3 9", "1 3 4 9"]) {
      await trainStep(engine, job, engine.steps);
      await saveCheckpoint(engine, folder, { keep: 2, alsoKept: `${first}/` });
      expect(steps().sort().join(" ")).toBe(wanted);
    }
    await trainStep(engine, job, engine.steps);
    await saveCheckpoint(engine, folder, { keep: 1 });
    expect(steps().sort().join(" ")).toBe("5 9");
    // What could not be removed the last time goes now.
    mkdirSync(join(folder, ".step-00000001.removed-0123abcd"));
    expect(await publishedSteps(folder)).toHaveLength(2);
    await saveCheckpoint(engine, folder);
    expect(steps().sort().join(" ")).toBe("5 9");
    await expect(saveCheckpoint(engine, folder, { keep: 0 })).rejects.toThrow(/keep: found 0; wanted a whole number/);
  });

  test("holds tensors that are written and read in pieces as they are", async () => {
    const large = { ...job, model: gpt2({ vocabularySize: 70_001 }) };
    const folder = join(here, "large");
    await using engine = await engineOf({ job: large });
    await trainStep(engine, large, 0);
    await saveCheckpoint(engine, folder);
    const weights = new Map<string, Float32Array[]>();
    for await (const { name, values } of engine.weights()) weights.set(name, [...(weights.get(name) ?? []), values]);
    await using found = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
    const largest = Object.entries(found.manifest.tensors).find(([, { shape }]) => shape[0] === 70_001)!;
    const pieces = weights.get(largest[0])!;
    expect(pieces.map((p) => p.length)).toEqual([2 ** 20, 2 ** 20, 70_001 * 32 - 2 ** 21]);
    for (const [i, piece] of pieces.entries()) {
      const read = new Float32Array(piece.length);
      await found.states.read(largest[0], "master", i * 2 ** 20, read);
      expect(Buffer.compare(bytesOf(read), bytesOf(piece))).toBe(0);
    }
    const { engine: resumed } = await resume(folder, { model: { vocabularySize: 70_001 } });
    await using _ = resumed;
    const again = join(here, "large-again");
    await saveCheckpoint(resumed, again);
    const file = (of: string): Buffer => readFileSync(join(of, "step-00000001", rankFile));
    expect(file(again).equals(file(folder))).toBe(true);
  });

  test("is not made in the middle of a step", async () => {
    await using engine = await engineOf({ job });
    const loss = await engine.forward(batchOf(job, 0, 2));
    await expect(saveCheckpoint(engine, join(here, "never"))).rejects.toThrow(UsageError);
    await engine.backward(loss);
    await expect(saveCheckpoint(engine, join(here, "never"))).rejects.toThrow(/save it after engine.step/);
    expect(existsSync(join(here, "never"))).toBe(false);
  });
});

describe("damage is named, and never goes unnoticed", () => {
  const damages: readonly [string, (folder: string) => void, RegExp][] = [
    ["a missing file", (f) => rmSync(join(f, rankFile)), /rank-0000-of-0001.safetensors is missing/],
    [
      "a truncated file",
      (f) => truncateSync(join(f, rankFile), 5000),
      /has 5000 bytes; wanted \d+, as checkpoint.json/,
    ],
    ["a longer file", (f) => appendFileSync(join(f, rankFile), "x"), /has \d+ bytes; wanted/],
    ["no description", (f) => rmSync(join(f, manifestName)), /no checkpoint|has no checkpoint.json/],
    ["half a description", (f) => truncateSync(join(f, manifestName), 200), /checkpoint.json is not JSON/],
    ["another format", (f) => writeFileSync(join(f, manifestName), "{}"), /format: found nothing; wanted "shunya-/],
    [
      "a newer version",
      (f) => edit(f, '"formatVersion": 2', '"formatVersion": 3'),
      /formatVersion: found 3; this version reads 1 and 2: use the version/,
    ],
    [
      "a changed digit",
      (f) => edit(f, '"attempted": 2', '"attempted": 3'),
      /content has checksum .* damaged, or was edited/,
    ],
    ["a wrong type", (f) => edit(f, '"seed": 42', '"seed": "x"'), /seed: found "x"; wanted a whole number/],
    [
      "a path as a file's name",
      (f) => edit(f, `"${rankFile}"`, '"../x.safetensors"'),
      /files: found .* wanted a list of name/,
    ],
    [
      "the files of another step",
      (f) => cpSync(join(good, "step-00000001", rankFile), join(f, rankFile)),
      /has checksum .* not of this checkpoint/,
    ],
  ];
  const edit = (folder: string, from: string, to: string): void => {
    const path = join(folder, manifestName);
    const text = readFileSync(path, "utf8");
    expect(text).toContain(from);
    writeFileSync(path, text.replace(from, to));
  };

  for (const [name, damage, message] of damages)
    test(`${name}: an error of its own, or the checkpoint before it, loudly`, async () => {
      const { folder, newest } = copyOfGood();
      damage(newest);
      const error = await resume(newest).catch((e) => e);
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error.message).toMatch(message);
      expect(error.message).toContain("step-00000002");
      const { engine, said } = await resume(folder);
      await using _ = engine;
      expect(engine.steps).toBe(1);
      expect(said.join("")).toMatch(
        /^warning: an older checkpoint is taken, since .*step-00000002.*\nresuming after step 1 /s,
      );
    });

  test("any flipped bit of any file", async () => {
    const { newest } = copyOfGood();
    await using opened = await openTraining(newest);
    const unharmed = opened.manifest;
    for (const name of [manifestName, rankFile]) {
      const path = join(newest, name);
      const bytes = readFileSync(path);
      // Every byte of the small file and of the other's header, and some of its data.
      for (let at = 0; at < bytes.length; at += name === manifestName ? 97 : at < 12_000 ? 499 : 40_009) {
        const flipped = Buffer.from(bytes);
        flipped[at]! ^= 1 << (at % 8);
        writeFileSync(path, flipped);
        const outcome = await findTraining(newest, { onDamaged: () => {} }).then(
          async (found) => {
            await found[Symbol.asyncDispose]();
            return found.manifest;
          },
          (error) => error,
        );
        // White space between two fields may change and mean the same; of a rank's file every bit counts.
        if (outcome instanceof Error) expect(outcome).toBeInstanceOf(CheckpointError);
        else expect([name, outcome]).toEqual([manifestName, unharmed]);
      }
      writeFileSync(path, bytes);
    }
  });

  test("a flipped bit that is met while memory is filled: no engine, and the tensor's name", async () => {
    const { newest } = copyOfGood();
    const path = join(newest, rankFile);
    const bytes = readFileSync(path);
    for (const at of [100, Math.floor(bytes.length / 2), bytes.length - 1]) {
      const flipped = Buffer.from(bytes);
      flipped[at]! ^= 4;
      writeFileSync(path, flipped);
      const error = await resume(newest).catch((e) => e);
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error.message).toContain("step-00000002");
      if (at > 100) expect(error.message).toMatch(/it is damaged.*\n {2}bytes \d+ to \d+: .* of .*, elements/s);
    }
  });

  test("where nothing is, or nothing is undamaged, that is said", async () => {
    await expect(resume(join(here, "nowhere"))).rejects.toThrow(/nowhere does not exist; wanted a folder step-/);
    mkdirSync(join(here, "empty"));
    await expect(resume(join(here, "empty"))).rejects.toThrow(/empty is no checkpoint .* holds none/);
    const { folder, newest } = copyOfGood();
    for (const step of [newest, join(folder, "step-00000001")]) rmSync(join(step, rankFile));
    await expect(resume(folder)).rejects.toThrow(/none of the 2 checkpoints in .* is undamaged/);
  });
});

describe("what is not as it was", () => {
  test("another model or optimizer is an error that names the tensors and states", async () => {
    await expect(resume(newest, { model: { hidden: 64 } })).rejects.toThrow(
      /no checkpoint of this training:\n {2}tensor .*: found shape \[.*\]; wanted \[.*\]\n.*and \d+ more\nresume with the model/s,
    );
    await expect(resume(newest, { model: { layers: 1 } })).rejects.toThrow(/tensor .*h\.1\..*: not in the model/);
    await expect(resume(newest, { model: { layers: 3 } })).rejects.toThrow(/tensor .*h\.2\..*: not in the checkpoint/);
  });

  test("changed settings are named with the old and the new value, unchanged ones are not", async () => {
    const config = {
      optimizer: { type: "AdamW", params: { lr: 0.5 } },
      gradient_clipping: 0.25,
      zero_optimization: { stage: 2 },
      steps_per_print: 3,
    };
    const { engine, said } = await resume(newest, { config, seed: 7, run: { text: "other", more: 1 } });
    await engine[Symbol.asyncDispose]();
    const texts = said
      .filter((line) => line.startsWith("warning"))
      .map((line) => line.replace(/^.*?step-00000002: /, "").trim());
    expect(texts).toContain("seed was 42, now 7");
    expect(texts).toContain("gradientClipping was 1, now 0.25");
    expect(texts).toContain('text was "what the user says", now "other"');
    expect(texts).toContain("more was not set, now 1");
    expect(texts.some((text) => /^optimizer.learningRate was .*, now 0.5$/.test(text))).toBe(true);
    expect(texts.filter((text) => /stage|stepsPerPrint/.test(text))).toEqual([]);
    const same = await resume(newest);
    await same.engine[Symbol.asyncDispose]();
    expect(same.said).toEqual([`resuming after step 2 from ${newest}\n`]);
  });
});

describe("a disk that refuses", () => {
  afterEach(() => vi.restoreAllMocks());

  /** The operation fails as on a full disk once so many bytes are written. */
  async function fillDisk(afterBytes: number): Promise<void> {
    const probe: FileHandle = await open(join(newest, manifestName));
    const prototype = Object.getPrototypeOf(probe);
    await probe.close();
    const write = prototype.write;
    let written = 0;
    vi.spyOn(prototype, "write").mockImplementation(function (this: FileHandle, ...args: unknown[]) {
      written += (args[2] as number | undefined) ?? (args[0] as Uint8Array).length;
      if (written > afterBytes)
        return Promise.reject(Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" }));
      return write.apply(this, args);
    });
  }

  const total = (): number => readFileSync(join(newest, rankFile)).length;
  for (const [name, bytes] of [
    ["at once", () => 0],
    ["in the middle of a rank's file", () => total() / 2],
    ["in its description", () => 4096 * Math.ceil(total() / 4096) + 10],
  ] as const)
    test(`a disk that is full ${name}: those before stay, training can go on and save later`, async () => {
      const { folder } = copyOfGood();
      const { engine } = await resume(folder);
      await using _ = engine;
      await trainStep(engine, job, 2);
      await fillDisk(bytes());
      const error = await saveCheckpoint(engine, folder, { keep: 1 }).catch((e) => e);
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error.message).toMatch(
        /checkpoint of step 3 could not be saved, and those before it are as they were: .*ENOSPC/,
      );
      expect(readdirSync(folder).sort()).toEqual(["step-00000001", "step-00000002"]);
      vi.restoreAllMocks();
      await using before = await findTraining(folder, { onDamaged: (text) => expect.fail(text) });
      expect(before.manifest.step).toBe(2);
      await trainStep(engine, job, 3);
      expect(await saveCheckpoint(engine, folder)).toMatchObject({ step: 4 });
    });

  test("a folder that cannot be made", async () => {
    await using engine = await engineOf({ job });
    const folder = join(newest, manifestName, "below-a-file");
    await expect(saveCheckpoint(engine, folder)).rejects.toThrow(
      /step 0 could not be saved.*below-a-file cannot be made/,
    );
  });
});
