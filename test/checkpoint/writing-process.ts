// Begins to write a model over another one, says so in the middle of it, and never ends. Arguments: the model, and the other's folder.
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { defaultFormat } from "../../src/checkpoint/weight-names.ts";
import { writeModel } from "../../src/checkpoint/write-model.ts";
import { contentOf } from "./files.ts";

await using opened = await openModelFolder(process.argv[2]!);
const content = contentOf(opened);
const values = async function* (tensor: (typeof content.tensors)[number]): AsyncGenerator<Float32Array> {
  if (tensor.name.includes("h.2.")) {
    process.stdout.write("midway\n");
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  }
  yield* content.values(tensor);
};
await writeModel(process.argv[3]!, { ...content, values }, { ...defaultFormat, dtype: "bf16", maxShardBytes: 100_000 });
