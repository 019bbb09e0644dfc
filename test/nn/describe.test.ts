// Models as data: names, units, sharing. Constructing a model of any size allocates nothing.
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { NotGatheredError, UsageError } from "../../src/errors/errors.ts";
import { describeModel } from "../../src/nn/describe.ts";
import { LayerNorm, Linear } from "../../src/nn/layers.ts";
import { Gpt2 } from "../../src/nn/models/gpt2.ts";
import { gpt2Configs } from "../../src/nn/models/gpt2-config.ts";
import { Module, ModuleList } from "../../src/nn/module.ts";
import { Parameter } from "../../src/nn/parameter.ts";
import { tinyGpt2 } from "../laws/models.ts";

class Pair extends Module {
  readonly first: Linear;
  readonly second: Linear;

  constructor(shared?: Linear) {
    super();
    this.first = new Linear(4, 4);
    this.second = shared ?? new Linear(4, 4);
  }
}

const unitNames = (model: Module): string[] => describeModel(model).description.units.map((u) => u.name);

describe("names and units", () => {
  test("GPT-2 has Hugging Face's names and shapes, a unit per block and the rest as the root", async () => {
    const config = { ...tinyGpt2, vocabularySize: 256, positions: 128, hidden: 64, layers: 3, heads: 4 };
    const { description, parameters } = describeModel(new Gpt2(config));
    expect(unitNames(new Gpt2(config))).toEqual(["(root)", "transformer.h.0", "transformer.h.1", "transformer.h.2"]);
    const path = fileURLToPath(new URL("../oracles/gpt2-tiny/model/model.safetensors", import.meta.url));
    await using file = await openSafetensors(path);
    expect(new Set(parameters.keys())).toEqual(new Set(file.tensors.keys()));
    for (const { name, shape } of description.units.flatMap((u) => u.parameters))
      expect(shape).toEqual(file.tensors.get(name)!.shape);
  });

  test("modules marked as units win over lists", () => {
    class Marked extends Module {
      readonly blocks = new ModuleList([new Pair(), new Pair()]);
      readonly head = new Linear(4, 2).unit();
    }
    expect(unitNames(new Marked())).toEqual(["(root)", "head"]);
  });

  test("the longest list makes the units, and a nested list stays inside its unit", () => {
    class Nested extends Module {
      readonly stem = new ModuleList([new LayerNorm(4)]);
      readonly layers = new ModuleList([0, 1].map(() => new ModuleList([new Linear(4, 4)])));
    }
    expect(unitNames(new Nested())).toEqual(["(root)", "layers.0", "layers.1"]);
    expect(unitNames(new Pair())).toEqual(["(root)"]);
  });

  test("a parameter belongs to the unit it is first met in; others say that they use it", () => {
    class Tied extends Module {
      readonly a = new Linear(4, 4).unit();
      readonly b: Pair;

      constructor() {
        super();
        this.b = new Pair(this.a).unit();
      }
    }
    const { units } = describeModel(new Tied()).description;
    expect(units.map((u) => [u.name, u.parameters.map((p) => p.name), u.uses])).toEqual([
      ["a", ["a.weight", "a.bias"], []],
      ["b", ["b.first.weight", "b.first.bias"], []],
    ]);
    class Table extends Module {
      readonly weight = new Parameter([4, 4], { kind: "constant", value: 0 });
    }
    class Head extends Module {
      readonly weight: Parameter;

      constructor(weight: Parameter) {
        super();
        this.weight = weight;
      }
    }
    class Shared extends Module {
      readonly table = new Table().unit();
      readonly head = new Head(this.table.weight).unit();
    }
    const shared = describeModel(new Shared()).description.units;
    expect(shared.map((u) => [u.name, u.parameters.length, u.uses])).toEqual([
      ["table", 1, []],
      ["head", 0, ["table"]],
    ]);
  });

  test("a model without parameters is refused", () => {
    class Empty extends Module {}
    expect(() => describeModel(new Empty())).toThrow(UsageError);
  });
});

describe("parameters are lazy", () => {
  test("GPT-2 XL is constructed and described in an instant", () => {
    const before = process.memoryUsage().arrayBuffers + process.memoryUsage().external;
    const { parameters } = describeModel(new Gpt2(gpt2Configs["gpt2-xl"]));
    const elements = [...parameters.values()].reduce((sum, p) => sum + p.elements, 0);
    expect(elements).toBe(1_557_611_200);
    expect(process.memoryUsage().arrayBuffers + process.memoryUsage().external - before).toBeLessThan(1e6);
  });

  test("values of a parameter that no engine holds are a named error", () => {
    const { parameters } = describeModel(new Pair());
    const weight = parameters.get("first.weight")!;
    expect(() => weight.value).toThrow(NotGatheredError);
    expect(() => weight.value).toThrow(/first\.weight.*no engine/);
    expect(() => weight.takeGradient()).toThrow(NotGatheredError);
  });
});
