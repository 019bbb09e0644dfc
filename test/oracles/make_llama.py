"""Makes the oracles in llama-family/: tiny random models of each family as Hugging Face writes them, and what transformers makes of them.

Each folder has config.json, its weights (one file or shards; F32, F16 or BF16) and logits.json: the logits of the token that
follows the first n tokens of gpt2-tiny/tokens.bin, in fp32. Some have losses.json too: 20 steps of AdamW in fp32 on one thread.
Of the last ones sequences are longer than the window, or than the original positions.

    python3 make_llama.py                # needs PyTorch and transformers: 4.57 wrote those up to qwen3, 5.24 the others
    python3 make_llama.py make NAME ...  # only these
    python3 make_llama.py check FOLDER   # loads a folder that was written elsewhere: every tensor there, and none too many
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

HERE = Path(__file__).parent
VOCABULARY, HIDDEN, LAYERS = 256, 64, 2
LENGTHS = (1, 2, 17, 48)
SEQUENCE, GLOBAL_BATCH, STEPS = 64, 8, 20
LEARNING_RATE, WEIGHT_DECAY, CLIP, BETAS, EPSILON = 1e-3, 0.01, 1.0, (0.9, 0.999), 1e-8

COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 80,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
# Short original positions, so that a scaling shows within 48 tokens.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
SMALL = {"hidden_size": 32, "intermediate_size": 40}
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 32,
    "short_factor": [1.0, 1.1, 1.3, 1.5],
    "long_factor": [1.2, 1.9, 3.1, 4.0],
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}

# Folder to (model_type, settings, element type, shards).
MODELS = {
    "llama": ("llama", {"rope_theta": 500000.0, "rope_scaling": LLAMA3, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}, torch.float32, 1),
    "llama-biased": (
        "llama",
        {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4, "rope_scaling": {"type": "linear", "factor": 2.0}},
        torch.float16,
        1,
    ),
    "mistral": ("mistral", {"sliding_window": 64, "num_key_value_heads": 1, "head_dim": 24}, torch.bfloat16, 1),
    "qwen2": ("qwen2", {"rope_scaling": YARN, "rope_theta": 1000000.0, "tie_word_embeddings": True}, torch.float16, 1),
    "qwen3": ("qwen3", {"head_dim": 32, "rope_theta": 1000000.0}, torch.bfloat16, 2),
    "mistral-window": ("mistral", {**SMALL, "sliding_window": 8}, torch.bfloat16, 1),
    "qwen2-window": (
        "qwen2",
        {**SMALL, "use_sliding_window": True, "sliding_window": 11, "max_window_layers": 1, "tie_word_embeddings": True},
        torch.bfloat16,
        1,
    ),
    "llama-longrope": ("llama", {**SMALL, "rope_scaling": LONGROPE, "tie_word_embeddings": True}, torch.bfloat16, 1),
}
TRAINED = ("llama", "mistral-window", "qwen2-window", "llama-longrope")


def make_model(model_type, settings, dtype):
    """Weights far from their usual beginning, so that every norm, bias and scaling shows; exact in `dtype`."""
    config = AutoConfig.for_model(model_type, **{**COMMON, **settings})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = 1.0 if "norm" in name else 0.0
            noise = torch.randn(parameter.shape, generator=generator) * (0.2 if parameter.dim() == 1 else 0.15)
            parameter.copy_((around + noise).to(dtype).float())
    return model.eval()


def save(folder, model, dtype, shards):
    folder.mkdir(parents=True, exist_ok=True)
    model.config.torch_dtype = dtype
    model.config.architectures = [type(model).__name__]
    (folder / "config.json").write_text(model.config.to_json_string())
    tensors = {n: p.detach().to(dtype).contiguous() for n, p in model.named_parameters()}
    if shards == 1:
        return save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    names, places = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: tensors[n] for n in names[i::shards]}
        save_file(part, folder / file, {"format": "pt"})
        places.update({n: file for n in part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}, indent=1))


def logits_of(model, tokens):
    with torch.no_grad():
        return [model(tokens[None, :n]).logits[0, -1].double().tolist() for n in LENGTHS]


def train(model, tokens):
    """As make_gpt2.py: windows in the order of the file; losses and gradient norms before clipping."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        starts = [(step * GLOBAL_BATCH + i) * SEQUENCE for i in range(GLOBAL_BATCH)]
        windows = torch.stack([tokens[start : start + SEQUENCE + 1] for start in starts])
        logits = model(windows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        optimizer.step()
        losses.append(loss.item())
    return {
        "seq": SEQUENCE, "global_batch": GLOBAL_BATCH, "steps": STEPS, "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY,
        "clip": CLIP, "betas": BETAS, "eps": EPSILON, "losses": losses, "grad_norms": norms,
    }


def make(tokens, names):
    for name in names:
        model_type, settings, dtype, shards = MODELS[name]
        folder = HERE / "llama-family" / name
        model = make_model(model_type, settings, dtype)
        save(folder, model, dtype, shards)
        loaded, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        logits = logits_of(loaded.eval(), tokens)
        rounded = [[float(f"{v:.8g}") for v in row] for row in logits]
        (folder / "logits.json").write_text(json.dumps({"lengths": LENGTHS, "logits": rounded}))
        if name in TRAINED:
            (folder / "losses.json").write_text(json.dumps(train(loaded.train(), tokens), indent=1))
        print(f"{name}: {sum(p.numel() for p in loaded.parameters())} parameters, logits to {max(map(max, logits)):.3f}")


def check(folder, tokens):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    problems = {k: v for k, v in info.items() if v}
    assert not problems, problems
    print(json.dumps({"architecture": type(model).__name__, "logits": [row[:4] for row in logits_of(model.eval(), tokens)]}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    stored = np.fromfile(HERE / "gpt2-tiny" / "tokens.bin", dtype="<u2").astype(np.int64)
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        check(sys.argv[2], torch.from_numpy(stored))
    else:
        make(torch.from_numpy(stored), sys.argv[2:] if sys.argv[1:2] == ["make"] else MODELS)
