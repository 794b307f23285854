"""Run: a folder that says what a model is, how it was trained and what it scored.

config.toml, tokenizer.json, model.safetensors   what it is
checkpoints/STEP/                                where training can go on
log.jsonl, card.md                               what happened, what it scored
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful import disk
from heedful.config import Config, from_toml, read_text, to_toml
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.models import BUILD


@dataclass(frozen=True)
class Run:
    folder: Path

    @property
    def weights(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def log_file(self) -> Path:
        return self.folder / "log.jsonl"

    def config(self) -> Config:
        path = self.folder / "config.toml"
        if not path.is_file():
            raise BadInput(f"{self.folder} is not a run: it has no config.toml")
        return from_toml(read_text(path), str(path), [])

    def tokenizers(self, config: Config) -> tuple[Tokenizer, Tokenizer]:
        """The source's and the target's, which may be one and the same."""
        source = Tokenizer.load(self.folder / "tokenizer.json")
        if not config.model.target_vocabulary:
            return source, source
        return source, Tokenizer.load(self.folder / "tokenizer.target.json")

    def create(self, config: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"{self.folder}: cannot be made: {error.strerror}") from error
        source, target = tokenizers
        disk.write(self.folder / "tokenizer.json", source.save)
        if target is not source:
            disk.write(self.folder / "tokenizer.target.json", target.save)
        disk.write_text(self.folder / "config.toml", to_toml(config))

    def log(self, event: dict[str, Any]) -> None:
        with self.log_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def events(self) -> Iterator[dict[str, Any]]:
        """What the log tells; a last line that was cut off is passed over."""
        if not self.log_file.is_file():
            return
        for line in self.log_file.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def save_weights(self, tensors: dict[str, Tensor], facts: dict[str, Any] | None = None) -> None:
        disk.write(self.weights, lambda aside: disk.save_tensors(aside, tensors, facts))


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Each weight once: a tied one under its first name."""
    return dict(model.named_parameters())


def check_fit(own: dict[str, Tensor], saved: dict[str, Tensor], path: Path) -> None:
    """Names the first weight that is missing, too much or of another shape."""
    for name in sorted(own.keys() ^ saved.keys()):
        raise BadInput(f"{path}: {'lacks' if name in own else 'has an unknown'} weight {name!r}")
    for name, weight in own.items():
        if weight.shape != saved[name].shape:
            shapes = f"{tuple(saved[name].shape)}, but the config makes it {tuple(weight.shape)}"
            raise BadInput(f"{path}: weight {name!r} is {shapes}")


def copy_into(own: dict[str, Tensor], saved: dict[str, Tensor], path: Path) -> None:
    check_fit(own, saved, path)
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(saved[name])


def shipped() -> Run:
    """The English to French translator that comes with the package."""
    return Run(Path(str(resources.files("heedful") / "shipped" / "tatoeba-enfr")))


def build(config: Config) -> nn.Module:
    return BUILD[config.model.kind](config.model)


def checkpoints(run: Run) -> list[Path]:
    """Oldest first."""
    folder = run.folder / "checkpoints"
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def save_checkpoint(run: Run, step: int, tensors: dict[str, Tensor], facts: dict[str, Any], keep: int) -> None:
    folder = run.folder / "checkpoints"
    folder.mkdir(exist_ok=True)

    def make(aside: Path) -> None:
        aside.mkdir()
        disk.save_tensors(aside / "training.safetensors", tensors, facts)

    disk.write(folder / f"{step:09d}", make)
    for old in checkpoints(run)[:-keep]:
        disk.discard(old)


def with_vocabularies(config: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> Config:
    source, target = tokenizers
    own = 0 if target is source else len(target)
    model = dataclasses.replace(config.model, vocabulary=len(source), target_vocabulary=own)
    return dataclasses.replace(config, model=model)


def load_model(run: Run, config: Config) -> nn.Module:
    """The trained model, ready for inference, in float32."""
    model = build(config)
    tensors, _ = disk.load_tensors(run.weights)
    copy_into(weights_of(model), tensors, run.weights)
    return model.eval()


def is_empty(folder: Path) -> bool:
    return not folder.exists() or not os.listdir(folder)
