"""Makes the oracle in deepspeed/: checkpoints that DeepSpeed itself wrote of a tiny GPT-2 (Hugging Face's names), trained for three
steps on CPU ranks over Gloo, and beside each what DeepSpeed says that its states are (expected.safetensors: `tensor|kind`, gathered
by safe_get_full_fp32_param and safe_get_full_optimizer_state). One of them is there as a universal checkpoint too. The runs of
continued/ and of llama/ (transformers' Llama) went on after they were saved: on tokens.bin (uint16), window i beginning at token 5 i,
with these losses (losses.json).

Sizes are odd, so that partitions are padded: at stages 1 and 2 at the end of each group, at stage 3 at the end of each tensor.
Made with DeepSpeed 0.19.8, torch 2.8.0 and transformers 5.24.0 (in a virtual environment outside of the repository):

    python3 make_deepspeed.py [folder [run]]    # folder defaults to deepspeed beside this file; one run alone, into an empty folder
"""
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

HIDDEN, VOCABULARY, POSITIONS, LAYERS = 5, 11, 5, 2
RUNS = {
    "stage1": dict(world=3, stage=1, precision="bf16", groups=2),
    "stage2": dict(world=2, stage=2, precision="fp32", groups=1, frozen="transformer.wpe"),
    "continued": dict(world=2, stage=2, precision="fp32", groups=1, more=4),
    "stage3": dict(world=2, stage=3, precision="bf16", groups=2),
    "llama": dict(world=2, stage=3, precision="fp32", groups=1, more=3, llama=True),
    "stage3-sub-groups": dict(world=3, stage=3, precision="fp32", groups=1, sub_group=200, frozen="transformer.wpe"),
}
STEPS = 3


def build():
    import torch
    from torch import nn

    class Conv1D(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.02)
            self.bias = nn.Parameter(torch.zeros(outputs))

        def forward(self, x):
            return x @ self.weight + self.bias

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn, self.c_proj = Conv1D(HIDDEN, 3 * HIDDEN), Conv1D(HIDDEN, HIDDEN)

        def forward(self, x):
            q, k, v = self.c_attn(x).split(HIDDEN, -1)
            future = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype).triu(1)
            return self.c_proj((q @ k.transpose(-1, -2) / HIDDEN**0.5 + future).softmax(-1) @ v)

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_fc, self.c_proj = Conv1D(HIDDEN, 4 * HIDDEN), Conv1D(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            return self.c_proj(nn.functional.gelu(self.c_fc(x), approximate="tanh"))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(HIDDEN), Attention()
            self.ln_2, self.mlp = nn.LayerNorm(HIDDEN), Mlp()

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Body(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(POSITIONS, HIDDEN)
            self.h = nn.ModuleList(Block() for _ in range(LAYERS))
            self.ln_f = nn.LayerNorm(HIDDEN)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
            for block in self.h:
                x = block(x)
            return self.ln_f(x)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.transformer = Body()
            self.lm_head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
            self.lm_head.weight = self.transformer.wte.weight

        def forward(self, tokens, targets):
            logits = self.lm_head(self.transformer(tokens)).float()
            return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))

    torch.manual_seed(3)
    return Gpt2()


def build_llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=8, intermediate_size=6)
    heads = dict(num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2)

    class Llama(LlamaForCausalLM):
        def forward(self, tokens, targets):
            logits = super().forward(input_ids=tokens).logits.float()
            return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))

    torch.manual_seed(3)
    return Llama(LlamaConfig(**sizes, **heads, attn_implementation="eager"))


def rank(name, folder):
    import deepspeed
    import torch
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    run = RUNS[name]
    r = int(os.environ["RANK"])
    deepspeed.init_distributed("gloo")
    torch.set_num_threads(1)
    model = build_llama() if run.get("llama") else build()
    for n, p in model.named_parameters():
        if run.get("frozen") and n.startswith(run["frozen"]):
            p.requires_grad = False
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if run["groups"] == 2:
        parameters = [
            {"params": [p for n, p in trained if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for n, p in trained if p.ndim == 1], "weight_decay": 0.0},
        ]
    else:
        parameters = [p for n, p in trained]
    precision = run["precision"]
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01, "torch_adam": True}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": 10}},
        "zero_optimization": {"stage": run["stage"], "stage3_param_persistence_threshold": 0},
        "gradient_clipping": 1.0,
    }
    if run.get("sub_group"):
        config["zero_optimization"]["sub_group_size"] = run["sub_group"]
    if precision == "bf16":
        config["bf16"] = {"enabled": True}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=parameters, config=config)
    for step in range(STEPS):
        g = torch.Generator().manual_seed(100 * step + r)
        tokens = torch.randint(VOCABULARY, (2, POSITIONS + 1), generator=g)
        loss = engine(tokens[:, :-1], tokens[:, 1:])
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(folder)
    if run["stage"] < 3:
        # DeepSpeed 0.19.8 links the states of the first parameter group alone, since it steps group by group.
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    expected = {}
    for name, parameter in engine.module.named_parameters():
        if parameter.requires_grad:
            expected[name + "|master"] = safe_get_full_fp32_param(parameter)
            expected[name + "|firstMoment"] = safe_get_full_optimizer_state(parameter, "exp_avg")
            expected[name + "|secondMoment"] = safe_get_full_optimizer_state(parameter, "exp_avg_sq")
        else:
            with deepspeed.zero.GatheredParameters([parameter], enabled=run["stage"] == 3):
                expected[name + "|master"] = parameter.detach().float().clone()
    if r == 0:
        save_safetensors(Path(folder) / "expected.safetensors", expected)
    if run.get("more"):
        go_on(engine, r, run, Path(folder))


def go_on(engine, r, run, folder):
    """Trains on, each step on the next windows of tokens.bin, as a loader that counts from the first step has them."""
    import torch

    steps = STEPS + run["more"]
    batch = 2 * run["world"]
    tokens = torch.randint(VOCABULARY, (POSITIONS * batch * steps + 1,), generator=torch.Generator().manual_seed(9))
    losses = []
    for step in range(STEPS, steps):
        starts = [POSITIONS * (step * batch + 2 * r + i) for i in range(2)]
        windows = torch.stack([tokens[start : start + POSITIONS + 1] for start in starts])
        loss = engine(windows[:, :-1], windows[:, 1:])
        engine.backward(loss)
        engine.step()
        torch.distributed.all_reduce(loss)
        losses.append(loss.item() / run["world"])
    if r == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
        (folder / "tokens.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens.tolist()))


def save_safetensors(path, tensors):
    header, pieces, offset = {}, [], 0
    for name, tensor in tensors.items():
        piece = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(piece)]}
        pieces.append(piece)
        offset += len(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(pieces))


def start_ranks(name, folder, port):
    world = RUNS[name]["world"]
    shared = dict(os.environ, DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    shared |= dict(WORLD_SIZE=str(world), LOCAL_SIZE=str(world))
    command = [sys.executable, __file__, "rank", name, str(folder)]
    ranks = [subprocess.Popen(command, env=shared | dict(RANK=str(r), LOCAL_RANK=str(r))) for r in range(world)]
    if any([process.wait() for process in ranks]):
        sys.exit(f"{name} failed")


def main(folder, only=None):
    shutil.rmtree(folder, ignore_errors=True)
    for i, name in enumerate(RUNS if only is None else [only]):
        start_ranks(name, folder / name, 29510 + i)
        for script in (folder / name).glob("*.py"):
            script.unlink()
    if only is not None:
        return
    source = folder / "stage1" / f"global_step{STEPS}"
    target = folder / "universal" / f"global_step{STEPS}_universal"
    convert = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state"]
    convert += ["--input_folder", str(source), "--output_folder", str(target)]
    subprocess.run(convert, env=dict(os.environ, DS_ACCELERATOR="cpu"), check=True)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "rank":
        rank(sys.argv[2], sys.argv[3])
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "deepspeed", *sys.argv[2:3])
