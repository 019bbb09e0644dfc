"""Loads what write.ts wrote in DeepSpeed's own reader and compares: python check_handover.py FOLDER. Exit code 1 on any difference.

Needs torch and deepspeed (docs/plan-handover.md names the versions). No GPU, no process group: the number of ranks is all that the
reader asks of one, so that is replaced. Beyond the reader, the optimizer class that DeepSpeed's engine takes is asked whether it
has the parameters that the file gives it, and the schedule is made.
"""

import inspect
import json
import logging
import pathlib
import sys

import torch

import deepspeed
import deepspeed.comm as dist
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.zero.utils import ZERO_SUPPORTED_OPTIMIZERS
from deepspeed.utils import logger

logger.setLevel(logging.ERROR)


def read(path, ranks):
    dist.get_world_size = lambda group=None: ranks
    dist.get_rank = lambda group=None: 0
    return DeepSpeedConfig(str(path))


def device_of(section):
    return "none" if section is None else str(section.device)


def precision_of(config):
    return "bf16" if config.bfloat16_config.enabled else "fp16" if config.float16_config.enabled else "fp32"


# Which class DeepSpeed's engine makes of a name: on the device, and where states are offloaded.
OPTIMIZERS = {
    "adamw": (FusedAdam, DeepSpeedCPUAdam),
    "adam": (FusedAdam, DeepSpeedCPUAdam),
    "lion": (FusedLion, DeepSpeedCPULion),
    "adagrad": (torch.optim.Adagrad, DeepSpeedCPUAdagrad),
    "SGD": (torch.optim.SGD, torch.optim.SGD),
}
# Taken out by the engine before the class sees them.
ENGINE_PARAMETERS = ("torch_adam", "adam_w_mode", "fp32_optimizer_states")


def optimizer_problems(config, offload):
    kind = OPTIMIZERS[config.optimizer_name][offload != "none"]
    given = {k: v for k, v in config.optimizer_params.items() if k not in ENGINE_PARAMETERS}
    try:
        inspect.signature(kind.__init__).bind(None, [], **given)
    except TypeError as error:
        yield f"{kind.__name__}: {error}"
    tested = kind in ZERO_SUPPORTED_OPTIMIZERS or config.zero_allow_untested_optimizer
    if config.zero_enabled and not tested:
        yield f"{kind.__name__}: untested with ZeRO, and the file does not allow it"


def schedule_problems(config):
    if config.scheduler_name is None:
        return
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=1e-3)
    try:
        getattr(lr_schedules, config.scheduler_name)(optimizer, **config.scheduler_params)
    except Exception as error:
        yield f"{config.scheduler_name}: {error}"


def autos(value, path=""):
    if value == "auto":
        yield f'"auto" is left at {path}'
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from autos(inner, f"{path}.{key}")


def differences(job, path):
    try:
        config = read(path, job["ranks"])
    except Exception as error:
        return [f"refused: {type(error).__name__}: {error}"]
    zero = config.zero_config
    offload = device_of(zero.offload_optimizer)
    found = {
        "trainBatch": config.train_batch_size,
        "microBatch": config.train_micro_batch_size_per_gpu,
        "gradientAccumulation": config.gradient_accumulation_steps,
        "stage": int(config.zero_optimization_stage),
        "offloadOptimizer": offload,
        "offloadParam": device_of(zero.offload_param),
        "precision": precision_of(config),
        "optimizer": config.optimizer_name,
    }
    same = {**job, "optimizer": "SGD" if job["optimizer"] == "SGD" else job["optimizer"].lower()}
    told = [f"{key}: DeepSpeed {value}, Shunya {same[key]}" for key, value in found.items() if value != same[key]]
    number = config.gradient_clipping
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        told.append(f"gradient_clipping is {number!r}")
    written = json.loads(path.read_text())
    return [*told, *autos(written), *optimizer_problems(config, offload), *schedule_problems(config)]


def main():
    folder = pathlib.Path(sys.argv[1])
    jobs = json.loads((folder / "jobs.json").read_text())
    print(f"DeepSpeed {deepspeed.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"{'':3}{'job':20}{'engine':10}{'ranks':>5}  {'batch':13}{'stage':>5}  {'offload':11}{'type':5}{'optimizer':9}")
    failed = 0
    for job in jobs:
        told = [*differences(job, folder / job["file"])]
        told += [f"shunya config: {p['level']} {p['path']}: {p['message']}" for p in job["problems"]]
        failed += bool(told)
        batch = f"{job['trainBatch']}={job['microBatch']}x{job['gradientAccumulation']}x{job['ranks']}"
        places = f"{job['offloadOptimizer']},{job['offloadParam']}"
        print(
            f"{job['file'][:2]:3}{job['name']:20}{job['engine']:10}{job['ranks']:5}  {batch:13}{job['stage']:5}  "
            f"{places:11}{job['precision']:5}{job['optimizer']:9}{'same' if not told else 'NOT'}"
        )
        for line in told:
            print(f"     {line}")
    print(f"{len(jobs) - failed} of {len(jobs)} files load and say the same.")
    return failed > 0


sys.exit(main())
