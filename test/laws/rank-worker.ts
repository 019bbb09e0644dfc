// One rank process of the laws: trains what it is sent, in a world of as many ranks as it is told, and answers with what
// happened. It lives through many jobs, since starting a process costs more than most jobs do.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { openAdapterFolder, withAdapter } from "../../src/checkpoint/adapter-folder.ts";
import { withBaseTogether } from "../../src/checkpoint/base-weights.ts";
import { findTraining, resumePointOf } from "../../src/checkpoint/find-training.ts";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import type { TrainingCheckpoint } from "../../src/checkpoint/open-training.ts";
import { saveCheckpoint } from "../../src/checkpoint/save-training.ts";
import { ProcessGroup } from "../../src/comm/group.ts";
import { SharedMemoryTransport } from "../../src/comm/shared-memory.ts";
import { CpuBackend } from "../../src/device/cpu.ts";
import { Device, type DeviceBuffer } from "../../src/device/device.ts";
import { loadNative } from "../../src/device/native.ts";
import type { ProgramSpan, QueueSpan } from "../../src/device/timeline.ts";
import { ShunyaError } from "../../src/errors/errors.ts";
import { generateTokens } from "../../src/generation/tokens.ts";
import { joinLaunched } from "../../src/launch/join.ts";
import type { LanguageBatch, LanguageModel } from "../../src/nn/models/language-model.ts";
import { Engine } from "../../src/zero/engine.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import { holdSaves } from "../checkpoint/held-disk.ts";
import {
  batchOf,
  configOf,
  type Generated,
  type Job,
  type RankAnswer,
  type SavingAnswer,
  stepTargetsOf,
  type TraceEntry,
} from "./jobs.ts";
import { buildModel, type LawModel, vocabularyOf } from "./models.ts";

/** What the pool sends: first one rank clears the control memory, then all ranks of the world train. */
export type PoolMessage =
  | { readonly type: "clear" }
  | { readonly type: "train"; readonly job: Job; readonly worldSize: number };

/** An update that waits for nothing has overwritten what is to be saved by then; one that waits waits as long as it must. */
const heldMs = 200;

const launched = joinLaunched()!;
const native = loadNative();
const { rank, descriptors, arenaBytes } = launched;

function clearControl(): void {
  const bytes = native.controlBytes(launched.worldSize);
  const control = native.openRegion(descriptors.control, bytes);
  native.writeRegion(control, 0, new Uint8Array(bytes));
  native.closeRegion(control);
}

/** This rank's device and group in a world of the first `worldSize` ranks. */
function joinGroup(job: Job, worldSize: number) {
  const control = native.openRegion(descriptors.control, native.controlBytes(worldSize));
  const arenas = descriptors.arenas.slice(0, worldSize).map((fd) => native.openRegion(fd, arenaBytes));
  const backend = new CpuBackend({ threads: job.threads ?? 1, deviceRegion: arenas[rank]!, arenaBytes });
  const { deviceMemoryBytes } = job;
  const budgets = deviceMemoryBytes === undefined ? {} : { device: deviceMemoryBytes };
  const device = new Device({ backend, arenaBytes, budgets });
  const transport = new SharedMemoryTransport({
    rank,
    worldSize,
    control,
    arenas,
    deadlineMs: job.deadlineMs ?? 20_000,
    describeTag: (tag) => backend.tagNames(tag),
  });
  const close = (): void => {
    // The device closes this rank's own arena.
    for (const region of [control, ...arenas.filter((_, r) => r !== rank)]) native.closeRegion(region);
  };
  return { device, transport, close };
}

/** Notes which unit is gathered and which is released, from now on. */
function traceGathers(engine: Engine<LanguageBatch>): TraceEntry[] {
  const trace: TraceEntry[] = [];
  const { device, group } = engine;
  const allocate = device.allocate.bind(device);
  const free = device.free.bind(device);
  const allGather = group.allGather.bind(group);
  // A gather first makes its buffers and then calls the other ranks, which names the unit.
  let unnamed: DeviceBuffer[] = [];
  const unitOf = new Map<DeviceBuffer, string>();
  device.allocate = (label, ...rest) => {
    const buffer = allocate(label, ...rest);
    if (label === "gathered") unnamed.push(buffer);
    return buffer;
  };
  device.free = (buffer, ...rest) => {
    const unit = unitOf.get(buffer);
    const last = trace.at(-1);
    const isNoted = last?.what === "release" && last.unit === unit;
    if (unit !== undefined && !isNoted) trace.push({ what: "release", unit });
    free(buffer, ...rest);
  };
  group.allGather = (segments, dtype, words) => {
    const unit = words.replace(/^.*unit /, "");
    for (const buffer of unnamed) unitOf.set(buffer, unit);
    if (unnamed.length > 0) trace.push({ what: "gather", unit });
    unnamed = [];
    return allGather(segments, dtype, words);
  };
  return trace;
}

function recordTimeline(engine: Engine<LanguageBatch>): NonNullable<RankAnswer["timeline"]> {
  const [queues, program]: [QueueSpan[], ProgramSpan[]] = [[], []];
  engine.device.timeline.record({
    queues: (spans) => queues.push(...spans),
    program: (spans) => program.push(...spans),
  });
  return { queues, program };
}

/** Bytes of the ranks' shared memory that this process is charged with by the system (proportional set size). */
function residentBytes(): number {
  let counts = false;
  let kibibytes = 0;
  for (const line of readFileSync("/proc/self/smaps", "utf8").split("\n")) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) counts = line.includes("memfd:shunya");
    else if (counts && line.startsWith("Pss:")) kibibytes += Number(/\d+/.exec(line)![0]);
  }
  return kibibytes * 1024;
}

/** Where only memory counts, drawing random weights would take most of the time. */
const zeros = {
  has: () => true,
  read: async (_name: string, _first: number, count: number) => new Float32Array(count),
};

async function train(job: Job, worldSize: number): Promise<RankAnswer> {
  const config = configOf(job.config, worldSize);
  const folder = job.modelFolder === undefined ? undefined : await openModelFolder(job.modelFolder);
  const adapter =
    folder && job.adapterFolder !== undefined ? await openAdapterFolder(job.adapterFolder, folder.config) : undefined;
  const weights = folder?.weights && (adapter ? withAdapter(folder.weights, adapter.weights) : folder.weights);
  const { device, transport, close } = joinGroup(job, worldSize);
  const stop = new AbortController();
  let engine: Engine<LanguageBatch> | undefined;
  let saved: TrainingCheckpoint | undefined;
  let isEngines = false; // whose device and transport are: an engine that cannot be made closes them itself
  try {
    if (job.resume !== undefined) {
      const group = new ProcessGroup(device, transport);
      saved = await findTraining(job.resume, { group, onDamaged: () => {}, checksAsRead: true });
      saved = await withBaseTogether(group, saved, weights);
    }
    isEngines = true;
    const model = buildModel(job.model, rank);
    engine = await Engine.create<LanguageBatch>({
      model,
      config,
      device,
      transport,
      signal: stop.signal,
      ...(job.row && { row: job.row }),
      ...(weights && { weights }),
      ...(job.wantsResidentBytes && { weights: zeros }),
      ...(saved && { resume: resumePointOf(saved) }),
    });
    const answer = await trainWith(engine, model, job, stop);
    await engine[Symbol.asyncDispose]();
    return answer;
  } catch (error) {
    // What made training fail may make the orderly end fail as well; the first of the two is the answer.
    if (engine) await engine[Symbol.asyncDispose]().catch(() => undefined);
    else if (!isEngines) {
      transport.dispose();
      device.dispose();
    }
    return failed(error);
  } finally {
    await adapter?.[Symbol.asyncDispose]();
    await folder?.close();
    await saved?.[Symbol.asyncDispose]();
    close();
  }
}

async function trainWith(
  engine: Engine<LanguageBatch>,
  model: LawModel,
  job: Job,
  stop: AbortController,
): Promise<RankAnswer> {
  const records: StepRecord[] = [];
  let trace: TraceEntry[] | undefined;
  const timeline = job.wantsTimeline ? recordTimeline(engine) : undefined;
  const generated = await generateWhereAsked(engine, model, job);
  await saveWhereAsked(engine, job);
  let saving: SavingAnswer | undefined;
  for (let step = engine.steps; step < job.steps; step++) {
    if (job.death?.rank === rank && job.death.step === step) process.kill(process.pid, "SIGKILL");
    if (job.stop?.rank === rank && job.stop.step === step) stop.abort();
    if (job.stall?.rank === rank && job.stall.step === step) await sleep(job.stall.ms);
    if (job.wantsTrace && step === job.steps - 1) trace = traceGathers(engine);
    records.push(await runStep(engine, job, step));
    generated.push(...(await generateWhereAsked(engine, model, job)));
    if (job.save?.beside && job.save.afterStep === engine.steps)
      saving = await saveBeside(engine, job, job.save, records);
    else await saveWhereAsked(engine, job);
    if (engine.steps > step + 1) break; // the rest has been run beside the save
  }
  trace = trace?.slice();
  if (job.wantsResidentBytes) return { records, weightsHash: "", residentBytes: await residentTogether(engine) };
  const weights = await hashWeights(engine, job.wantsWeights ?? false); // once they are whole, everything is over
  engine.device.timeline.record(undefined);
  return {
    records,
    generated,
    ...weights,
    ...(trace && { trace }),
    ...(timeline && { timeline }),
    ...(saving && { saving }),
  };
}

/** Saves, and runs the rest of the job meanwhile; the save is held up. */
async function saveBeside(
  engine: Engine<LanguageBatch>,
  job: Job,
  { folder, beside }: NonNullable<Job["save"]>,
  records: StepRecord[],
): Promise<SavingAnswer> {
  const isFull = beside?.fullDiskOfRank === rank;
  const held = await holdSaves(engine, isFull ? new Error("ENOSPC: no space left on device, write") : undefined);
  try {
    const outcome = saveCheckpoint(engine, folder).then(
      () => ({}),
      ({ name, message }: Error) => ({ error: { name, message } }),
    );
    const step = runStep(engine, job, engine.steps);
    const updateWaited = await Promise.race([step.then(() => false), sleep(heldMs).then(() => true)]);
    held.releaseReads();
    records.push(await step);
    while (engine.steps < job.steps) records.push(await runStep(engine, job, engine.steps));
    const publishedAtStep6 = readdirSync(folder).some((name) => name.startsWith("step-"));
    // The other ranks look before anything is published too.
    await engine.group.exchange(Float64Array.of(0), "looked");
    held.releaseSyncs();
    return { updateWaited, publishedAtStep6, ...(await outcome) };
  } finally {
    held.restore();
  }
}

async function saveWhereAsked(engine: Engine<LanguageBatch>, { save }: Job): Promise<void> {
  if (save?.afterStep === engine.steps && (save.rank ?? rank) === rank) await saveCheckpoint(engine, save.folder);
}

async function generateWhereAsked(
  engine: Engine<LanguageBatch>,
  model: LawModel,
  { generate, model: spec }: Job,
): Promise<Generated[]> {
  if (!generate?.afterSteps.includes(engine.steps)) return [];
  const { device } = engine;
  const before = { traffic: device.traffic.snapshot(), bytes: device.ledger.total("device") };
  device.ledger.beginStep();
  const options = { temperature: 0, seed: 0, vocabularySize: vocabularyOf(spec), ends: new Set<number>() };
  const running = { engine, model: model as LanguageModel };
  const tokens: number[] = [];
  const prompt = generate.prompts[rank % generate.prompts.length]!;
  const made = generateTokens(running, Int32Array.from(prompt), { ...options, tokens: generate.tokens });
  for await (const token of made) tokens.push(token);
  const after = device.traffic.snapshot();
  return [
    {
      tokens,
      gatheredElements: after.allGather.elementsSent - before.traffic.allGather.elementsSent,
      toldElements: after.control.elementsSent - before.traffic.control.elementsSent,
      upBytes: after.up.bytesReceived - before.traffic.up.bytesReceived,
      leftBytes: device.ledger.total("device") - before.bytes,
      peakBytes: device.ledger.snapshot().peakByTier.device,
    },
  ];
}

async function runStep(engine: Engine<LanguageBatch>, job: Job, step: number): Promise<StepRecord> {
  const { trainBatch, microBatch, gradientAccumulation, worldSize } = engine.plan.config;
  const stepTargets = stepTargetsOf(job, step * trainBatch, trainBatch);
  for (let a = 0; a < gradientAccumulation; a++) {
    const firstSample = step * trainBatch + (a * worldSize + rank) * microBatch;
    const batch = batchOf(job, firstSample, microBatch);
    await engine.backward(await engine.forward(batch, stepTargets === undefined ? {} : { stepTargets }));
  }
  return (await engine.step())!;
}

/** Measured while every rank still holds what it holds. */
async function residentTogether(engine: Engine<LanguageBatch>): Promise<number> {
  await engine.group.exchange(Float64Array.of(0), "arrival");
  const bytes = residentBytes();
  await engine.group.exchange(Float64Array.of(bytes), "measured memory");
  return bytes;
}

/** In the order of names: which buffer a tensor lies in must not matter. */
async function hashWeights(engine: Engine<LanguageBatch>, whole: boolean) {
  const weights = new Map<string, Float32Array>();
  for await (const { name, first, values } of engine.weights()) {
    if (first !== 0) throw new Error(`${name} came in pieces; the laws' models have smaller tensors`);
    weights.set(name, values);
  }
  const hash = createHash("sha256");
  for (const name of [...weights.keys()].sort()) hash.update(name).update(weights.get(name)!);
  return { weightsHash: hash.digest("hex"), ...(whole && { weights }) };
}

function failed(error: unknown): RankAnswer {
  const { name, message } = error as Error;
  const code = error instanceof ShunyaError ? error.code : "";
  return { records: [], weightsHash: "", error: { name, code, message } };
}

for (;;) {
  const message = (await launched.receive()) as PoolMessage;
  if (message.type === "clear") {
    clearControl();
    launched.send("cleared");
  } else launched.send(await train(message.job, message.worldSize).catch(failed));
}
