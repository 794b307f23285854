"""Checkpoint: one file from which a training goes on bit for bit, or an error that says why it cannot."""

from pathlib import Path
from typing import Any

from torch import Tensor

from heedful import disk
from heedful.config import Config, TrainConfig
from heedful.errors import BadInput, Damaged
from heedful.run import Run, check_fit, check_meaning, copy_into, meaning
from heedful.train import optimizers
from heedful.train.engine import cut_like, wholes
from heedful.train.weights import Weights

# Settings of a training whose change would give its place in the data, or what its optimizer
# remembers, another meaning. All others may change on the way.
FIXED = ("seed", "batch_tokens", "optimizer", "average", "average_last")


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
        raise Damaged(f"{path}: is not a checkpoint of a training")
    if facts.get("step") != step_of(path):
        raise Damaged(f"{path}: is not the checkpoint of step {step_of(path)}")
    check_meaning(config, facts.get("model"), path)
    for key, now in identity(config, data)["train"].items():
        was = saved.get(key, getattr(TrainConfig, key))  # the file may be older than the setting
        if was != now:
            raise BadInput(f"{path}: was made with train.{key} = {was!r}, but the config says {now!r}")
    if facts.get("data") != data:
        was = f"it was {facts.get('data')}, and is {data}"
        raise BadInput(f"{path}: the training examples have changed since ({was})")


def tensors_of(weights: Weights, opts: list) -> dict[str, Tensor]:
    """All that a training holds, whole: another number of processes can go on with it."""
    tensors = {f"weight.{name}": w for name, w in weights.masters.items()}
    tensors |= {f"average.{name}": w for name, w in weights.average.items()}
    for number, recent in enumerate(weights.recent):
        tensors |= {f"recent.{number}.{name}": w for name, w in recent.items()}
    tensors |= {f"optimizer.{name}": w for name, w in optimizers.memory_of(opts).items()}
    return wholes(tensors)


def save(run: Run, tensors: dict[str, Tensor], facts: dict[str, Any], keep: int) -> None:
    """Writes a checkpoint, then forgets all but the newest `keep`, and any of later steps: there a
    training has been that could not be read again."""
    folder, step = folder_of(run), facts["step"]
    try:
        disk.make_folder(folder)
    except OSError as error:
        raise disk.unwritable(folder, error) from error
    disk.write(folder / f"{step:09d}.safetensors", lambda aside: disk.save_tensors(aside, tensors, facts))
    known = checkpoints(run)
    current = [path for path in known if step_of(path) <= step]
    for path in {*known} - {*current[-keep:]}:
        disk.try_discard(path)


def recall(path: Path, tensors: dict[str, Tensor], weights: Weights, opts: list) -> None:
    """Puts the tensors back where `save` took them from, once all of them are known to fit."""
    kinds: dict[str, dict[str, Tensor]] = {"weight": {}, "average": {}, "recent": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind not in kinds:
            raise BadInput(f"{path}: has an unknown tensor {name!r}")
        kinds[kind][rest] = tensor
    check_fit(weights.masters, kinds["weight"], path)
    check_fit(weights.average, kinds["average"], path)
    recent = recent_of(kinds["recent"], weights, path)
    optimizers.check_memory(opts, kinds["optimizer"], path)
    for own, kind in ((weights.masters, "weight"), (weights.average, "average")):
        saved = {name: cut_like(tensor, own[name]) for name, tensor in kinds[kind].items()}
        copy_into(own, saved, path)
    weights.recent = recent
    weights.publish()
    optimizers.recall(opts, kinds["optimizer"])


def recent_of(saved: dict[str, Tensor], weights: Weights, path: Path) -> list[dict[str, Tensor]]:
    """The weights at the last evaluations, each of them whole, oldest first."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in saved.items():
        number, _, rest = name.partition(".")
        found.setdefault(number, {})[rest] = tensor
    if {*found} != {str(number) for number in range(len(found))} or len(found) > weights.last:
        raise BadInput(f"{path}: its weights of the last evaluations are not those of {weights.last}")
    for each in found.values():
        check_fit(weights.masters, each, path)
    return [
        {name: cut_like(tensor, weights.masters[name]).float() for name, tensor in found[str(number)].items()}
        for number in range(len(found))
    ]
