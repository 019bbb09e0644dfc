// What a configuration says of the parameters that are trained, and which names its patterns fit.
import { describe, expect, test } from "vitest";
import { parseConfigObject } from "../../src/config/json.ts";
import { examineConfig } from "../../src/config/resolve.ts";
import { freezeFault, frozenBy } from "../../src/nn/freeze.ts";

function resolve(shunya: object) {
  const file = parseConfigObject({ train_batch_size: 1, optimizer: { type: "AdamW" }, shunya });
  const { draft, problems } = examineConfig({ file, worldSize: 1 });
  const errors = problems.filter(({ level, path }) => level === "error" || path?.startsWith("shunya."));
  return { freeze: draft.freeze, lora: draft.lora, errors: errors.map(({ path, message }) => `${path}: ${message}`) };
}

describe("shunya.freeze and shunya.lora", () => {
  test("nothing is frozen and nothing added where nothing is said", () => {
    expect(resolve({})).toEqual({ freeze: [], lora: undefined, errors: [] });
    expect(resolve({ freeze: null, lora: { rank: null } })).toEqual({ freeze: [], lora: undefined, errors: [] });
  });

  test("one pattern or a list of them", () => {
    expect(resolve({ freeze: "*.bias" })).toMatchObject({ freeze: ["*.bias"], errors: [] });
    expect(resolve({ freeze: ["*.bias", "!*.ln_f.*"] }).freeze).toEqual(["*.bias", "!*.ln_f.*"]);
    for (const freeze of [[], [""], "", 3, [3], { a: 1 }])
      expect(resolve({ freeze }).errors.join(), JSON.stringify(freeze)).toMatch(/^shunya\.freeze: .*a list of names/);
  });

  test("a rank is enough; the rest is PEFT's", () => {
    const lora = { rank: 8, alpha: 8, targets: undefined, dropout: 0, rankStabilized: false };
    expect(resolve({ lora: { rank: 8 } })).toEqual({ freeze: [], lora, errors: [] });
    const given = { rank: 4, alpha: 0.5, targets: ["q_proj"], dropout: 0.1, rank_stabilized: true };
    const { rank_stabilized: rankStabilized, ...rest } = given;
    expect(resolve({ lora: given }).lora).toEqual({ ...rest, rankStabilized });
  });

  test.each([
    [{ lora: { alpha: 16 } }, /^shunya\.lora\.alpha: found without a rank/],
    [{ lora: { rank: 0 } }, /^shunya\.lora\.rank: found 0; wanted a positive whole number/],
    [{ lora: { rank: 8, dropout: 1 } }, /^shunya\.lora\.dropout: found 1; wanted a number from 0 to below 1/],
    [{ lora: { rank: 8, alpha: 0 } }, /^shunya\.lora\.alpha: found 0/],
    [{ lora: { rank: 8, alpha: -1 } }, /^shunya\.lora\.alpha: found -1/],
    [{ lora: { rank: 8, targets: [] } }, /^shunya\.lora\.targets: /],
    [{ lora: { rank: 8 }, freeze: "*.bias" }, /^shunya\.freeze: found beside shunya\.lora/],
    [{ lora: 8 }, /^shunya\.lora: found 8; wanted an object/],
  ])("%j is refused", (shunya, message) => {
    expect(resolve(shunya).errors.join()).toMatch(message);
  });
});

describe("patterns", () => {
  const names = ["transformer.wte.weight", "transformer.h.0.ln_1.weight", "transformer.h.0.attn.c_attn.bias"];

  test("the last one that fits a name counts", () => {
    const frozen = (patterns: readonly string[]) => names.filter(frozenBy(patterns));
    expect(frozen([])).toEqual([]);
    expect(frozen(["*.bias"])).toEqual([names[2]]);
    expect(frozen(["*", "!*.ln_1.*"])).toEqual([names[0], names[2]]);
    expect(frozen(["!*.ln_1.*", "*"])).toEqual(names);
    expect(frozen(["*", "!*.h.0.*", "*.bias"])).toEqual([names[0], names[2]]);
  });

  test("a pattern that fits nothing is told with one that does", () => {
    expect(freezeFault(["*.bias"], names)).toBeUndefined();
    expect(freezeFault(["*", "!*.bias"], names)).toBeUndefined();
    expect(freezeFault(["wte.weight"], names)).toMatch(/"wte\.weight"; did you mean "\*wte\.weight"\?/);
    expect(freezeFault(["*", "!*.atn.*"], names)).toMatch(/did you mean "\*\.attn\.\*"\?/);
    expect(freezeFault(["nonsense"], names)).toMatch(/names are such as transformer\.wte\.weight/);
  });

  test("something is frozen", () => {
    expect(freezeFault(["!*.bias"], ["a.bias", "a.weight"])).toMatch(/^nothing is frozen: \["!\*\.bias"\] train again/);
    expect(freezeFault(["*", "!*.bias"], ["a.bias", "a.weight"])).toBeUndefined();
  });

  test("something is left to train", () => {
    expect(freezeFault(["transformer.*"], names)).toMatch(/nothing would be left to train.* fit all 3 parameters/);
    expect(freezeFault(["*.weight", "*.bias"], names)).toMatch(/nothing would be left/);
  });
});
