// What the timeline of real jobs must show: every op with a time and a name, gathers and releases in program order, and with states
// on the host the order of contracts 16, exactly.
import { describe, expect, test } from "vitest";
import type { OverlappedQueue } from "../../src/device/overlap.ts";
import { type Event, type QueueName, queueNames } from "../../src/device/queue.ts";
import type { QueueSpan } from "../../src/device/timeline.ts";
import { renderHidden } from "../../src/report/hidden.ts";
import { spanName } from "../../src/report/trace-events.ts";
import type { StepRecord } from "../../src/zero/record.ts";
import type { Job } from "./jobs.ts";
import { gpt2 } from "./models.ts";
import { type JobAnswer, run } from "./pool.ts";
import { swapFolder } from "./sample.ts";

const steps = 3;

const jobOf = (zero: object, more: Partial<Job> = {}): Job => ({
  model: gpt2({ layers: 3 }),
  steps,
  seqLength: 16,
  wantsTimeline: true,
  config: {
    train_micro_batch_size_per_gpu: 2,
    gradient_clipping: 1,
    bf16: { enabled: true },
    optimizer: { type: "AdamW", params: { lr: 1e-2 } },
    zero_optimization: { stage: 3, stage3_param_persistence_threshold: 0, ...zero },
  },
  ...more,
});

const host = { offload_optimizer: { device: "cpu" } };
const units = ["(root)", "transformer.h.0", "transformer.h.1", "transformer.h.2"];

/** Ops of a queue that belong to something: what reads the weights at the end has no scope. */
const opsOf = (answer: JobAnswer, queue: QueueName, rank = 0): QueueSpan[] =>
  answer.ranks[rank]!.timeline!.queues.filter((s) => s.queue === queue && s.op !== undefined && s.scope !== "");

/** Cut into as many equal parts as there were steps. */
function byStep(spans: readonly QueueSpan[]): QueueSpan[][] {
  expect(spans.length % steps).toBe(0);
  const each = spans.length / steps;
  return Array.from({ length: steps }, (_, k) => spans.slice(k * each, (k + 1) * each));
}

const withoutRepeats = (names: readonly string[]): string[] => names.filter((name, i) => name !== names[i - 1]);
const earliest = (spans: readonly QueueSpan[]): number => Math.min(...spans.map((s) => s.start));
const latest = (spans: readonly QueueSpan[]): number => Math.max(...spans.map((s) => s.end));

/** Of every queue the highest sequence on which an event depends, through all waits. */
function reachOf(spans: readonly QueueSpan[], event: Event): Map<QueueName, number> {
  const waits = new Map(queueNames.map((q) => [q, spans.filter((s) => s.queue === q && s.awaited)]));
  const reach = new Map<QueueName, number>();
  const visit = ({ queue, sequence }: Event): void => {
    const before = reach.get(queue) ?? 0;
    if (sequence <= before) return;
    reach.set(queue, sequence);
    for (const wait of waits.get(queue)!) if (wait.sequence > before && wait.sequence <= sequence) visit(wait.awaited!);
  };
  visit(event);
  return reach;
}

test.each([
  ["nothing offloaded", {}],
  ["states on the host", host],
])("with %s every op has a span, in the order of its queue, and a name", async (_, zero) => {
  const answer = await run(2, jobOf(zero));
  for (const { timeline } of answer.ranks)
    for (const queue of queueNames) {
      const spans = timeline!.queues.filter((s) => s.queue === queue);
      for (const [i, span] of spans.entries()) {
        expect(span.sequence).toBe(spans[0]!.sequence + i);
        expect(span.end).toBeGreaterThanOrEqual(span.start);
        expect(span.start).toBeGreaterThanOrEqual(spans[i - 1]?.end ?? 0);
        expect(spanName(span)).toMatch(/\w/);
      }
    }
  const names = new Set(answer.timeline!.queues.map(spanName));
  for (const unit of units) {
    const backward = unit === "(root)" ? "embeddingBackward" : "matmul"; // the head makes its gradients in the forward pass
    for (const name of [`matmul ${unit} forward`, `${backward} ${unit} backward`, `gather ${unit}`, `update ${unit}`])
      expect(names).toContain(name);
    if (zero === host) {
      expect(names).toContain(`copy up ${unit}`);
      expect(names).toContain(`copy down ${unit}`);
    }
  }
  expect(names).toContain("squareSum gradients");
});

test("each unit's gather and release stand in program order", async () => {
  const answer = await run(2, jobOf({ stage3_prefetch_bucket_size: 0, stage3_max_reuse_distance: 0 }));
  for (const { timeline } of answer.ranks) {
    const marks = timeline!.program.map((s) => s.what).filter((w): w is string => /^(gather|release) /.test(String(w)));
    const [root, ...blocks] = units;
    // The head uses the root's table last in the forward pass and first in the backward pass: it is gathered once for both.
    const pass = [root!, ...blocks, root!, ...[...blocks].reverse()].flatMap((u) => [`gather ${u}`, `release ${u}`]);
    expect(marks.slice(0, steps * pass.length)).toEqual(Array.from({ length: steps }, () => pass).flat());
  }
});

// 200: vectors are persistent and matrices are not.
describe.each([0, 200])(
  "states on the host, clipping on, persistence threshold %i",
  (stage3_param_persistence_threshold) => {
    let answer: Promise<JobAnswer> | undefined;
    const traced = (): Promise<JobAnswer> => {
      answer ??= run(2, jobOf({ ...host, sub_group_size: 2000, stage3_param_persistence_threshold }));
      return answer;
    };

    test("no update begins before the step's last gradient is down", async () => {
      for (const rank of [0, 1]) {
        const updates = byStep(opsOf(await traced(), "update", rank).filter((s) => s.op === "adam"));
        const down = byStep(opsOf(await traced(), "down", rank));
        for (let k = 0; k < steps; k++) expect(earliest(updates[k]!)).toBeGreaterThanOrEqual(latest(down[k]!));
      }
    });

    test("parameters are updated and published in forward order", async () => {
      for (const rank of [0, 1])
        for (const queue of ["update", "up"] as const)
          for (const step of byStep(
            opsOf(await traced(), queue, rank).filter((s) => s.op === "adam" || queue === "up"),
          )) {
            expect(withoutRepeats(step.map((s) => s.scope))).toEqual(units);
          }
    });

    test("the next forward waits for its own unit's update alone", async () => {
      const { queues } = (await traced()).timeline!;
      const updates = byStep(opsOf(await traced(), "update").filter((s) => s.op === "adam"));
      for (let k = 0; k + 1 < steps; k++)
        for (const [i, unit] of units.entries()) {
          const used = opsOf(await traced(), "compute").filter((s) => s.scope === `${unit} forward`);
          const first = byStep(used)[k + 1]!.find((s) => s.op !== "upload")!; // positions need no parameters
          const reach = reachOf(queues, first).get("update")!;
          const own = updates[k]!.filter((s) => s.scope === unit).at(-1)!;
          expect(reach).toBeGreaterThanOrEqual(own.sequence);
          const next = updates[k]!.find((s) => s.scope === units[i + 1]);
          if (next) expect(reach).toBeLessThan(next.sequence);
        }
    });

    test("so unit 0 computes while the last unit is still updated", { retry: 3, timeout: 60_000 }, async () => {
      // Wide blocks and four tokens: the update takes longer than what comes before it in the next step. A machine that is busy
      // elsewhere may stall one queue or the other, so one step of many is enough.
      const many = 8;
      const model = gpt2({ layers: 6, hidden: 256, vocabularySize: 128 });
      const job = jobOf(host, { model, steps: many, seqLength: 2 });
      const answer = await run(1, job);
      const last = opsOf(answer, "update").filter((s) => s.op === "adam" && s.scope === "transformer.h.5");
      const first = opsOf(answer, "compute").filter((s) => s.op !== "upload" && s.scope === "(root) forward");
      const lastOf = (k: number): QueueSpan => last[((k + 1) * last.length) / many - 1]!;
      const firstOf = (k: number): QueueSpan => first[(k * first.length) / many]!;
      const overlaps = Array.from({ length: many - 1 }, (_, k) => firstOf(k + 1).start < lastOf(k).end);
      expect(overlaps).toContain(true);
    });
  },
);

test("a unit's backward pass waits for no reduction of the unit before it", async () => {
  const answer = await run(2, jobOf({ stage: 2, reduce_bucket_size: 10_000, overlap_comm: true }));
  const { queues } = answer.timeline!;
  const reductions = opsOf(answer, "collective").filter((s) => s.op === "reduceScatter");
  for (const [unit, before] of [
    ["transformer.h.1", "transformer.h.2"],
    ["transformer.h.0", "transformer.h.1"],
  ] as const) {
    const passes = byStep(opsOf(answer, "compute").filter((s) => s.scope === `${unit} backward`));
    const sent = byStep(reductions.filter((s) => s.scope === before));
    for (let k = 0; k < steps; k++)
      expect(reachOf(queues, passes[k]!.at(-1)!).get("collective") ?? 0).toBeLessThan(sent[k]![0]!.sequence);
  }
});

test.each([
  ["host", host, ["down", "up", "update"]],
  [
    "disk",
    { offload_optimizer: { device: "nvme", nvme_path: swapFolder } },
    ["down", "up", "update", "diskRead", "diskWrite"],
  ],
] as const)("with states on the %s every step says what was hidden", async (_, zero, queues) => {
  const { records } = await run(2, jobOf(zero, { wantsTimeline: false, steps: 4 }));
  for (const { ranks } of records)
    for (const { overlap } of ranks) {
      for (const { seconds, waitedSeconds } of Object.values(overlap)) {
        expect(waitedSeconds).toBeGreaterThanOrEqual(0);
        expect(waitedSeconds).toBeLessThanOrEqual(seconds + 1e-9);
      }
    }
  // The update of a step runs beside the next one and is told of there, so the first step has none.
  const secondsOf = (queue: OverlappedQueue, from: readonly StepRecord[]): number =>
    from.flatMap((r) => r.ranks).reduce((sum, { overlap }) => sum + overlap[queue].seconds, 0);
  for (const queue of [...queues, "collective"] as const) expect(secondsOf(queue, records)).toBeGreaterThan(0);
  expect(secondsOf("diskWrite", records.slice(0, 1))).toBe(0);
  expect(renderHidden(records)).toMatch(/^Hidden behind compute, a rank: .*copy down \d+ % of .*update \d+ % of/);
});

test("without offload nothing is timed", async () => {
  const { records } = await run(2, jobOf({}, { wantsTimeline: false }));
  for (const { overlap } of records.flatMap((r) => r.ranks))
    for (const { seconds } of Object.values(overlap)) expect(seconds).toBe(0);
  expect(renderHidden(records)).toBeUndefined();
});
