// Model folders as they are written: in each type, in shards, beside an older model, and where writing is interrupted.
import { spawn } from "node:child_process";
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { defaultFormat, type WeightType } from "../../src/checkpoint/weight-names.ts";
import { writeModel } from "../../src/checkpoint/write-model.ts";
import { contentOf, copyModel, temporaryFolder } from "./files.ts";

const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true, force: true }));
const oracle = (name: string): string => fileURLToPath(new URL(`../oracles/${name}`, import.meta.url));
const gpt2 = oracle("gpt2-tiny/model");
const llama = oracle("llama-family/llama");

/** Every file by name, with its bytes. */
const filesOf = (folder: string): Record<string, string> =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name)).toString("base64")]));

/** Tensor names by file, types and shapes of the whole. */
async function storedIn(folder: string): Promise<{ types: Set<string>; shapes: Map<string, string> }> {
  const found = { types: new Set<string>(), shapes: new Map<string, string>() };
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".safetensors"))) {
    await using file = await openSafetensors(join(folder, name));
    for (const [tensor, { dtype, shape }] of file.tensors) {
      expect(found.shapes.has(tensor)).toBe(false);
      found.shapes.set(tensor, shape.join());
      found.types.add(dtype);
    }
  }
  return found;
}

let folders = 0;
const newFolder = (): string => join(here, `m${folders++}`);

// The oracles were written by transformers' save_pretrained: what its classes expect is what is in them.
describe.each([
  ["gpt2", gpt2],
  ["llama", llama],
  ["qwen3, tied", oracle("llama-family/qwen3")],
])("%s", (_, from) => {
  test.each([
    ["fp32", "F32", "float32", 5e9],
    ["bf16", "BF16", "bfloat16", 5e9],
    ["fp16", "F16", "float16", 20_000],
  ] as const)("in %s it has the tensors that transformers wrote, and no other", async (dtype, stored, torch, most) => {
    await using opened = await openModelFolder(from);
    const folder = newFolder();
    const { files, bytes } = await copyModel(opened, folder, { dtype, maxShardBytes: most });
    const [wanted, found] = [await storedIn(from), await storedIn(folder)];
    expect([...found.shapes].toSorted()).toEqual([...wanted.shapes].toSorted());
    expect([...found.types]).toEqual([stored]);
    expect(JSON.parse(readFileSync(join(folder, "config.json"), "utf8")).torch_dtype).toBe(torch);
    expect(files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)).toBeGreaterThan(bytes);
    await using again = await openModelFolder(folder);
    expect(again.config).toEqual(opened.config);
    if (files.length === 1) return;
    const index = JSON.parse(readFileSync(join(folder, "model.safetensors.index.json"), "utf8"));
    expect(index.metadata.total_size).toBe(bytes);
    expect(Object.keys(index.weight_map).toSorted()).toEqual([...wanted.shapes.keys()].toSorted());
    expect(new Set(Object.values(index.weight_map))).toEqual(new Set(files));
  });
});

describe("in place of an older model", () => {
  test.each([
    ["one file", "three shards", 5e9, 300_000],
    ["three shards", "one file", 300_000, 5e9],
    ["three shards", "more of them", 300_000, 100_000],
    ["one file", "one file", 5e9, 5e9],
  ])("of %s, %s", async (_before, _after, before, after) => {
    await using opened = await openModelFolder(gpt2);
    const [folder, fresh] = [newFolder(), newFolder()];
    await copyModel(opened, folder, { maxShardBytes: before });
    writeFileSync(join(folder, "notes.txt"), "mine");
    await copyModel(opened, folder, { dtype: "bf16", maxShardBytes: after });
    await copyModel(opened, fresh, { dtype: "bf16", maxShardBytes: after });
    expect(filesOf(folder)).toEqual({ ...filesOf(fresh), "notes.txt": Buffer.from("mine").toString("base64") });
  });

  test("that stays as it was where the values end in an error", async () => {
    await using opened = await openModelFolder(gpt2);
    const folder = newFolder();
    cpSync(gpt2, folder, { recursive: true });
    const before = filesOf(folder);
    const content = contentOf(opened);
    const failing = async function* (tensor: (typeof content.tensors)[number]): AsyncGenerator<Float32Array> {
      if (tensor.name.includes("h.2.")) throw new Error("a rank is gone");
      yield* content.values(tensor);
    };
    const format = { ...defaultFormat, maxShardBytes: 50_000 };
    await expect(writeModel(folder, { ...content, values: failing }, format)).rejects.toThrow("a rank is gone");
    expect(filesOf(folder)).toEqual(before);
  });

  test("that stays as it was where the process is killed, and the next one cleans up", async () => {
    const folder = newFolder();
    cpSync(gpt2, folder, { recursive: true });
    const before = filesOf(folder);
    const script = fileURLToPath(new URL("writing-process.ts", import.meta.url));
    const child = spawn(process.execPath, ["--import", "tsx", script, gpt2, folder], { stdio: "pipe" });
    await new Promise<void>((resolve) => child.stdout.once("data", () => resolve()));
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("close", resolve));
    const partial = readdirSync(folder).filter((name) => name.startsWith(".model.partial-"));
    expect(partial).toHaveLength(1);
    const { [partial[0]!]: _, ...rest } = Object.fromEntries(readdirSync(folder).map((name) => [name, true]));
    expect(Object.keys(rest).toSorted()).toEqual(Object.keys(before).toSorted());
    for (const name of Object.keys(rest))
      expect(readFileSync(join(folder, name)).toString("base64")).toBe(before[name]);
    await using opened = await openModelFolder(folder);
    await copyModel(opened, folder, { dtype: "bf16" });
    expect(readdirSync(folder).toSorted()).toEqual(["config.json", "model.safetensors"]);
  }, 20_000);
});

test.each([
  ["fp16", 65_520, /tensor .*wte\.weight has the value 65520, beyond 65504, fp16's largest; write bf16 or fp32/],
  ["fp16", 65_519, undefined],
  ["bf16", 1e30, undefined],
] satisfies [WeightType, number, RegExp | undefined][])("%s and the value %d", async (dtype, value, refused) => {
  await using opened = await openModelFolder(gpt2);
  const content = contentOf(opened);
  const values = async function* (tensor: (typeof content.tensors)[number]): AsyncGenerator<Float32Array> {
    for await (const piece of content.values(tensor)) yield piece.fill(value);
  };
  const folder = newFolder();
  const written = writeModel(folder, { ...content, values }, { ...defaultFormat, dtype });
  if (refused) await expect(written).rejects.toThrow(refused);
  else await written;
  expect(readdirSync(folder)).toEqual(refused ? [] : ["config.json", "model.safetensors"]);
});
