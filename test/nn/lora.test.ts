// Which layers get an adapter, what of the model is trained then, and what names that fit nothing are answered.
import { describe, expect, test } from "vitest";
import type { LoraConfig } from "../../src/config/types.ts";
import { describeModel } from "../../src/nn/describe.ts";
import { Linear } from "../../src/nn/layers.ts";
import { checkRank, targetNames } from "../../src/nn/lora.ts";
import { Gpt2 } from "../../src/nn/models/gpt2.ts";
import { Llama } from "../../src/nn/models/llama.ts";
import { llamaConfigs } from "../../src/nn/models/llama-published.ts";
import { Module } from "../../src/nn/module.ts";
import { tuned } from "../../src/nn/tuning.ts";
import { tinyGpt2 } from "../laws/models.ts";

const lora = (changes: Partial<LoraConfig> = {}): LoraConfig => ({
  ...{ rank: 4, alpha: 8, targets: undefined, dropout: 0, rankStabilized: false },
  ...changes,
});

const trainedOf = (model: Module) => model.namedParameters().filter(([, { trainable }]) => trainable);

describe("targets", () => {
  test("left out they are PEFT's: c_attn of GPT-2, q_proj and v_proj of Llama", () => {
    const gpt2 = trainedOf(tuned(new Gpt2(tinyGpt2), { freeze: [], lora: lora() }));
    expect(gpt2.map(([name]) => name)).toEqual(
      [0, 1].flatMap((i) => ["A", "B"].map((factor) => `transformer.h.${i}.attn.c_attn.lora_${factor}.weight`)),
    );
    expect(gpt2.map(([, { shape }]) => shape)).toEqual([
      [4, 32],
      [96, 4],
      [4, 32],
      [96, 4],
    ]);
    const llama = trainedOf(tuned(new Llama(llamaConfigs["smollm-135m"]!), { freeze: [], lora: lora() }));
    expect(new Set(llama.map(([name]) => name.replace(/\d+/, "*")))).toEqual(
      new Set(
        ["q_proj", "v_proj"].flatMap((layer) =>
          ["A", "B"].map((f) => `model.layers.*.self_attn.${layer}.lora_${f}.weight`),
        ),
      ),
    );
  });

  test("the published count of Llama 2 7B with rank 8: PEFT's 4,194,304", () => {
    const model = tuned(new Llama(llamaConfigs["llama-2-7b"]!), { freeze: [], lora: lora({ rank: 8 }) });
    expect(trainedOf(model).reduce((sum, [, { elements }]) => sum + elements, 0)).toBe(4_194_304);
  });

  test("a name is the end of a layer's, whole parts of it", () => {
    const layersOf = (...targets: string[]) =>
      trainedOf(tuned(new Gpt2({ ...tinyGpt2, layers: 1 }), { freeze: [], lora: lora({ targets }) })).flatMap(
        ([name]) => /h\.0\.(.*)\.lora_A/.exec(name)?.[1] ?? [],
      );
    expect(layersOf("c_proj")).toEqual(["attn.c_proj", "mlp.c_proj"]);
    expect(layersOf("mlp.c_proj", "c_fc")).toEqual(["mlp.c_fc", "mlp.c_proj"]);
    expect(layersOf("transformer.h.0.attn.c_attn")).toEqual(["attn.c_attn"]);
    expect(layersOf("all-linear")).toEqual(["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"]);
    expect(targetNames(new Gpt2(tinyGpt2), ["all-linear"])).toEqual(["c_attn", "c_proj", "c_fc"]);
  });

  test.each([
    ["proj", /no layer's name ends with "proj".*c_attn, c_proj, c_fc/],
    ["c_atn", /"c_atn"; did you mean c_attn\?/],
    ["wte", /"wte"/],
    ["ln_1", /"ln_1"/],
    ["c_attn.weight", /"c_attn\.weight"/],
  ])("%s is none", (target, message) => {
    const tune = () => tuned(new Gpt2(tinyGpt2), { freeze: [], lora: lora({ targets: ["c_attn", target] }) });
    expect(tune).toThrow(message);
  });
});

test("a rank above the smaller width of a layer that gets an adapter is refused by name", () => {
  const model = new Gpt2(tinyGpt2); // 32 wide
  const check = (changes: Partial<LoraConfig>) => () => checkRank(model, lora(changes));
  expect(check({ rank: 32, targets: ["all-linear"] })).not.toThrow();
  expect(check({ rank: 33 })).toThrow(
    /^shunya\.lora\.rank: found 33; wanted at most 32, the smaller width of layer transformer\.h\.0\.attn\.c_attn/,
  );
  const grouped = new Llama({ ...llamaConfigs["smollm-135m"]!, layers: 1 });
  expect(check({ rank: 192, targets: ["c_fc"] })).toThrow(/rank: found 192/);
  expect(() => checkRank(grouped, lora({ rank: 192 }))).not.toThrow();
  expect(() => checkRank(grouped, lora({ rank: 193 }))).toThrow(/at most 192, .*v_proj/);
});

test("a model of your own names its layers; its shared ones have one adapter, and a second time changes nothing", () => {
  class Own extends Module {
    readonly first = new Linear(3, 5);
    readonly again = this.first;
    readonly other = new Linear(5, 3, { layout: "inOut", bias: false });
  }
  expect(() => tuned(new Own(), { freeze: [], lora: lora() })).toThrow(/left out, and this model has neither of/);
  const model = new Own();
  const tuning = { freeze: [], lora: lora({ rank: 2, targets: ["first", "other"] }) };
  tuned(model, tuning);
  const before = model.namedParameters().map(([, parameter]) => parameter);
  const { description } = describeModel(tuned(model, tuning));
  expect(model.namedParameters().map(([, parameter]) => parameter)).toEqual(before);
  expect(description.units[0]!.parameters.map(({ name, shape, trainable }) => [name, shape.join(), trainable])).toEqual(
    [
      ["first.weight", "5,3", false],
      ["first.bias", "5", false],
      ["first.lora_A.weight", "2,3", true],
      ["first.lora_B.weight", "5,2", true],
      ["other.weight", "5,3", false],
      ["other.lora_A.weight", "2,5", true],
      ["other.lora_B.weight", "3,2", true],
    ],
  );
  expect(() => tuned(model, { freeze: [], lora: lora({ rank: 3, targets: ["first"] }) })).toThrow(/rank 2 already/);
});
