"""Makes generation.json: what transformers' generate(do_sample=False) continues some prompts with, in fp32 on one thread.

Models are those of gpt2-tiny/ (config of model/, trained weights of final/) and llama-family/. Prompts are the first n tokens of
gpt2-tiny/tokens.bin. Of each step the distance between the two largest logits is kept too: a choice between near equals
could fall otherwise elsewhere.

    python3 make_generation.py    # needs PyTorch and transformers 5
"""
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
LENGTHS, NEW_TOKENS = (1, 7, 40), 40
FAMILIES = ("llama", "qwen2", "qwen3", "mistral-window", "qwen2-window")


def gpt2_folder(into):
    shutil.copy(HERE / "gpt2-tiny" / "model" / "config.json", into)
    shutil.copy(HERE / "gpt2-tiny" / "final" / "model.safetensors", into)
    return into


def continuations(folder, tokens):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    model.generation_config.eos_token_id = None
    found = []
    for length in LENGTHS:
        with torch.no_grad():
            out = model.generate(
                tokens[None, :length],
                attention_mask=torch.ones(1, length, dtype=torch.long),
                do_sample=False,
                max_new_tokens=NEW_TOKENS,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
        margins = [float(top[0] - top[1]) for top in (step[0].topk(2).values for step in out.logits)]
        found.append({"prompt_tokens": length, "tokens": out.sequences[0, length:].tolist(), "least_margin": min(margins)})
    return found


def main():
    torch.set_num_threads(1)
    tokens = torch.from_numpy(np.fromfile(HERE / "gpt2-tiny" / "tokens.bin", dtype="<u2").astype(np.int64))
    with tempfile.TemporaryDirectory() as folder:
        answers = {"gpt2-tiny": continuations(gpt2_folder(Path(folder)), tokens)}
    for name in FAMILIES:
        answers[name] = continuations(HERE / "llama-family" / name, tokens)
    lines = (f' "{name}": [\n' + ",\n".join("  " + json.dumps(a) for a in found) + "\n ]" for name, found in answers.items())
    (HERE / "generation.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print({name: [a["least_margin"] for a in found] for name, found in answers.items()})


if __name__ == "__main__":
    main()
