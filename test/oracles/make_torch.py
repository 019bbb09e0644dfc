"""Makes the oracle in torch/: files that PyTorch's own torch.save wrote, and what is in them (expected.json).

model/ has a tiny GPT-2 as pytorch_model.bin, with what published files have: names without prefix, several element types, a
transposed tensor, two tensors in one storage, a mask buffer, a tied head. sharded/ has the same in two shards with their index.
llama/ has a tiny Llama in two shards, with the frequencies that old files have, and what is in them (llama-expected.json).
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


LLAMA = dict(hidden_size=8, intermediate_size=6, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)


def llama_weights():
    """Of each tensor's fan-out by fan-in, in several element types; keys and values are views of one storage."""
    torch.manual_seed(6)
    wide, hidden, keys = LLAMA["intermediate_size"], LLAMA["hidden_size"], 4
    state = OrderedDict({"model.embed_tokens.weight": torch.randn(VOCABULARY, hidden).bfloat16()})
    for layer in range(LLAMA["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        both = torch.randn(2 * keys, hidden)
        state[block + "self_attn.q_proj.weight"] = torch.randn(hidden, hidden).t()
        state[block + "self_attn.k_proj.weight"], state[block + "self_attn.v_proj.weight"] = both[:keys], both[keys:]
        state[block + "self_attn.o_proj.weight"] = torch.randn(hidden, hidden).half()
        state[block + "self_attn.rotary_emb.inv_freq"] = torch.ones(1)
        state[block + "mlp.gate_proj.weight"] = torch.randn(wide, hidden)
        state[block + "mlp.up_proj.weight"] = torch.randn(wide, hidden)
        state[block + "mlp.down_proj.weight"] = torch.randn(hidden, wide)
        state[block + "input_layernorm.weight"] = torch.randn(hidden)
        state[block + "post_attention_layernorm.weight"] = torch.randn(hidden)
    state["model.norm.weight"], state["lm_head.weight"] = torch.randn(hidden), torch.randn(VOCABULARY, hidden)
    return state


def make_llama(folder):
    """With the index that a published folder of two shards has."""
    folder.mkdir()
    sizes = dict(vocab_size=VOCABULARY, max_position_embeddings=16, rms_norm_eps=1e-5, tie_word_embeddings=False)
    (folder / "config.json").write_text(json.dumps(dict(model_type="llama", **LLAMA, **sizes)))
    state = llama_weights()
    names = list(state)
    save_shards(folder, state, {"pytorch_model-00001-of-00002.bin": names[:9], "pytorch_model-00002-of-00002.bin": names[9:]})
    expected = {name: tensor.float().flatten().tolist() for name, tensor in state.items() if "inv_freq" not in name}
    (folder.parent / "llama-expected.json").write_text(json.dumps(expected))


def save_shards(folder, state, shards):
    for shard, held in shards.items():
        torch.save({name: state[name] for name in held}, folder / shard)
    weight_map = {name: shard for shard, held in shards.items() for name in held}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("model", "sharded"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(config())
    state = weights()
    torch.save(state, folder / "model" / "pytorch_model.bin")
    names = list(state)
    shards = {"pytorch_model-00001-of-00002.bin": names[:14], "pytorch_model-00002-of-00002.bin": names[14:]}
    save_shards(folder / "sharded", state, shards)
    make_llama(folder / "llama")
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
