"""Makes unequal.json: the tiny GPT-2 and Llama of the other oracles, trained on windows of which only some targets count.

The loss is the mean over all targets that count in the global batch, as torch.nn.functional.cross_entropy has it with ignore_index,
so how many a window has must not matter to it. `answers` says which targets count: one range [first, end) for each window; some have
none, and some times two of them follow each other. fp32 on one thread, torch's own AdamW and clip_grad_norm_.

    python3 make_unequal.py     # needs PyTorch and transformers 4.57; reads what make_gpt2.py and make_llama.py wrote
"""
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import make_gpt2

HERE = Path(__file__).parent
SEQUENCE, GLOBAL_BATCH, STEPS, IGNORED = 32, 8, 20, -100
LEARNING_RATE, WEIGHT_DECAY, CLIP, BETAS, EPSILON = 1e-3, 0.01, 1.0, (0.9, 0.999), 1e-8


def draw_answers():
    generator = np.random.default_rng(3)
    answers = []
    for sample in range(STEPS * GLOBAL_BATCH):
        first = int(generator.integers(0, SEQUENCE))
        end = int(generator.integers(first + 1, SEQUENCE + 1))
        step, place = divmod(sample, GLOBAL_BATCH)
        answers.append([0, 0] if place == 5 or (step % 3 == 0 and place in (2, 3)) else [first, end])
    return answers


def train(logits_of, parameters, tokens, answers):
    """Windows in the order of the file; losses and gradient norms before clipping."""
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        samples = range(step * GLOBAL_BATCH, (step + 1) * GLOBAL_BATCH)
        windows = torch.stack([tokens[s * SEQUENCE : s * SEQUENCE + SEQUENCE + 1] for s in samples])
        targets = torch.full((GLOBAL_BATCH, SEQUENCE), IGNORED)
        for row, (first, end) in enumerate(answers[s] for s in samples):
            targets[row, first:end] = windows[row, 1 + first : 1 + end]
        logits = logits_of(windows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, CLIP)))
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "grad_norms": norms}


def main():
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    tokens = torch.from_numpy(np.fromfile(HERE / "gpt2-tiny" / "tokens.bin", dtype="<u2").astype(np.int64))
    answers = draw_answers()
    weights = {name: t.requires_grad_() for name, t in load_file(HERE / "gpt2-tiny" / "model" / "model.safetensors").items()}
    gpt2 = train(lambda inputs: make_gpt2.logits_of(weights, inputs), list(weights.values()), tokens, answers)
    model = AutoModelForCausalLM.from_pretrained(HERE / "llama-family" / "llama", dtype=torch.float32, attn_implementation="eager")
    llama = train(lambda inputs: model(inputs).logits, list(model.train().parameters()), tokens, answers)
    settings = {
        "seq": SEQUENCE, "global_batch": GLOBAL_BATCH, "steps": STEPS, "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY,
        "clip": CLIP, "betas": BETAS, "eps": EPSILON, "answers": answers, "gpt2": gpt2, "llama": llama,
    }
    (HERE / "unequal.json").write_text(json.dumps(settings))
    for name in ("gpt2", "llama"):
        print(f"{name}: loss {settings[name]['losses'][0]:.4f} to {settings[name]['losses'][-1]:.4f}")


if __name__ == "__main__":
    main()
