// Faults that `npm run mutate` plants one at a time, and the law that must turn red. `find` must occur exactly once in the file.

import { dataFaults } from "./data-faults.ts";
import { generationFaults } from "./generation-faults.ts";
import { type Law, laws } from "./laws.ts";
import { modelFaults } from "./model-faults.ts";
import { planningFaults } from "./planning-faults.ts";
import { wordFaults } from "./word-faults.ts";

export interface Fault {
  /** In words, for the table. */
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly law: Law;
}

export const faults: readonly Fault[] = [
  {
    name: "a unit is gathered twice",
    file: "src/zero/unit.ts",
    find: "    for (const state of flats) state.ready = [done!];\n",
    replace:
      "    for (const segments of segmentCalls(parts, this.#plan.sizes.allgatherBucket.elements, this.#group.worldSize))\n" +
      '      done = this.#group.allGather(segments, this.#plan.residences.parameters.dtype, "them again");\n' +
      "    for (const state of flats) state.ready = [done!];\n",
    law: laws.accounted,
  },
  {
    name: "a gathered unit is never released before the pass ends",
    file: "src/zero/unit.ts",
    find: "if (!this.#reusedSoon(part)) this.#release(part);",
    replace: "void part;",
    law: laws.peaks,
  },
  {
    name: "the look-ahead ignores its limit",
    file: "src/zero/unit.ts",
    find: "isFull ||= elements > room || this.#liveElements + elements > this.#plan.sizes.liveParameters.elements;",
    replace: "isFull ||= elements < 0;",
    law: laws.peaks,
  },
  {
    name: "stage 3 keeps parameters whole",
    file: "src/plan/residence.ts",
    find: '3: { optimizer: "shard", gradients: "shard", parameters: "shard" },',
    replace: '3: { optimizer: "shard", gradients: "shard", parameters: "whole" },',
    law: laws.accounted,
  },
  {
    name: "stage 2 does stage 0's work",
    file: "src/plan/residence.ts",
    find: '2: { optimizer: "shard", gradients: "shard", parameters: "whole" },',
    replace: '2: { optimizer: "whole", gradients: "whole", parameters: "whole" },',
    law: laws.equal,
  },
  {
    name: "gradients are added in 16 bits although fp32 was asked for",
    file: "src/plan/residence.ts",
    find: "elementDType[config.gradientAccumulationType]",
    replace: "dtype",
    law: laws.fp32Accumulation,
  },
  {
    name: "a gathered unit may be read from outside",
    file: "src/zero/flat.ts",
    find: "if (!buffer || (this.needsGather && !this.isOpen)) return undefined;",
    replace: "if (!buffer) return undefined;",
    law: laws.errors,
  },
  {
    name: "collectives of different units have one tag",
    file: "src/comm/group.ts",
    find: "hash = Math.imul(hash ^ words.charCodeAt(i), 0x01000193);",
    replace: "hash = 1;",
    law: laws.errors,
  },
  {
    name: "a rank stops without asking the others",
    file: "src/zero/engine.ts",
    find: "const alone = this.group.worldSize === 1;",
    replace: "const alone = true;",
    law: laws.errors,
  },
  {
    name: "activation checkpointing is ignored",
    file: "src/tensor/tape.ts",
    find: "this.#checkpointing = options.checkpointing ?? false;",
    replace: "this.#checkpointing = false;",
    law: laws.budget,
  },
  {
    name: "the sum over ranks is not divided by N",
    file: "src/zero/reduce.ts",
    find: 'operation === "sum" ? 1 : worldSize',
    replace: "1",
    law: laws.oracle,
  },
  {
    name: "one rank's gradient is dropped",
    file: "src/zero/reduce.ts",
    find: '    device.wait("collective", device.mark("compute"));\n    const targets',
    replace:
      "    if (this.#group.rank === 1) for (const { sent } of outgoing) sent.zero();\n" +
      '    device.wait("collective", device.mark("compute"));\n    const targets',
    law: laws.oracle,
  },
  {
    name: "the second micro-batch overwrites the first",
    file: "src/zero/reduce.ts",
    find: 'this.#plan.residences.gradients.split === "shard" && this.#microBatch > 0;',
    replace: "false;",
    law: laws.rounding,
  },
  {
    name: "a tensor's second use overwrites its gradient (tied weights)",
    file: "src/zero/reduce.ts",
    find: "const accumulate = state.written.has(piece.name) || ",
    replace: "const accumulate = ",
    law: laws.oracle,
  },
  {
    name: "gradients that no op produced are not zeroed",
    file: "src/zero/reduce.ts",
    find: "if (!state.written.has(piece.name)) produced.zero(piece.offset, piece.elements);",
    replace: "if (state.written.size < 0) produced.zero(piece.offset, piece.elements);",
    law: laws.structure,
  },
  {
    name: "a bucket is never freed",
    file: "src/zero/reduce.ts",
    find: "for (const [buffer, queue] of this.#inFlight) buffer.free(queue);",
    replace: "",
    law: laws.bounded,
  },
  {
    name: "a unit that did not run is not settled",
    file: "src/zero/engine.ts",
    find: "for (const unit of this.#units.all) this.#settler.settle(unit);",
    replace: "",
    law: laws.structure,
  },
  {
    name: "dropout is keyed by the rank",
    file: "src/zero/engine.ts",
    find: "random: new RandomKeys(this.#seed, this.steps, firstSample),",
    replace: "random: new RandomKeys(this.#seed + this.group.rank, this.steps, firstSample),",
    law: laws.rounding,
  },
  {
    name: "dropout is keyed by the micro-batch, not by the sample",
    file: "src/zero/engine.ts",
    find: "random: new RandomKeys(this.#seed, this.steps, firstSample),",
    replace: "random: new RandomKeys(this.#seed, this.steps, this.#microBatch),",
    law: laws.rounding,
  },
  {
    name: "dropout is keyed by how often it was asked for, so that recomputation draws anew",
    file: "src/tensor/random.ts",
    find: 'return randomKey("dropout", this.seed, this.step, opName);',
    replace:
      "const asked = this as { times?: number };\n" +
      "    asked.times = (asked.times ?? 0) + 1;\n" +
      '    return randomKey("dropout", this.seed, this.step, opName, asked.times);',
    law: laws.equal,
  },
  {
    name: "small gradients are scaled up to the clipping norm",
    file: "src/zero/engine.ts",
    find: "Math.min(1, clip / (norm + 1e-6))",
    replace: "clip / (norm + 1e-6)",
    law: laws.engine,
  },
  {
    name: "a gradient that is not finite is stepped on",
    file: "src/zero/engine.ts",
    find: "const skipped = nonFinite.length > 0 || !Number.isFinite(loss);",
    replace: "const skipped = false;",
    law: laws.engine,
  },
  {
    name: "a skipped step counts as an update",
    file: "src/zero/progress.ts",
    find: "if (!skipped) this.#updates++;",
    replace: "this.#updates++;",
    law: laws.precision,
  },
  {
    name: "gradients are divided by the next step's loss scale (as in DeepSpeed)",
    file: "src/zero/engine.ts",
    find: "    const { lossScale, nextUpdate } = this.#counter;\n",
    replace:
      "    const { nextUpdate } = this.#counter;\n" +
      "    const lossScale = this.#counter.lossScale * (nextUpdate > 2 ? 2 : 1);\n",
    law: laws.precision,
  },
  {
    name: "the backward pass does not start from the loss scale",
    file: "src/zero/engine.ts",
    find: "lossSeed: this.#counter.lossScale,",
    replace: "lossSeed: 1,",
    law: laws.precision,
  },
  {
    name: "an overflow on another rank is not heard of",
    file: "src/zero/norm.ts",
    find: "if (ranks.some((partials) =>",
    replace: "if (ranks.slice(0, 1).some((partials) =>",
    law: laws.overflow,
  },
  {
    name: "gradients are sent in their own type although another was asked for",
    file: "src/zero/reduce.ts",
    find: "type === undefined ? from.dtype : elementDType[type]",
    replace: "from.dtype",
    law: laws.sent,
  },
  {
    name: "the norm leaves out a rank",
    file: "src/zero/norm.ts",
    find: "for (const partials of ranks) total",
    replace: "for (const partials of ranks.slice(1)) total",
    law: laws.oracle,
  },
  {
    name: "the optimizer skips the first element of its range",
    file: "src/zero/elements.ts",
    find: "for (let first = start; first < end; first += elements)",
    replace: "for (let first = start + 1; first < end; first += elements)",
    law: laws.equal,
  },
  {
    name: "whole parameters are not published",
    file: "src/zero/step.ts",
    find: "if (state.needsGather || updatedAll || !whole) return [];",
    replace: "if (state.needsGather || !updatedAll || !whole) return [];",
    law: laws.equal,
  },
  {
    name: "persistent copies are not published",
    file: "src/zero/step.ts",
    find: "state.isStale = true;",
    replace: "state.isStale = false;",
    law: laws.equal,
  },
  {
    name: "a wrong bias correction",
    file: "src/optim/optimizer.ts",
    find: "1 - beta2 ** step.update",
    replace: "1 - beta1 ** step.update",
    law: laws.oracle,
  },
  {
    name: "a parameter group's learning rate is ignored",
    file: "src/zero/step.ts",
    find: "const scheduled = learningRateOf(schedule, learningRate, update);",
    replace: "const scheduled = learningRateOf(schedule, this.#groups.numbers[0]!.learningRate, update);",
    law: laws.optimizers,
  },
  {
    name: "a sub-group is updated with the numbers of its first tensor's group",
    file: "src/zero/step.ts",
    find: "this.#updateRange(memory, gradients, copy, range, steps[range.group]!);",
    replace:
      "this.#updateRange(memory, gradients, copy, range, steps[rangesWithin(groups, subGroup.start, subGroup.end)[0]!.group]!);",
    law: laws.optimizers,
  },
  {
    name: "Lion takes its direction with the beta of its moment",
    file: "src/optim/optimizer.ts",
    find: "beta1: step.momentum ?? beta1, beta2 });",
    replace: "beta1: beta2, beta2 });",
    law: laws.trajectories,
  },
  {
    name: "SGD dampens its first gradient",
    file: "src/optim/optimizer.ts",
    find: "gradientShare: step.update === 1 ? 1 : 1 - dampening,",
    replace: "gradientShare: 1 - dampening,",
    law: laws.trajectories,
  },
  {
    name: "a schedule is one update ahead",
    file: "src/optim/schedules.ts",
    find: "  if (!schedule) return baseLearningRate;\n  const iteration = update - 2;",
    replace: "  if (!schedule) return baseLearningRate;\n  const iteration = update - 1;",
    law: laws.schedules,
  },
  {
    name: "a rank draws its shard's first weights from element 0 on",
    file: "src/zero/weights.ts",
    find: "firstElement: range.first",
    replace: "firstElement: 0",
    law: laws.equal,
  },
  {
    name: "an all-gather is counted with the own part sent to itself",
    file: "src/comm/group.ts",
    find:
      "    const elements = countOf(segments) * (this.worldSize - 1);\n" + '    this.#device.traffic.add("allGather"',
    replace: '    const elements = countOf(segments) * this.worldSize;\n    this.#device.traffic.add("allGather"',
    law: laws.accounted,
  },
  {
    name: "scratch is not on the ledger of the simulated device",
    file: "src/device/simulated.ts",
    find: 'return loadNative().scratchBytes(op, args, queue === "compute" || queue === "update" ? this.#threads : 1);',
    replace: "return loadNative().scratchBytes(op, args, queue === undefined ? this.#threads : 1) * 0;",
    law: laws.budget,
  },
  {
    name: "the second moment is not restored",
    file: "src/zero/weights.ts",
    find: "const isGiven = source?.has(range.name, held);",
    replace: 'const isGiven = held !== "secondMoment" && source?.has(range.name, held);',
    law: laws.resumed,
  },
  {
    name: "masters that are read do not reach the 16-bit parameters",
    file: "src/zero/weights.ts",
    find: 'alike && kind === "master" ? [to, alike] : [to]',
    replace: "[to]",
    law: laws.resumed,
  },
  {
    name: "a resumed run leaves out a batch: its data position is off by one",
    file: "src/zero/progress.ts",
    find: "this.#attempted = start?.attempted ?? 0;",
    replace: "this.#attempted = start ? start.attempted + 1 : 0;",
    law: laws.resumed,
  },
  {
    name: "the schedule of a resumed run begins anew",
    file: "src/zero/progress.ts",
    find: "this.#updates = start?.updates ?? 0;",
    replace: "this.#updates = 0;",
    law: laws.resumed,
  },
  {
    name: "the loss scale of a resumed run begins anew",
    file: "src/zero/progress.ts",
    find: "new LossScaler(config.lossScale, start?.lossScale)",
    replace: "new LossScaler(config.lossScale)",
    law: laws.resumed,
  },
  {
    name: "a rank restores its range from the tensor's beginning",
    file: "src/zero/state.ts",
    find: "source.read(name, kind, range.first + done, values",
    replace: "source.read(name, kind, done, values",
    law: laws.resumed,
  },
  {
    name: "checksums of a checkpoint are not compared",
    file: "src/checkpoint/file-problem.ts",
    find: "if (sum.hex === file.crc32) return undefined;",
    replace: 'if (sum.hex !== "") return undefined;',
    law: laws.checkpoints,
  },
  {
    name: "an update does not wait until what it changes is saved",
    file: "src/zero/step.ts",
    find: "if (wait) await wait;",
    replace: "void wait;",
    law: laws.savedBeside,
  },
  {
    name: "a look at a record on disk does not notice that its memory was given away",
    file: "src/zero/disk-slots.ts",
    find: "if (slot.content === content && slot.last === users) return look(slot);",
    replace: "if (users.length > 0) return look(slot);",
    law: laws.lookedAt,
  },
  {
    name: "a checkpoint's own description may be edited",
    file: "src/checkpoint/training-manifest.ts",
    find: "if (crc32 !== checksum)",
    replace: 'if (checksum === "")',
    law: laws.checkpoints,
  },
  {
    name: "offloaded gradients of the second micro-batch take the place of the first's",
    file: "src/zero/reduce.ts",
    find: "const to = addsUp ? new FlatBuffer",
    replace: "const to = addsUp && count < 0 ? new FlatBuffer",
    law: laws.tiers,
  },
  {
    name: "the norm begins anew in each tier",
    file: "src/zero/norm.ts",
    find: "device.upload(sums.at(), before, queue);",
    replace: "device.upload(sums.at(), new Float64Array(before.length), queue);",
    law: laws.tiers,
  },
  {
    name: "gradients cross to the host twice",
    file: "src/zero/reduce.ts",
    find: '    segment.settled = device.cross("down", own.at(part.start), to.at(part.start), count, gradients.dtype);\n',
    replace:
      '    device.cross("down", own.at(part.start), to.at(part.start), count, gradients.dtype);\n' +
      '    segment.settled = device.cross("down", own.at(part.start), to.at(part.start), count, gradients.dtype);\n',
    law: laws.tiers,
  },
  {
    name: "states that were updated are not written back to disk",
    file: "src/zero/disk-states.ts",
    find: "    this.#write(record, slot, readers);\n",
    replace: '    slot.last = [device.mark("update"), ...readers];\n',
    law: laws.tiers,
  },
  {
    name: "parameters that were read ahead are used after an update",
    file: "src/zero/disk-parameters.ts",
    find: "    this.#letGoAhead(); // what was read before is old now\n",
    replace: "",
    law: laws.structure,
  },
  {
    name: "a delayed update is seen a step early",
    file: "src/zero/step.ts",
    find: "attempted >= delayedUpdateFrom;",
    replace: "attempted > delayedUpdateFrom + 1e9;",
    law: laws.delayed,
  },
  {
    name: "the step before a delayed one is delayed too",
    file: "src/zero/step.ts",
    find: "attempted >= delayedUpdateFrom;",
    replace: "attempted >= delayedUpdateFrom - 1;",
    law: laws.delayed,
  },
  {
    name: "a resumed run with delayed updates sees the newest parameters at once",
    file: "src/zero/weights.ts",
    find: 'const seen = parameters.deliver ? "visible" : "master";',
    replace: 'const seen = "master";',
    law: laws.resumedTiers,
  },
  ...planningFaults,
  ...modelFaults,
  ...generationFaults,
  ...wordFaults,
  ...dataFaults,
];
