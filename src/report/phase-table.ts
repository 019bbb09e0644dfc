/** `wall_clock_breakdown`: where the time of steps goes. Each phase was waited for before the next began. */
import type { StepRecord, TrainingPhase } from "../zero/record.ts";
import { formatShare } from "./numbers.ts";
import { renderTable } from "./table.ts";

const phases: readonly TrainingPhase[] = ["forward", "backward", "step"];

/** What is in none of the phases: waiting for data, mostly. */
const between = "between them";

/** Seconds by phase, added up over steps. */
export class PhaseTimes {
  readonly #seconds = new Map<string, number>([...phases, between].map((name) => [name, 0]));
  #steps = 0;
  #total = 0;

  add({ seconds, phaseSeconds }: Pick<StepRecord, "seconds" | "phaseSeconds">): void {
    const parts: [string, number][] = phases.map((phase) => [phase, phaseSeconds[phase]]);
    const inPhases = parts.reduce((sum, [, s]) => sum + s, 0);
    for (const [name, s] of [...parts, [between, Math.max(0, seconds - inPhases)] as const])
      this.#seconds.set(name, this.#seconds.get(name)! + s);
    this.#steps++;
    this.#total += seconds;
  }

  get steps(): number {
    return this.#steps;
  }

  /** "forward 12.3 ms, backward 25.0 ms, ...": the mean of the steps. */
  renderLine(): string {
    return [...this.#seconds].map(([name, seconds]) => `${name} ${milliseconds(seconds / this.#steps)} ms`).join(", ");
  }

  renderTable(): string {
    const row = (name: string, s: number): string[] => [
      name,
      s.toFixed(2),
      milliseconds(s / this.#steps),
      formatShare(s, this.#total),
    ];
    return renderTable({
      columns: [
        { header: "phase", align: "left" },
        { header: "seconds", align: "right" },
        { header: "ms a step", align: "right" },
        { header: "share", align: "right" },
      ],
      rows: [...[...this.#seconds].map(([name, s]) => row(name, s)), row("total", this.#total)],
    });
  }
}

const milliseconds = (seconds: number): string => (1000 * seconds).toFixed(1);
