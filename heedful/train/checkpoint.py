"""Checkpoint: one file from which a training goes on bit for bit, or an error that says why it cannot."""

from pathlib import Path
from typing import Any

from torch import Tensor

from heedful import disk
from heedful.config import Config
from heedful.errors import BadInput
from heedful.run import Run, check_fit, check_meaning, copy_into, meaning
from heedful.train import optimizers
from heedful.train.weights import Weights

# Settings of a training whose change would give its place in the data, or what its optimizer
# remembers, another meaning. All others may change on the way.
FIXED = ("seed", "batch_tokens", "optimizer", "average")


def folder_of(run: Run) -> Path:
    return run.folder / "checkpoints"


def checkpoints(run: Run) -> list[Path]:
    """Oldest first."""
    return sorted(folder_of(run).glob("[0-9]*.safetensors"), key=step_of)


def step_of(path: Path) -> int:
    return int(path.stem) if path.stem.isdecimal() else -1


def identity(config: Config, data: str) -> dict[str, Any]:
    """What must be the same when a training goes on."""
    fixed = {key: getattr(config.train, key) for key in FIXED}
    return {"model": meaning(config), "train": fixed, "data": data}


def check_identity(config: Config, data: str, facts: dict[str, Any], path: Path) -> None:
    saved = facts.get("train")
    if not isinstance(saved, dict):
        raise BadInput(f"{path}: is not a checkpoint of a training")
    if facts.get("step") != step_of(path):
        raise BadInput(f"{path}: is not the checkpoint of step {step_of(path)}")
    check_meaning(config, facts.get("model"), path)
    for key, now in identity(config, data)["train"].items():
        was = saved.get(key)
        if was != now:
            raise BadInput(f"{path}: was made with train.{key} = {was!r}, but the config says {now!r}")
    if facts.get("data") != data:
        was = f"it was {facts.get('data')}, and is {data}"
        raise BadInput(f"{path}: the training examples have changed since ({was})")


def save(run: Run, weights: Weights, opts: list, facts: dict[str, Any], keep: int) -> None:
    """Writes a checkpoint, then forgets all but the newest `keep`, and any of later steps: there a
    training has been that could not be read again."""
    tensors = {f"weight.{name}": w for name, w in weights.masters.items()}
    tensors |= {f"average.{name}": w for name, w in weights.average.items()}
    tensors |= {f"optimizer.{name}": w for name, w in optimizers.memory_of(opts).items()}
    folder, step = folder_of(run), facts["step"]
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise disk.unwritable(folder, error) from error
    disk.write(folder / f"{step:09d}.safetensors", lambda aside: disk.save_tensors(aside, tensors, facts))
    known = checkpoints(run)
    current = [path for path in known if step_of(path) <= step]
    for path in {*known} - {*current[-keep:]}:
        disk.try_discard(path)


def recall(path: Path, tensors: dict[str, Tensor], weights: Weights, opts: list) -> None:
    """Puts the tensors back where `save` took them from, once all of them are known to fit."""
    kinds: dict[str, dict[str, Tensor]] = {"weight": {}, "average": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind not in kinds:
            raise BadInput(f"{path}: has an unknown tensor {name!r}")
        kinds[kind][rest] = tensor
    check_fit(weights.masters, kinds["weight"], path)
    check_fit(weights.average, kinds["average"], path)
    optimizers.check_memory(opts, kinds["optimizer"], path)
    copy_into(weights.masters, kinds["weight"], path)
    copy_into(weights.average, kinds["average"], path)
    weights.publish()
    optimizers.recall(opts, kinds["optimizer"])
