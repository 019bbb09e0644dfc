/** A rank's part of `--trace`: events go to the command as they are measured, until there are as many as the file may hold. */
import { renderProgramSpan, renderQueueSpan, renderThreads } from "../report/trace-events.ts";
import type { Engine } from "../zero/engine.ts";

export interface TraceMessage {
  readonly type: "trace";
  /** Text to be put into the file as it is. */
  readonly events: string;
  /** Set in a rank's last message, where the limit ended its part. */
  readonly endsInStep: number | undefined;
}

/** Of all ranks together: about 75 MB, which Perfetto opens in seconds. */
export const mostTraceEvents = 500_000;

type TracedEngine = Pick<Engine<object>, "device" | "group" | "steps">;

/** From now on until the engine is disposed. @param limit events of this rank */
export function recordTrace(
  engine: TracedEngine,
  send: (message: TraceMessage) => void,
  limit = Math.floor(mostTraceEvents / engine.group.worldSize),
): void {
  const { timeline } = engine.device;
  const { rank } = engine.group;
  let left = limit;
  const pass = <T>(spans: readonly T[], renderSpan: (rank: number, span: T) => string): void => {
    if (left === 0) return;
    const some = spans.slice(0, left);
    left -= some.length;
    const events = some.map((span) => renderSpan(rank, span)).join("");
    send({ type: "trace", events, endsInStep: left === 0 ? engine.steps + 1 : undefined });
    if (left === 0) timeline.record(undefined);
  };
  send({ type: "trace", events: renderThreads(rank), endsInStep: undefined });
  timeline.record({
    queues: (spans) => pass(spans, renderQueueSpan),
    program: (spans) => pass(spans, renderProgramSpan),
  });
}
