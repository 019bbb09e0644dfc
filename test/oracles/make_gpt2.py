"""Makes the oracle in gpt2-tiny/: a small GPT-2 in Hugging Face's layout and what PyTorch makes of it in 40 steps.

Writes model/ (config.json and the first weights), expected.json (loss and gradient norm of every step) and final/ (the last
weights). Reads tokens.bin: byte-valued tokens as little-endian uint16. Everything is fp32 on one thread, with torch's own AdamW
and clip_grad_norm_, so an engine that agrees has the mathematics of PyTorch and not merely its own.

    python3 make_gpt2.py [folder]      # needs PyTorch and NumPy; folder defaults to gpt2-tiny beside this file
"""
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

VOCABULARY, POSITIONS, HIDDEN, LAYERS, HEADS = 256, 128, 64, 3, 4
SEQUENCE, GLOBAL_BATCH, STEPS = 64, 8, 40
LEARNING_RATE, WEIGHT_DECAY, CLIP, BETAS, EPSILON = 1e-3, 0.01, 1.0, (0.9, 0.999), 1e-8
LAYER_NORM_EPSILON = 1e-5


def initial_weights():
    """Name to tensor, drawn in this order from one generator: another order gives other weights."""
    generator = torch.Generator().manual_seed(7)

    def normal(*shape, deviation=0.02):
        return (torch.randn(*shape, generator=generator) * deviation).requires_grad_()

    def zeros(size):
        return torch.zeros(size).requires_grad_()

    def ones(size):
        return torch.ones(size).requires_grad_()

    # GPT-2 scales the projections into the residual stream down by the number of additions to it.
    residual = 0.02 / math.sqrt(2 * LAYERS)
    weights = {
        "transformer.wte.weight": normal(VOCABULARY, HIDDEN),
        "transformer.wpe.weight": normal(POSITIONS, HIDDEN, deviation=0.01),
    }
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            weights[block + norm + ".weight"] = ones(HIDDEN)
            weights[block + norm + ".bias"] = zeros(HIDDEN)
        weights[block + "attn.c_attn.weight"] = normal(HIDDEN, 3 * HIDDEN)
        weights[block + "attn.c_attn.bias"] = zeros(3 * HIDDEN)
        weights[block + "attn.c_proj.weight"] = normal(HIDDEN, HIDDEN, deviation=residual)
        weights[block + "attn.c_proj.bias"] = zeros(HIDDEN)
        weights[block + "mlp.c_fc.weight"] = normal(HIDDEN, 4 * HIDDEN)
        weights[block + "mlp.c_fc.bias"] = zeros(4 * HIDDEN)
        weights[block + "mlp.c_proj.weight"] = normal(4 * HIDDEN, HIDDEN, deviation=residual)
        weights[block + "mlp.c_proj.bias"] = zeros(HIDDEN)
    weights["transformer.ln_f.weight"] = ones(HIDDEN)
    weights["transformer.ln_f.bias"] = zeros(HIDDEN)
    return weights


def logits_of(weights, tokens):
    """tokens [batch, sequence] to logits [batch, sequence, vocabulary]; the head is the token embedding."""
    batch, sequence = tokens.shape
    future = torch.full((sequence, sequence), float("-inf")).triu(1)

    def norm(name, x):
        return F.layer_norm(x, (HIDDEN,), weights[name + ".weight"], weights[name + ".bias"], LAYER_NORM_EPSILON)

    def linear(name, x):  # Hugging Face's Conv1D: the weight is [in, out]
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    def split_heads(x):
        return x.view(batch, sequence, HEADS, HIDDEN // HEADS).transpose(1, 2)

    def gelu(x):  # the tanh form, "gelu_new"
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    stream = weights["transformer.wte.weight"][tokens] + weights["transformer.wpe.weight"][:sequence]
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        query, key, value = map(split_heads, linear(block + "attn.c_attn", norm(block + "ln_1", stream)).split(HIDDEN, 2))
        scores = query @ key.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS) + future
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, sequence, HIDDEN)
        stream = stream + linear(block + "attn.c_proj", mixed)
        inner = gelu(linear(block + "mlp.c_fc", norm(block + "ln_2", stream)))
        stream = stream + linear(block + "mlp.c_proj", inner)
    return norm("transformer.ln_f", stream) @ weights["transformer.wte.weight"].t()


def train(weights, tokens):
    """Trains in place, in the order of the file; returns the losses and the gradient norms before clipping."""
    parameters = list(weights.values())
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        starts = [(step * GLOBAL_BATCH + i) * SEQUENCE for i in range(GLOBAL_BATCH)]
        windows = torch.stack([tokens[start : start + SEQUENCE + 1] for start in starts])
        logits = logits_of(weights, windows[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, CLIP)))
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def save_safetensors(path, weights):
    header, pieces, offset = {}, [], 0
    for name, tensor in weights.items():
        piece = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(piece)]}
        pieces.append(piece)
        offset += len(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(pieces))


def hugging_face_config():
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": VOCABULARY,
        "n_positions": POSITIONS,
        "n_ctx": POSITIONS,
        "n_embd": HIDDEN,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": LAYER_NORM_EPSILON,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
    }


def main(folder):
    torch.set_num_threads(1)
    tokens = torch.from_numpy(np.fromfile(folder / "tokens.bin", dtype="<u2").astype(np.int64))
    weights = initial_weights()
    save_safetensors(folder / "model" / "model.safetensors", weights)
    (folder / "model" / "config.json").write_text(json.dumps(hugging_face_config(), indent=1))
    losses, norms = train(weights, tokens)
    expected = {
        "seq": SEQUENCE,
        "global_batch": GLOBAL_BATCH,
        "steps": STEPS,
        "lr": LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
        "clip": CLIP,
        "betas": list(BETAS),
        "eps": EPSILON,
        "losses": losses,
        "grad_norms": norms,
        "params": sum(tensor.numel() for tensor in weights.values()),
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1))
    save_safetensors(folder / "final" / "model.safetensors", weights)
    print(f"{folder}: {expected['params']} parameters, loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "gpt2-tiny")
