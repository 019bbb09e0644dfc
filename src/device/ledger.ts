/**
 * The memory ledger: every allocation of a rank, by tier and kind, as it is issued (contracts 2 and 24). Budgets are real: an
 * allocation over its tier's budget is refused before anything happens.
 */
import { InternalError, MemoryBudgetError } from "../errors/errors.ts";

export const tiers = ["device", "host", "disk"] as const;
export type Tier = (typeof tiers)[number];

export const memoryKinds = [
  "parameters",
  "gradients",
  "optimizer",
  "activations",
  "gathered",
  "buckets",
  "staging",
  "scratch",
  "other",
] as const;
export type MemoryKind = (typeof memoryKinds)[number];

/** The optimizer's parts are entered separately and add up to `optimizer`. */
export const optimizerParts = ["master", "firstMoment", "secondMoment"] as const;
export type OptimizerPart = (typeof optimizerParts)[number];
export type MemoryLabel = MemoryKind | OptimizerPart;

export const phases = ["init", "forward", "backward", "step"] as const;
export type Phase = (typeof phases)[number];

/** Bytes now, and the most since the step began. */
export interface Usage {
  readonly current: number;
  readonly peak: number;
}
export type TierUsage = Readonly<Record<MemoryLabel, Usage>>;

export interface MemorySnapshot {
  readonly device: TierUsage;
  readonly host: TierUsage;
  readonly disk: TierUsage;
  /** Device bytes of all kinds together at the highest moment of each phase of the step. */
  readonly peakByPhase: Readonly<Record<Phase, number>>;
  /** Bytes of all kinds together at each tier's highest moment of the step. */
  readonly peakByTier: Readonly<Record<Tier, number>>;
  /** Device bytes by kind at the step's highest moment: they add up to the peak of the total. */
  readonly atPeak: Readonly<Record<MemoryKind, number>>;
}

/** The fullest moment of a tier since the start. */
export interface HighWater {
  readonly bytes: number;
  /** They add up to `bytes`. */
  readonly byKind: Readonly<Record<MemoryKind, number>>;
}

const pickKinds = (from: Readonly<Record<MemoryKind, number>>): Record<MemoryKind, number> =>
  Object.fromEntries(memoryKinds.map((k) => [k, from[k]])) as Record<MemoryKind, number>;

const emptyKinds = Object.fromEntries(memoryKinds.map((k) => [k, 0])) as Record<MemoryKind, number>;

const isPart = (label: MemoryLabel): label is OptimizerPart => (optimizerParts as readonly string[]).includes(label);
const labels: readonly MemoryLabel[] = [...memoryKinds, ...optimizerParts];

class TierLedger {
  readonly current = Object.fromEntries(labels.map((l) => [l, 0])) as Record<MemoryLabel, number>;
  readonly peak = Object.fromEntries(labels.map((l) => [l, 0])) as Record<MemoryLabel, number>;
  total = 0;
  /** The most of `total` since the step began. */
  peakTotal = 0;
  /** Since the start: the most bytes at once, and what they were. */
  highest: HighWater = { bytes: 0, byKind: emptyKinds };

  add(label: MemoryLabel, bytes: number): void {
    for (const l of isPart(label) ? [label, "optimizer" as const] : [label]) {
      this.current[l] += bytes;
      if (this.current[l] < 0) throw new InternalError(`the ledger's ${l} fell below zero`);
      if (this.current[l] > this.peak[l]) this.peak[l] = this.current[l];
    }
    this.total += bytes;
    this.peakTotal = Math.max(this.peakTotal, this.total);
    if (this.total > this.highest.bytes) this.highest = { bytes: this.total, byKind: { ...this.current } };
  }

  usage(): TierUsage {
    return Object.fromEntries(
      labels.map((l) => [l, { current: this.current[l], peak: this.peak[l] }]),
    ) as unknown as TierUsage;
  }
}

const trainingAdvice = "a larger budget, a smaller micro-batch or a higher ZeRO stage";

export class MemoryLedger {
  readonly #tiers: Record<Tier, TierLedger> = {
    device: new TierLedger(),
    host: new TierLedger(),
    disk: new TierLedger(),
  };
  readonly #budgets: Partial<Record<Tier, number>>;
  readonly #advice: string;
  readonly #reserved: Record<Tier, number> = { device: 0, host: 0, disk: 0 };
  #phase: Phase = "init";
  #peakByPhase: Record<Phase, number> = { init: 0, forward: 0, backward: 0, step: 0 };
  #atPeak: Record<MemoryKind, number> = { ...this.#tiers.device.current };
  #peakTotal = 0;
  #highestInMemory = 0;

  /**
   * @param budgets bytes per tier; a tier without one is not limited here. @param advice what to do where one does not hold, to follow
   * "Give "
   */
  constructor(budgets: Partial<Record<Tier, number>> = {}, advice = trainingAdvice) {
    this.#budgets = budgets;
    this.#advice = advice;
  }

  /** @throws MemoryBudgetError when the tier's budget does not hold `bytes` more; nothing is entered then. */
  allocate(tier: Tier, label: MemoryLabel, bytes: number): void {
    const ledger = this.#tiers[tier];
    const budget = this.#budgets[tier];
    if (budget !== undefined && ledger.total + this.#reserved[tier] + bytes > budget)
      throw this.#refusal(tier, label, bytes, budget);
    ledger.add(label, bytes);
    this.#highestInMemory = Math.max(this.#highestInMemory, this.total("device") + this.total("host"));
    if (tier === "device") this.#notePeak();
  }

  /**
   * Takes bytes that nobody allocates out of a tier's budget: swap files in memory are the host's.
   * @throws MemoryBudgetError when the budget does not hold them
   */
  reserve(tier: Tier, bytes: number): void {
    const budget = this.#budgets[tier];
    if (budget !== undefined && this.total(tier) + this.#reserved[tier] + bytes > budget)
      throw this.#refusal(tier, "swap files", bytes, budget);
    this.#reserved[tier] += bytes;
  }

  free(tier: Tier, label: MemoryLabel, bytes: number): void {
    this.#tiers[tier].add(label, -bytes);
  }

  /** Peaks start again from what is held now. */
  beginStep(): void {
    for (const tier of tiers) {
      const { peak, current, total } = this.#tiers[tier];
      Object.assign(peak, current);
      this.#tiers[tier].peakTotal = total;
    }
    this.#peakByPhase = { init: 0, forward: 0, backward: 0, step: 0 };
    this.#peakTotal = 0;
    this.#notePeak();
  }

  beginPhase(phase: Phase): void {
    this.#phase = phase;
    this.#notePeak();
  }

  /** Bytes that a tier's budget still holds; without a budget there is no end. */
  room(tier: Tier): number {
    const budget = this.#budgets[tier] ?? Number.POSITIVE_INFINITY;
    return budget - this.total(tier) - this.#reserved[tier];
  }

  total(tier: Tier): number {
    return this.#tiers[tier].total;
  }

  current(tier: Tier, label: MemoryLabel): number {
    return this.#tiers[tier].current[label];
  }

  /** The most that a tier held since the start. */
  highest(tier: Tier): HighWater {
    const { bytes, byKind } = this.#tiers[tier].highest;
    return { bytes, byKind: pickKinds(byKind) };
  }

  /** The most bytes that device and host held together since the start: where both are one machine's memory, it needs so much. */
  get highestInMemory(): number {
    return this.#highestInMemory;
  }

  snapshot(): MemorySnapshot {
    return {
      device: this.#tiers.device.usage(),
      host: this.#tiers.host.usage(),
      disk: this.#tiers.disk.usage(),
      peakByPhase: { ...this.#peakByPhase },
      peakByTier: {
        device: this.#tiers.device.peakTotal,
        host: this.#tiers.host.peakTotal,
        disk: this.#tiers.disk.peakTotal,
      },
      atPeak: pickKinds(this.#atPeak),
    };
  }

  #notePeak(): void {
    const total = this.#tiers.device.total;
    if (total > this.#peakByPhase[this.#phase]) this.#peakByPhase[this.#phase] = total;
    if (total <= this.#peakTotal) return;
    this.#peakTotal = total;
    this.#atPeak = { ...this.#tiers.device.current };
  }

  #refusal(tier: Tier, what: string, bytes: number, budget: number): MemoryBudgetError {
    const ledger = this.#tiers[tier];
    const reserved = this.#reserved[tier];
    const held = [
      ...memoryKinds.filter((k) => ledger.current[k] > 0).map((k) => `${k} ${ledger.current[k]}`),
      ...(reserved > 0 ? [`swap files ${reserved}`] : []),
    ];
    return new MemoryBudgetError(
      tier,
      bytes,
      budget,
      `${tier} memory: ${bytes} bytes more for ${what} do not fit the budget of ${budget} bytes; held now: ` +
        `${held.join(", ") || "nothing"} (${ledger.total + reserved} in all). Give ${this.#advice}`,
    );
  }
}
