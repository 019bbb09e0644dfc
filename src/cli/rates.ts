/** What `shunya train` says of learning rates beforehand: those that the schedule really gives, and those of parameter groups. */
import type { ResolvedConfig } from "../config/types.ts";
import { ParameterGroups } from "../optim/groups.ts";
import { learningRateRange } from "../optim/schedules.ts";
import type { Plan } from "../plan/plan.ts";
import { formatMany } from "../report/numbers.ts";

type Rates = Pick<ResolvedConfig, "schedule" | "optimizer">;

/** "0.001 (constant)", "0 to 0.001 (WarmupDecayLR, 0.0002 at the end)". @param steps updates of the whole run */
export function describeRates({ schedule, optimizer }: Rates, steps: number): string {
  const { lowest, highest, last } = learningRateRange({ schedule, optimizer }, steps);
  if (schedule === undefined) return `${short(highest)} (constant)`;
  if (lowest === highest) return `${short(highest)} (${schedule.type})`;
  return `${short(lowest)} to ${short(highest)} (${schedule.type}, ${short(last)} at the end)`;
}

const short = (rate: number): string => String(Number(rate.toPrecision(4)));

/** A row for each parameter group, and one for what is in none; none without groups. */
export function groupRows({ config, units }: Pick<Plan, "config" | "units">, steps: number): [string, string][] {
  if (config.parameterGroups.length === 0) return [];
  const pieces = units.flatMap(({ flats }) =>
    flats.flatMap((f) => f.pieces.map((p) => ({ ...p, trainable: f.trainable }))),
  );
  const trained = pieces.filter((piece) => piece.trainable);
  const groups = new ParameterGroups(config.optimizer, config.parameterGroups, pieces);
  const rows = groups.numbers.map(({ learningRate, weightDecay }, i): [string, string] => {
    const own = trained.filter(({ name }) => groups.of(name) === i);
    const count = own.reduce((sum, { elements }) => sum + elements, 0);
    const which = i === 0 ? "others" : (config.parameterGroups[i - 1]?.match.join(", ") ?? "");
    const rates = describeRates({ ...config, optimizer: { ...config.optimizer, learningRate } }, steps);
    return [
      i === 1 ? "groups" : "",
      `${which}: ${formatMany(count, "parameter")} in ${formatMany(own.length, "tensor")}, learning rate ${rates}, weight decay ${weightDecay}`,
    ];
  });
  return [...rows.slice(1), rows[0]!];
}
