"""Makes the oracle in torch/: files that PyTorch's own torch.save wrote, and what is in them (expected.json).

model/ has a tiny GPT-2 as pytorch_model.bin, with what published files have: names without prefix, several element types, a
transposed tensor, two tensors in one storage, a mask buffer, a tied head. sharded/ has the same in two shards with their index.
old.bin is in the format from before PyTorch 1.6. evil.bin would run a command in Python's reader. Made with torch 2.8.0:

    python3 make_torch.py [folder]      # folder defaults to torch beside this file
"""
import json
import os
import shutil
import sys
from collections import OrderedDict
from pathlib import Path

import torch

VOCABULARY, POSITIONS, HIDDEN, LAYERS = 7, 5, 4, 2


class Evil:
    def __reduce__(self):
        return os.system, ("touch shunya-was-here",)


def weights():
    torch.manual_seed(5)
    state = OrderedDict()
    state["wte.weight"] = torch.randn(VOCABULARY, HIDDEN)
    state["wpe.weight"] = torch.randn(POSITIONS, HIDDEN).half()
    for layer in range(LAYERS):
        block = f"h.{layer}."
        both = torch.randn(2 * HIDDEN)
        state[block + "ln_1.weight"], state[block + "ln_1.bias"] = both[:HIDDEN], both[HIDDEN:]
        state[block + "attn.bias"] = torch.ones(1, 1, POSITIONS, POSITIONS).tril().bool()
        state[block + "attn.masked_bias"] = torch.tensor(-1e4)
        state[block + "attn.c_attn.weight"] = torch.randn(3 * HIDDEN, HIDDEN).t()
        state[block + "attn.c_attn.bias"] = torch.randn(3 * HIDDEN).bfloat16()
        state[block + "attn.c_proj.weight"] = torch.nn.Parameter(torch.randn(HIDDEN, HIDDEN))
        state[block + "attn.c_proj.bias"] = torch.zeros(1).expand(HIDDEN)
        state[block + "ln_2.weight"] = torch.randn(HIDDEN)
        state[block + "ln_2.bias"] = torch.randn(HIDDEN)
        state[block + "mlp.c_fc.weight"] = torch.randn(HIDDEN, 4 * HIDDEN)
        state[block + "mlp.c_fc.bias"] = torch.randn(4 * HIDDEN)
        state[block + "mlp.c_proj.weight"] = torch.randn(4 * HIDDEN, HIDDEN)
        state[block + "mlp.c_proj.bias"] = torch.randn(HIDDEN)
    state["ln_f.weight"], state["ln_f.bias"] = torch.randn(HIDDEN), torch.randn(HIDDEN)
    state["lm_head.weight"] = state["wte.weight"]
    # What state_dict() of a module has beside its content.
    state._metadata = OrderedDict({"": {"version": 1}})
    return state


def config():
    sizes = dict(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=HIDDEN, n_layer=LAYERS, n_head=2)
    return json.dumps(dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], **sizes))


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("model", "sharded"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(config())
    state = weights()
    torch.save(state, folder / "model" / "pytorch_model.bin")
    names = list(state)
    shards = {"pytorch_model-00001-of-00002.bin": names[:14], "pytorch_model-00002-of-00002.bin": names[14:]}
    for shard, held in shards.items():
        torch.save({name: state[name] for name in held}, folder / "sharded" / shard)
    weight_map = {name: shard for shard, held in shards.items() for name in held}
    (folder / "sharded" / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    torch.save({"a": torch.zeros(2)}, folder / "old.bin", _use_new_zipfile_serialization=False)
    torch.save({"a": torch.zeros(2), "b": Evil()}, folder / "evil.bin")
    every = [None, True, -1, 300, 70000, 2**40, -(2**63), 2**100, 1.5, "क", b"ab", [1, [2]], (1, 2, 3, 4), {"a": {2: "b"}}]
    torch.save({"values": every, "dtype": torch.bfloat16, "size": torch.Size([2, 3])}, folder / "values.pt")
    for protocol in (3, 4, 5):
        torch.save(every, folder / f"values-{protocol}.pt", pickle_protocol=protocol)
    expected = {name: state[name].detach().float().flatten().tolist() for name in names if not name.endswith("attn.bias")}
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "torch")
