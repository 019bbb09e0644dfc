/** Exercise 5: the four legs of a step whose optimizer is on the host, over slower and slower links. */
import { linkNamed } from "../../../src/hardware/links.ts";
import { machineOf } from "../../../src/hardware/presets.ts";
import { rateText } from "../../../src/hardware/rate.ts";
import {
  accumulationThatHides,
  cpuAdamSeconds,
  hidingTokens,
  type OffloadRates,
  offloadLegs,
  offloadStepSeconds,
} from "../../../src/planner/offload-time.ts";
import { formatCount } from "../../../src/report/numbers.ts";
import { wrap } from "../../../src/report/wrap.ts";
import { seconds, table } from "./print.ts";
import { trafficOf } from "./traffic.ts";

const job = { parameters: 1.5e9, tokens: 2048, ranks: 1, hosts: 1 };
const ratesOver = (linkBytesPerSecond: number): OffloadRates => ({
  operationsPerSecond: 150e12,
  linkBytesPerSecond,
  updateSecondsPerBillion: cpuAdamSeconds.fast,
});

export async function slowerLink(): Promise<string> {
  const narrow = linkNamed("PCIe 3 x8").nominal.value;
  const parts = [
    "1.5e9 parameters, 2,048 tokens, one A100 at 150 TFLOP/s; seconds:",
    table(
      ["link", ">compute", ">down", ">update", ">up", ">down / compute", ">micro-batches"],
      [25e9, 12e9, narrow].map(legs),
    ),
    `A step over ${rateText(25e9)}, and the tokens that hide all that can be hidden:`,
    table(["schedule", ">seconds", ">tokens"], schedules(25e9)),
    refusal("PCIe 3 x8 @ 12GB/s"),
    "GPT-2 XL on 1 rank, elements that go down in a step of 3 micro-batches:",
    table(["stage", ">down"], [await down(1), await down(2)]),
  ];
  return parts.join("\n\n");
}

function legs(linkBytesPerSecond: number): string[] {
  const rates = ratesOver(linkBytesPerSecond);
  const { compute, down, update, up } = offloadLegs(job, rates);
  const slow = offloadLegs(job, { ...rates, updateSecondsPerBillion: cpuAdamSeconds.slow }).update;
  return [
    rateText(linkBytesPerSecond),
    seconds(compute),
    seconds(down),
    `${seconds(update)} to ${seconds(slow)}`,
    seconds(up),
    (down / compute).toFixed(2),
    String(accumulationThatHides(down, compute)),
  ];
}

function schedules(linkBytesPerSecond: number): string[][] {
  const rates = ratesOver(linkBytesPerSecond);
  const parts = offloadLegs(job, rates);
  const step = offloadStepSeconds(parts);
  const tokens = hidingTokens(job.parameters, parts, rates);
  return [
    ["a transfer alone", seconds(parts.down), formatCount(tokens.transfer)],
    ["serial", seconds(step.serial), "-"],
    ["overlapped", seconds(step.overlapped), formatCount(tokens.overlapped)],
    ["early forward", seconds(step.earlyForward), formatCount(tokens.earlyForward)],
    ["delayed", seconds(step.delayed), formatCount(tokens.delayed)],
  ];
}

/** What is said of a rate that a link cannot carry. */
function refusal(hostLink: string): string {
  try {
    machineOf({ device: "A100-40GB", overrides: { hostLink } });
  } catch (error) {
    return `"${hostLink}" is refused:\n${wrap((error as Error).message, { indent: 2, first: 2 }).replace(/^/, "  ")}`;
  }
  throw new Error(`${hostLink} was taken`);
}

async function down(stage: 1 | 2): Promise<string[]> {
  const { traffic } = await trafficOf({ stage, ranks: 1, microBatches: 3, offload: true });
  return [String(stage), formatCount(traffic.down.elementsSent)];
}
