"""Makes peft/: fine-tuning of gpt2-tiny/model and llama-family/llama as PyTorch and PEFT do it, in fp32 on one thread.

frozen.json has 20 losses and gradient norms of each model with some parameters frozen (requires_grad=False).
gpt2/ and llama/ have 20 of LoRA (lora.json), the adapter that they began with (initial/) and ended with (final/), as PEFT saves it, and
the logits of the token that follows the first n tokens of gpt2-tiny/tokens.bin with the final adapter.

    python3 make_peft.py                      # needs PyTorch, transformers 5.24 and peft 0.21.2
    python3 make_peft.py check BASE ADAPTER   # loads an adapter that was written elsewhere: every tensor there, and none too many
"""
import fnmatch
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from transformers.utils import logging

HERE = Path(__file__).parent
OUTPUT = HERE / "peft"
VOCABULARY = 256
LENGTHS = (1, 17, 48)
SEQUENCE, GLOBAL_BATCH, STEPS = 64, 8, 20
WEIGHT_DECAY, CLIP, BETAS, EPSILON = 0.01, 1.0, (0.9, 0.999), 1e-8

BASES = {"gpt2": HERE / "gpt2-tiny" / "model", "llama": HERE / "llama-family" / "llama"}
FROZEN = {
    "gpt2": ["transformer.wte.*", "transformer.wpe.*", "transformer.h.0.*", "*.ln_2.weight"],
    "llama": ["model.embed_tokens.*", "model.layers.0.*", "*.mlp.up_proj.*"],
}
ADAPTERS = {
    # Layers of both halves of a block, one of them in front of an activation.
    "gpt2": LoraConfig(r=4, lora_alpha=16, target_modules=["c_attn", "c_fc", "c_proj"], task_type="CAUSAL_LM"),
    # PEFT's own choice of layers.
    "llama": LoraConfig(r=4, lora_alpha=8, use_rslora=True, task_type="CAUSAL_LM"),
}


def base(name):
    return AutoModelForCausalLM.from_pretrained(BASES[name], dtype=torch.float32, attn_implementation="eager")


def train(model, tokens, rate):
    """Windows in the order of the file; losses, and gradient norms before clipping."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        starts = [(step * GLOBAL_BATCH + i) * SEQUENCE for i in range(GLOBAL_BATCH)]
        windows = torch.stack([tokens[start : start + SEQUENCE + 1] for start in starts])
        logits = model(input_ids=windows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, CLIP)))
        optimizer.step()
        losses.append(loss.item())
    return {
        "seq": SEQUENCE, "global_batch": GLOBAL_BATCH, "steps": STEPS, "lr": rate, "weight_decay": WEIGHT_DECAY,
        "clip": CLIP, "betas": BETAS, "eps": EPSILON, "losses": losses, "grad_norms": norms,
    }


def logits_of(model, tokens):
    with torch.no_grad():
        rows = [model.eval()(input_ids=tokens[None, :n]).logits[0, -1].double().tolist() for n in LENGTHS]
    return [[float(f"{v:.8g}") for v in row] for row in rows]


def make(tokens):
    frozen = {}
    for name, patterns in FROZEN.items():
        model = base(name)
        for parameter_name, parameter in model.named_parameters():
            parameter.requires_grad_(not any(fnmatch.fnmatchcase(parameter_name, p) for p in patterns))
        frozen[name] = {"freeze": patterns, **train(model, tokens, 1e-3)}
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "frozen.json").write_text(json.dumps(frozen, indent=1))
    for name, config in ADAPTERS.items():
        torch.manual_seed(11)
        model = get_peft_model(base(name), config)
        # What a user's file would say, and no path of this machine.
        model.peft_config["default"].base_model_name_or_path = f"tiny-{name}"
        folder = OUTPUT / name
        model.save_pretrained(folder / "initial")
        trained = train(model.train(), tokens, 5e-3)
        model.save_pretrained(folder / "final")
        for card in folder.rglob("README.md"):
            card.unlink()
        values = {**trained, "lengths": LENGTHS, "logits": logits_of(model, tokens)}
        (folder / "lora.json").write_text(json.dumps(values))
        print(f"{name}: loss {trained['losses'][0]:.4f} to {trained['losses'][-1]:.4f}")


def check(base_folder, adapter, tokens):
    model = AutoModelForCausalLM.from_pretrained(base_folder, dtype=torch.float32, attn_implementation="eager")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*missing adapter keys.*")  # PEFT only warns of them
        loaded = PeftModel.from_pretrained(model, adapter)
    result = loaded.load_adapter(adapter, "again")
    assert not result.unexpected_keys, result.unexpected_keys
    assert not [key for key in result.missing_keys if "lora" in key and ".again." in key], result.missing_keys
    print(json.dumps({"lengths": LENGTHS, "logits": logits_of(loaded, tokens)}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    stored = torch.from_numpy(np.fromfile(HERE / "gpt2-tiny" / "tokens.bin", dtype="<u2").astype(np.int64))
    if len(sys.argv) == 4 and sys.argv[1] == "check":
        check(*sys.argv[2:], stored)
    else:
        make(stored)
