// What a plan for DeepSpeed may recommend: places and mixtures that DeepSpeed has.
import { describe, expect, it } from "vitest";
import { type PlanFlags, planJob } from "../../src/cli/plan-subject.ts";
import { answerPlan } from "../../src/planner/answer.ts";
import { temporaryFolder, writeFiles } from "./command.ts";

const folder = writeFiles(temporaryFolder(), {
  "sums.json": JSON.stringify({
    train_batch_size: 32,
    bf16: { enabled: true },
    gradient_allreduce_op: "sum",
    zero_optimization: { stage: 2 },
  }),
  "mixed.json": JSON.stringify({
    train_batch_size: 8,
    bf16: { enabled: true },
    data_types: { grad_accum_dtype: "fp32" },
  }),
});

async function recommended(flags: Partial<PlanFlags>) {
  const job = planJob({ ranks: 1, engine: "deepspeed", device: "A10G", ...flags });
  const { recommended: row, tried } = await answerPlan(job.subject, job.asked);
  return { placement: row?.placement, stages: new Set(tried.map(({ placement }) => placement.stage)) };
}

describe("a plan for DeepSpeed", () => {
  it("comes to the disk at stage 3, past stages that have none", async () => {
    const found = await recommended({ params: 7e9, hostMemory: 100e9, disk: 2e12, batch: 8, checkpointing: true });
    expect(found.placement).toEqual({ stage: 3, offloadOptimizer: "nvme", offloadParam: "none" });
  });

  it("has no stage 3 for a sum of gradients, which DeepSpeed refuses there", async () => {
    const found = await recommended({ params: 13e9, ranks: 8, hostMemory: 1e12, config: `${folder}/sums.json` });
    expect([...found.stages]).toEqual([0, 1, 2]);
  });

  it("has no stage 0 where gradients are added in another type", async () => {
    const found = await recommended({ params: 125e6, config: `${folder}/mixed.json` });
    expect(found.placement).toEqual({ stage: 1, offloadOptimizer: "none", offloadParam: "none" });
    expect((await recommended({ params: 125e6, batch: 8 })).placement?.stage).toBe(0);
  });
});
