"""Optimizers: the paper's Adam, AdamW, and Muon for matrices with AdamW for the rest."""

from pathlib import Path

import torch
from torch import Tensor

from heedful.config import TrainConfig
from heedful.errors import BadInput, nearest
from heedful.train.engine import cut_like

BETAS = (0.9, 0.98)
EPSILON = 1e-9
MUON_SCALE = "match_rms_adamw"  # its updates as large as AdamW's, so that one rate is right for both


def adam(weights: dict[str, Tensor], config: TrainConfig) -> list[torch.optim.Optimizer]:
    return [torch.optim.Adam(list(weights.values()), config.lr, BETAS, EPSILON, fused=True)]


def adamw(weights: dict[str, Tensor], config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Weight decay on matrices only: norms and biases are not weights to shrink."""
    matrices = [w for w in weights.values() if w.ndim > 1]
    others = [w for w in weights.values() if w.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [torch.optim.AdamW(groups, config.lr, BETAS, EPSILON, fused=True)]


def muon(weights: dict[str, Tensor], config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Orthogonalised updates for the inner matrices; tables of vectors are Adam's."""
    inner = {n: w for n, w in weights.items() if w.ndim == 2 and "table" not in n}
    rest = {n: w for n, w in weights.items() if n not in inner}
    decay = config.weight_decay
    first = torch.optim.Muon(list(inner.values()), config.lr, weight_decay=decay, adjust_lr_fn=MUON_SCALE)
    return [first, *adamw(rest, config)]


OPTIMIZERS = {"adam": adam, "adamw": adamw, "muon": muon}
# What each remembers of a weight: numbers ("step"), or tensors of the weight's shape.
MEMORY = {
    torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.AdamW: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.Muon: {"momentum_buffer"},
}


def make(weights: dict[str, Tensor], config: TrainConfig) -> list[torch.optim.Optimizer]:
    if config.optimizer not in OPTIMIZERS:
        known = f"{nearest(config.optimizer, OPTIMIZERS)}: {', '.join(OPTIMIZERS)}"
        raise BadInput(f"train.optimizer {config.optimizer!r}{known}")
    optimizers = OPTIMIZERS[config.optimizer](weights, config)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full_lr"] = group["lr"]
    return optimizers


def set_rate(optimizers: list[torch.optim.Optimizer], factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["full_lr"] * factor


def memory_of(optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """All that the optimizers remember, as named tensors."""
    out = {}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            out |= {f"{number}.{index}.{key}": torch.as_tensor(value) for key, value in state.items()}
    return out


def check_memory(optimizers: list[torch.optim.Optimizer], tensors: dict[str, Tensor], path: Path) -> None:
    """Each weight is remembered in full or not at all, and nothing else is."""
    left = dict(tensors)
    for number, optimizer in enumerate(optimizers):
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        for index, weight in enumerate(weights):
            shapes = {f"{number}.{index}.{key}": weight.shape for key in MEMORY[type(optimizer)]}
            shapes = {name: () if name.endswith(".step") else shape for name, shape in shapes.items()}
            found = {name: left.pop(name) for name in shapes if name in left}
            fits = all(tensor.is_floating_point() for tensor in found.values())
            if found and not (fits and {name: tensor.shape for name, tensor in found.items()} == shapes):
                raise BadInput(f"{path}: what the optimizer remembers does not fit the model's weights")
    if left:
        raise BadInput(f"{path}: has an unknown tensor 'optimizer.{next(iter(left))}'")


def recall(optimizers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    for number, optimizer in enumerate(optimizers):
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            which, index, key = name.split(".", 2)
            if int(which) == number:
                state.setdefault(int(index), {})[key] = cut_like(tensor, weights[int(index)])
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
