/** Makes what flat buffers keep in each tier, and owns what they share: slots of host memory, the swap file. */
import type { Device } from "../device/device.ts";
import type { OptimizerPart, Tier } from "../device/ledger.ts";
import { computeQueueOf, type MemoryTier } from "../device/queue.ts";
import { UsageError } from "../errors/errors.ts";
import type { Plan } from "../plan/plan.ts";
import { DelayedParameters } from "./delayed.ts";
import { DiskParameterSlots, DiskParameters } from "./disk-parameters.ts";
import { DiskStates } from "./disk-states.ts";
import { cutRange, FlatBuffer, type Range } from "./elements.ts";
import { CrossingBuffer, MemoryParameters, type RestingParameters } from "./parameters.ts";
import { MemoryStates, type SegmentStates, StatesOnDisk } from "./segment.ts";

export class StateStores {
  /** Fresh parameters between tiers. */
  readonly crossing: CrossingBuffer;
  readonly #device: Device;
  readonly #plan: Plan;
  readonly #parts: readonly OptimizerPart[];
  readonly #diskStates: DiskStates;
  readonly #diskSlots: DiskParameterSlots;

  /** @param moments what the optimizer keeps beside the master */
  constructor(device: Device, plan: Plan, moments: readonly OptimizerPart[]) {
    const { disk } = plan.config;
    this.#device = device;
    this.#plan = plan;
    this.#parts = ["master", ...moments];
    this.crossing = new CrossingBuffer(device);
    this.#diskStates = new DiskStates(device, {
      parts: this.#parts,
      slots: disk.stateBuffers,
      subGroupElements: plan.sizes.subGroup.elements,
      pipelineRead: disk.pipelineRead,
      pipelineWrite: disk.pipelineWrite,
    });
    this.#diskSlots = new DiskParameterSlots(device, disk.parameterBuffers);
  }

  /** @param pieces of the own range that are written at once @param updated what this rank updates of it */
  parameters(tier: Tier, range: Range, pieces: readonly Range[], updated: Range | undefined): RestingParameters {
    const { residences, config } = this.#plan;
    const { dtype } = residences.parameters;
    const resting =
      tier === "disk"
        ? new DiskParameters(this.#device, this.#diskSlots, this.crossing, range, pieces, dtype)
        : new MemoryParameters(this.#device, this.crossing, range, dtype, tier);
    return updated && config.delayedUpdateFrom !== undefined
      ? new DelayedParameters(this.#device, resting, updated)
      : resting;
  }

  states(tier: Tier, range: Range, parameters: RestingParameters): SegmentStates {
    if (tier === "disk") return new StatesOnDisk(this.#diskStates, range);
    const isMaster = parameters.isMaster && parameters.tier === tier;
    const own = new Map(
      this.#parts
        .filter((part) => !(isMaster && part === "master"))
        .map((part) => [part, new FlatBuffer(this.#device, part, range, "f32", computeQueueOf[tier as MemoryTier])]),
    );
    const subGroups = cutRange(range, this.#plan.sizes.subGroup.elements);
    return new MemoryStates(this.#device, own, isMaster ? parameters.buffer : undefined, tier as MemoryTier, subGroups);
  }

  /** Once everything has its place: makes the swap file. @returns what the user should be told */
  async open(rank: number): Promise<readonly string[]> {
    const { folders, blockBytes, queueDepth, parallelism, verify } = this.#plan.config.disk;
    if (folders.length === 0 && this.#device.ledger.total("disk") > 0)
      throw new UsageError(
        "states are to live on disk, but no folder is named; give zero_optimization.offload_optimizer.nvme_path " +
          "(or offload_param.nvme_path): a folder on a fast drive",
      );
    return this.#device.openDisk({ folders, blockBytes, queueDepth, parallelism, verify, rank });
  }

  dispose(): void {
    this.crossing.flush();
    this.#diskStates.dispose();
    this.#diskSlots.dispose();
  }
}
