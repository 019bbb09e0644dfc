// Files that PyTorch wrote (test/oracles/make_torch.py): their values, and what is damaged or of another kind.
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { openTorchArchive } from "../../src/checkpoint/torch-archive.ts";
import { openTorchWeights } from "../../src/checkpoint/torch-weights.ts";
import { ModelError } from "../../src/errors/errors.ts";
import { copyModel, temporaryFolder } from "./files.ts";

const oracle = fileURLToPath(new URL("../oracles/torch/", import.meta.url));
const expected = JSON.parse(readFileSync(join(oracle, "expected.json"), "utf8")) as Record<string, number[]>;
const model = join(oracle, "model", "pytorch_model.bin");
const here = temporaryFolder();
afterAll(() => rmSync(here, { recursive: true }));

let files = 0;
function fileOf(bytes: Uint8Array): string {
  const path = join(here, `f${files++}.bin`);
  writeFileSync(path, bytes);
  return path;
}
async function refusal(path: string): Promise<string> {
  const error = await openTorchWeights(path).then(
    (file) => file.close(),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ModelError);
  return (error as ModelError).message;
}

describe("pytorch_model.bin", () => {
  for (const kind of ["model", "sharded"])
    test(`${kind}: every weight is PyTorch's, to the bit, also by parts`, async () => {
      await using folder = await openModelFolder(join(oracle, kind));
      const weights = folder.weights!;
      for (const [name, values] of Object.entries(expected)) {
        if (name.endsWith("masked_bias") || name === "lm_head.weight") continue;
        const wanted = Float32Array.from(values);
        expect([name, await weights.read(name, 0, wanted.length)]).toEqual([name, wanted]);
        for (let first = 0; first < wanted.length; first += 5) {
          const count = Math.min(7, wanted.length - first);
          expect(await weights.read(name, first, count)).toEqual(wanted.slice(first, first + count));
        }
      }
    });

  test("a Llama in shards: every weight is PyTorch's, and the frequencies of old files are no matter", async () => {
    const values = JSON.parse(readFileSync(join(oracle, "llama-expected.json"), "utf8")) as Record<string, number[]>;
    await using folder = await openModelFolder(join(oracle, "llama"));
    expect(folder.config).toMatchObject({ architecture: "llama", heads: 4, keyValueHeads: 2, tied: false });
    for (const [name, numbers] of Object.entries(values)) {
      const wanted = Float32Array.from(numbers);
      expect([name, await folder.weights!.read(name, 0, wanted.length)]).toEqual([name, wanted]);
      expect(await folder.weights!.read(name, 3, 4)).toEqual(wanted.slice(3, 7));
    }
    // Written again it is safetensors, with the same values.
    const copy = join(here, "llama");
    expect((await copyModel(folder, copy)).files).toEqual(["model.safetensors"]);
    await using again = await openModelFolder(copy);
    for (const [name, numbers] of Object.entries(values))
      expect(await again.weights!.read(name, 0, numbers.length)).toEqual(Float32Array.from(numbers));
  });

  test("safetensors are taken where both are there", async () => {
    const folder = join(here, "both");
    cpSync(join(oracle, "model"), folder, { recursive: true });
    writeFileSync(join(folder, "model.safetensors"), "no such file");
    await expect(openModelFolder(folder)).rejects.toThrow(/model\.safetensors/);
  });

  test("an index may name .bin files beside it alone", async () => {
    const folder = join(here, "elsewhere");
    cpSync(join(oracle, "sharded"), folder, { recursive: true });
    const index = join(folder, "pytorch_model.bin.index.json");
    writeFileSync(index, readFileSync(index, "utf8").replace("pytorch_model-00001", "../pytorch_model-00001"));
    await expect(openModelFolder(folder)).rejects.toThrow(/wanted a \.bin file name/);
  });
});

describe("values of torch.save", () => {
  const every = [
    ...[null, true, -1, 300, 70000, 2 ** 40, -(2n ** 63n), 2n ** 100n, 1.5, "क", Uint8Array.of(97, 98)],
    ...[[1, [2]], [1, 2, 3, 4], new Map([["a", new Map([[2, "b"]])]])],
  ];
  test.each(["values.pt", "values-3.pt", "values-4.pt", "values-5.pt"])("%s", async (name) => {
    await using archive = await openTorchArchive(join(oracle, name));
    const plain = name === "values.pt" ? (archive.value as Map<string, unknown>) : undefined;
    expect(plain?.get("values") ?? archive.value).toEqual(every);
    if (plain) expect([plain.get("dtype"), plain.get("size")]).toEqual(["BF16", [2, 3]]);
    await expect(openTorchWeights(join(oracle, name))).rejects.toThrow(/wanted (tensors alone|a dict of tensors)/);
  });
});

describe("what is refused", () => {
  test("a file that would run a command is not even looked into", async () => {
    expect(await refusal(join(oracle, "evil.bin"))).toMatch(
      /evil\.bin, data\.pkl, byte 169: found posix\.system; .* only tensors and plain values are read$/,
    );
    expect(existsSync("shunya-was-here")).toBe(false);
  });

  test("the format from before PyTorch 1.6, with the way out", async () => {
    expect(await refusal(join(oracle, "old.bin"))).toMatch(/from before version 1\.6.*torch\.save\(torch\.load\(f, /);
  });

  test("what is not there, no archive, another archive, a folder", async () => {
    expect(await refusal(join(here, "nowhere.bin"))).toMatch(/nowhere\.bin: no such file or folder/);
    expect(await refusal(fileOf(Buffer.from("text that is no archive")))).toMatch(/cannot be read as a zip archive/);
    expect(await refusal(fileOf(new Uint8Array()))).toMatch(/cannot be read as a zip archive/);
    const renamed = Buffer.from(readFileSync(model).toString("latin1").replaceAll("data.pkl", "data.pxl"), "latin1");
    expect(await refusal(fileOf(renamed))).toMatch(/a zip archive without data\.pkl/);
    expect(await refusal(here)).toMatch(/is not a regular file/);
  });

  test("a changed pickle, by its checksum; a storage of another length", async () => {
    const bytes = readFileSync(model);
    const changed = Buffer.from(bytes);
    changed[bytes.indexOf("wpe.weight")]! ^= 1;
    expect(await refusal(fileOf(changed))).toMatch(/data\.pkl is not what was written \(its checksum differs\)/);
  });

  test("a file cut anywhere, or with changed bytes: an answer or a ModelError", async () => {
    const bytes = readFileSync(model);
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.nat(bytes.length - 1), fc.nat(255), async (cut, at, value) => {
        expect(await refusal(fileOf(bytes.subarray(0, cut)))).toMatch(/\.bin/);
        const changed = Buffer.from(bytes);
        changed[at] = value;
        const path = fileOf(changed);
        const error = await openTorchWeights(path).then(
          (file) => file.close(),
          (thrown: unknown) => thrown,
        );
        if (error !== undefined) expect(error).toBeInstanceOf(ModelError);
        rmSync(path);
      }),
      { numRuns: 150 },
    );
  });
});
