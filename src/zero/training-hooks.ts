/** What happens at the borders of a training pass's segments: units are entered and left, and one whose last use is over settles. */
import type { Device } from "../device/device.ts";
import { InternalError } from "../errors/errors.ts";
import type { SegmentHooks } from "../tensor/tape.ts";
import type { OperationBook } from "./operation-book.ts";
import type { GradientSettler } from "./reduce.ts";
import type { UnitState, Units } from "./unit.ts";

export interface TrainingParts {
  readonly device: Device;
  readonly units: Units;
  readonly settler: GradientSettler;
  readonly operations: OperationBook;
}

export function trainingHooks({ device, units, settler, operations }: TrainingParts): SegmentHooks {
  const finished = (unit: UnitState): void => {
    if (--unit.openUses < 0) throw new InternalError(`unit ${unit.name} ran backward more often than forward`);
    if (unit.openUses === 0) settler.settle(unit);
  };
  return {
    enter: async (owner, pass, needsValues) => {
      const unit = units.unitOf(owner);
      units.enter(unit, needsValues);
      device.timeline.scope = `${unit.name} ${pass}`;
      if (pass === "forward") unit.openUses++;
      else if (needsValues) for (const part of unit.together) part.usedInBackward = true;
      operations.enter();
    },
    leave: (owner, pass) => {
      const unit = units.unitOf(owner);
      operations.leave(unit.name, pass);
      units.leave(unit);
      if (pass === "backward") finished(unit);
      device.timeline.scope = "";
    },
  };
}
