// Real files and small questions: the answers of DeepSpeed 0.19.6's own reader, or better ones.
import { describe, expect, test } from "vitest";
import { parseConfigText } from "../../src/config/json.ts";
import { type ConfigResolution, examineConfig, type Override } from "../../src/config/resolve.ts";
import { ConfigError } from "../../src/errors/errors.ts";
import { type Case, cases, type Outcome } from "./cases.ts";
import { silentKeys } from "./silence.ts";

const short = (c: ConfigResolution): string =>
  `${c.stage} ${c.offloadOptimizer} ${c.offloadParam} ${c.microBatch}x${c.gradientAccumulation}=${c.trainBatch} ${c.precision}`;

/** Resolves a case on so many ranks; a file that cannot be parsed is an examination without a configuration. */
function examine({ text, micro }: Pick<Case, "text" | "micro">, worldSize: number) {
  const overrides: Override[] = micro === undefined ? [] : [["train_micro_batch_size_per_gpu", micro]];
  try {
    const file = parseConfigText(text, "ds.json");
    const examination = examineConfig({ file, overrides, worldSize });
    const silent = silentKeys(file.root, examination).filter(
      (key) => micro === undefined || !key.startsWith("train_micro"),
    );
    return { ...examination, silent };
  } catch (error) {
    if (error instanceof ConfigError) return { config: undefined, problems: error.problems, silent: [] };
    throw error;
  }
}

describe("real files", () => {
  test.each(cases)("$id", ({ on4, on8, sizes, warns = [], ...given }) => {
    for (const [worldSize, wanted] of [
      [4, on4],
      [8, on8 ?? on4],
    ] as const) {
      if (worldSize === 8 && on8 === undefined && typeof on4 === "string") continue;
      const { config, problems, silent } = examine(given, worldSize);
      const told = problems.map((p) => `${p.line === undefined ? "" : `line ${p.line}: `}${p.path}: ${p.message}`);
      expect(silent).toEqual([]);
      if (typeof wanted === "string") {
        expect(config && short(config), told.join("\n")).toBe(wanted);
        const { reduceBucketSize, allgatherBucketSize, paramPersistenceThreshold } = config!.sizes;
        if (sizes) expect([reduceBucketSize, allgatherBucketSize, paramPersistenceThreshold]).toEqual(sizes);
        expect(problems.filter((p) => p.level === "error")).toEqual([]);
      } else {
        expect(config).toBeUndefined();
        expect(told.filter((_, i) => problems[i]!.level === "error").join("\n")).toMatch(
          worldSize === 4 || on8 !== undefined ? wanted : /./,
        );
      }
      for (const warning of warns)
        expect(told.filter((_, i) => problems[i]!.level === "warning").join("\n")).toMatch(warning);
    }
  });

  test("each of the fifty is here", () => {
    const numbers = new Set(cases.map(({ id }) => id.slice(0, 2)));
    expect([...numbers]).toEqual(Array.from({ length: 50 }, (_, i) => String(2 * i + 1).padStart(2, "0")));
  });
});

describe("small questions to DeepSpeed's reader, on 4 ranks", () => {
  const one = "train_micro_batch_size_per_gpu: 1";
  const plain = "0 none none 1x1=4 fp32";
  const probes: readonly [name: string, text: string, wanted: Outcome][] = [
    ["a byte-order mark", `\uFEFF{${one}}`, plain],
    ["a # comment", `{\n# c\n${one}\n}`, plain],
    ["a bare key without braces", one, plain],
    ["a key twice in one object", `${one}\nfp16: {"enabled": true, "enabled": false}`, /enabled: .*already/],
    ["stage 2.0", `${one}\nzero_optimization: {"stage": 2.0}`, "2 none none 1x1=4 fp32"],
    ["stage 4", `${one}\nzero_optimization: {"stage": 4}`, /found 4; wanted 0, 1, 2, 3/],
    ["stage null", `${one}\nzero_optimization: {"stage": null}`, /found null/],
    ["zero_optimization null", `${one}\nzero_optimization: null`, /found null; wanted an object/],
    ["zero_optimization []", `${one}\nzero_optimization: []`, /found \[\]; wanted an object/],
    ["bucket 5.5", `${one}\nzero_optimization: {"reduce_bucket_size": 5.5}`, /found 5\.5/],
    [
      "bucket as text",
      `${one}\nzero_optimization: {"stage": 2, "reduce_bucket_size": "500000000"}`,
      "2 none none 1x1=4 fp32",
    ],
    ["bucket null", `${one}\nzero_optimization: {"reduce_bucket_size": null}`, /found null/],
    [
      "a device in capitals",
      `${one}\nzero_optimization: {"stage": 3, "offload_param": {"device": "CPU"}}`,
      /found "CPU"/,
    ],
    [
      "nvme without a path",
      `${one}\nzero_optimization: {"stage": 3, "offload_param": {"device": "nvme"}}`,
      "3 none nvme 1x1=4 fp32",
    ],
    [
      "offload_optimizer null",
      `${one}\nzero_optimization: {"stage": 2, "offload_optimizer": null}`,
      "2 none none 1x1=4 fp32",
    ],
    [
      "ratio 1.5",
      `${one}\nzero_optimization: {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 1.5}}`,
      /found 1\.5/,
    ],
    [
      "cpu_offload_param",
      `${one}\nzero_optimization: {"stage": 3, "cpu_offload_param": true}`,
      "3 none cpu 1x1=4 fp32",
    ],
    ["fp16 and bf16", `${one}\nfp16: {"enabled": true}\nbf16: {"enabled": true}`, /fp16 and bf16 are both enabled/],
    ["fp16.enabled yes", `${one}\nfp16: {"enabled": "yes"}`, "0 none none 1x1=4 fp16"],
    ["fp16.enabled 2", `${one}\nfp16: {"enabled": 2}`, /found 2; wanted true or false/],
    // DeepSpeed stops with a Python error; what is meant is plain.
    ["fp16 true", `${one}\nfp16: true`, "0 none none 1x1=4 fp16"],
    ["a window of 0", `${one}\nfp16: {"enabled": true, "loss_scale_window": 0}`, /loss_scale_window: found 0/],
    // DeepSpeed takes bf16 and says nothing.
    [
      "bf16 and bfloat16 differ",
      `${one}\nbf16: {"enabled": false}\nbfloat16: {"enabled": true}`,
      /same key as bf16\.enabled/,
    ],
    ["batch 8.0", "train_batch_size: 8.0", "0 none none 2x1=8 fp32"],
    ["batch 0", "train_batch_size: 0", /found 0/],
    ["batch null", "train_batch_size: null\ntrain_micro_batch_size_per_gpu: 2", "0 none none 2x1=8 fp32"],
    ["24 of 4", "train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 4", /24 != 4 \* 1 \* 4/],
    ["accumulation only", "gradient_accumulation_steps: 2", /no batch is given/],
    ["an empty file", "", /empty/],
    ["clipping as text", `${one}\ngradient_clipping: "1.0"`, plain],
    ["an optimizer without type", `${one}\noptimizer: {"params": {"lr": 1}}`, plain],
    ["fp8 between ranks", `${one}\ncommunication_data_type: "fp8"`, /found "fp8"; wanted "fp32", "bf16", "fp16"/],
    ["a tag rule that is none", `${one}\ncheckpoint: {"tag_validation": "maybe"}`, /found "maybe"/],
    ["elasticity and a batch", `${one}\nelasticity: {"enabled": true}`, /elasticity: .*write the batch keys/],
    // DeepSpeed refuses it later, when it builds the optimizer.
    ["legacy_stage1", `${one}\nzero_optimization: {"stage": 1, "legacy_stage1": true}`, /refuses it too/],
    [
      "16-bit states alone",
      `${one}\nbf16: {"enabled": true, "bf16_optimizer_states": true}`,
      /optimizer states are always fp32/,
    ],
  ];
  test.each(probes)("%s", (_, text, wanted) => {
    const { config, problems, silent } = examine({ text }, 4);
    const errors = problems.filter((p) => p.level === "error").map((p) => `${p.path}: ${p.message}`);
    expect(silent).toEqual([]);
    if (typeof wanted === "string") expect(config && short(config), errors.join("\n")).toBe(wanted);
    else expect(errors.join("\n")).toMatch(wanted);
  });
});
