// A model of your own, trained at stage 3: npx shunya launch --ranks 2 examples/own-model.ts [steps]
import { readFileSync } from "node:fs";
import type { Tape, Tensor } from "shunya";
import * as shunya from "shunya";

const width = 64;
const length = 64; // bytes of a window
const batch = 4; // windows of a rank in a step

/** Attention, then a gated layer: down(gelu(up x) * gate x). Properties that are modules make the tree of parameters. */
class GatedBlock extends shunya.Module {
  norm1 = new shunya.LayerNorm(width);
  mix = new shunya.CausalSelfAttention({ hidden: width, heads: 4, name: "mix" });
  norm2 = new shunya.LayerNorm(width);
  up = new shunya.Linear(width, 2 * width);
  gate = new shunya.Linear(width, 2 * width);
  down = new shunya.Linear(2 * width, width);

  forward(tape: Tape, x: Tensor): Tensor {
    const mixed = shunya.add(tape, x, this.mix.forward(tape, this.norm1.forward(tape, x)));
    const normed = this.norm2.forward(tape, mixed);
    const gated = shunya.multiply(tape, this.up.forwardGelu(tape, normed), this.gate.forward(tape, normed));
    return shunya.add(tape, mixed, this.down.forward(tape, gated));
  }
}

class ByteModel extends shunya.Module {
  bytes = new shunya.Embedding(256, width);
  places = new shunya.Embedding(length, width);
  blocks = new shunya.ModuleList(Array.from({ length: 3 }, () => new GatedBlock()));
  norm = new shunya.LayerNorm(width);

  /** The mean cross-entropy of the next bytes. A segment is where its module's own parameters are there to be used. */
  async forward(tape: Tape, batch: { inputs: Tensor; places: Tensor; targets: Tensor }): Promise<Tensor> {
    let x = await this.segment(tape, [], () =>
      this.bytes.forward(tape, batch.inputs, this.places.forward(tape, batch.places)),
    );
    for (const block of this.blocks) x = await block.run(tape, x); // each block is gathered, used and released
    return this.segment(tape, [x], (x) =>
      shunya.headLoss(tape, this.norm.forward(tape, x), this.bytes.weight, batch.targets),
    );
  }
}

const text = Int32Array.from(readFileSync(new URL(import.meta.url)));
const optimizer = { type: "AdamW", params: { lr: 3e-3 } };
const config = { train_micro_batch_size_per_gpu: batch, zero_optimization: { stage: 3 }, optimizer };
await using engine = await shunya.initialize({ model: new ByteModel(), config });
const { rank, worldSize } = engine.group;
const places = { data: Int32Array.from({ length: batch * length }, (_, i) => i % length), shape: [batch, length] };
for (let step = 0; step < Number(process.argv[2] ?? 300); step++) {
  const first = ((step * worldSize + rank) * 97) % (text.length - batch * length - 1);
  const tokens = (from: number) => ({ data: text.slice(from, from + batch * length), shape: [batch, length] });
  await engine.backward(await engine.forward({ inputs: tokens(first), places, targets: tokens(first + 1) }));
  const record = await engine.step();
  if (rank === 0 && step % 50 === 49) console.log(`step ${step + 1}  loss ${record?.loss.toFixed(3)}`);
}
