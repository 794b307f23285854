"""Run: a folder that says what a model is, how it was trained and what it scored.

config.toml, tokenizer.json, model.safetensors   what it is
data.json                                        what its data files held
checkpoints/STEP.safetensors                     where training can go on
log.jsonl, card.md                               what happened, what it scored
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful import disk
from heedful.compact import expand
from heedful.config import Config, from_toml, read_text, to_toml
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.models import BUILD

TOKENIZERS = ("tokenizer.json", "tokenizer.target.json")
ANYTIME = ("dropout", "attention_dropout")  # settings of a model that leave its weights their meaning


@dataclass(frozen=True)
class Run:
    folder: Path

    @property
    def config_file(self) -> Path:
        return self.folder / "config.toml"

    @property
    def weights(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def log_file(self) -> Path:
        return self.folder / "log.jsonl"

    @property
    def data_file(self) -> Path:
        return self.folder / "data.json"

    @property
    def scores_file(self) -> Path:
        return self.folder / "scores.json"

    def config(self, settings: Sequence[str] = ()) -> Config:
        """What config.toml says, with settings as on the command line laid over it."""
        if not os.path.lexists(self.config_file):
            raise BadInput(f"{self.folder} is not a run: it has no config.toml that can be read")
        return from_toml(read_text(self.config_file), str(self.config_file), list(settings))

    def tokenizers(self, config: Config) -> tuple[Tokenizer, Tokenizer]:
        """The source's and the target's, which may be one and the same."""
        first, second = (self.folder / name for name in TOKENIZERS)
        own = config.model.target_vocabulary
        source = load_tokenizer(first, config.model.vocabulary)
        if not own and not second.is_file():  # two tokenizers may also share one vocabulary
            return source, source
        return source, load_tokenizer(second, own or config.model.vocabulary)

    def tokenizers_hash(self) -> str:
        """Of the files, so that weights and tokenizers of two runs cannot be mixed up."""
        paths = [self.folder / name for name in TOKENIZERS]
        digests = [disk.digest_of_file(path) for path in paths if path.is_file()]
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def create(
        self, config: Config, tokenizers: tuple[Tokenizer, Tokenizer], data: dict[str, str] | None = None
    ) -> None:
        """Writes what the run is; config.toml comes last, and makes the folder a run.

        `data` has the hash of each data file, by its name in the config.
        """
        self.make()
        for name, tokenizer in zip(TOKENIZERS, dict.fromkeys(tokenizers), strict=False):
            disk.write(self.folder / name, tokenizer.save)
        disk.write_text(self.data_file, json.dumps(data or {}, indent=1) + "\n")
        disk.write_text(self.config_file, to_toml(config))

    def make(self) -> None:
        try:
            disk.make_folder(self.folder)
        except OSError as error:
            raise BadInput(f"{self.folder}: cannot be made: {error.strerror}") from error

    def check_data(self, now: dict[str, str]) -> None:
        """Names the first data file that is not what it was when the run began."""
        try:
            then = json.loads(read_text(self.data_file)) if self.data_file.is_file() else {}
        except ValueError as error:
            raise BadInput(f"{self.data_file}: damaged: {error}") from error
        for name in sorted(then.keys() & now.keys()):
            if then[name] != now[name]:
                hashes = f"its sha256 was {then[name][:12]}..., now {now[name][:12]}..."
                raise BadInput(f"data file {name!r} has changed since {self.folder} began: {hashes}")

    def scores(self) -> dict[str, dict[str, Any]]:
        """What `heedful evaluate` measured on each part of the data."""
        if not os.path.lexists(self.scores_file):
            return {}
        try:
            scores = json.loads(self.scores_file.read_text(encoding="utf-8"))
            if all({"sentences", "beam", "length_penalty"} <= part.keys() for part in scores.values()):
                return scores
        except (OSError, ValueError, AttributeError) as error:
            raise BadInput(f"{self.scores_file}: damaged: {error}") from error
        raise BadInput(f"{self.scores_file}: damaged: not what heedful evaluate writes")

    def log(self, event: dict[str, Any]) -> None:
        disk.append_text(self.log_file, json.dumps(event) + "\n")

    def events(self) -> Iterator[dict[str, Any]]:
        """What the log tells; a last line that was cut off is passed over."""
        if not self.log_file.is_file():
            return
        for line in self.log_file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def forget_after(self, step: int) -> None:
        """Takes from the log what a training that goes on from `step` will tell again."""
        if self.log_file.is_file():
            kept = [event for event in self.events() if event.get("step", 0) <= step]
            disk.write_text(self.log_file, "".join(json.dumps(event) + "\n" for event in kept))

    def save_weights(self, config: Config, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        facts = facts | {"model": meaning(config), "tokenizers": self.tokenizers_hash()}
        disk.write(self.weights, lambda aside: disk.save_tensors(aside, tensors, facts))


def load_tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer.load(path)
    if len(tokenizer) != vocabulary:
        raise BadInput(f"{path}: has {len(tokenizer):,} tokens, but the model was made for {vocabulary:,}")
    return tokenizer


def meaning(config: Config) -> dict[str, Any]:
    """The settings without which a model's weights mean nothing, as JSON gives them back."""
    settings = {k: v for k, v in dataclasses.asdict(config.model).items() if k not in ANYTIME}
    return json.loads(json.dumps(settings))


def check_meaning(config: Config, saved: Any, path: Path) -> None:
    """Names the first setting of the model that is not what the weights were saved with."""
    if not isinstance(saved, dict):
        raise BadInput(f"{path}: does not say which model it is of")
    own = meaning(config)
    usual = {field.name: field.default for field in dataclasses.fields(config.model)}
    for key in own | saved:
        was, now = saved.get(key, usual.get(key)), own.get(key)  # the file may be older than the setting
        if was != now:
            raise BadInput(f"{path}: was made with model.{key} = {was!r}, but the config says {now!r}")


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Each weight once: a tied one under its first name."""
    return dict(model.named_parameters())


def check_fit(own: dict[str, Tensor], saved: dict[str, Tensor], path: Path) -> None:
    """Names the first weight that is missing, too much, of another shape or not of numbers with a point."""
    for name in sorted(own.keys() ^ saved.keys()):
        raise BadInput(f"{path}: {'lacks' if name in own else 'has an unknown'} weight {name!r}")
    for name, weight in own.items():
        if weight.shape != saved[name].shape:
            shapes = f"{tuple(saved[name].shape)}, but the config makes it {tuple(weight.shape)}"
            raise BadInput(f"{path}: weight {name!r} is {shapes}")
        if not saved[name].is_floating_point():
            raise BadInput(f"{path}: weight {name!r} is of type {saved[name].dtype}")


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


def with_vocabularies(config: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> Config:
    source, target = tokenizers
    own = 0 if target is source else len(target)
    model = dataclasses.replace(config.model, vocabulary=len(source), target_vocabulary=own)
    return dataclasses.replace(config, model=model)


def load_model(run: Run, config: Config) -> nn.Module:
    """The trained model, ready for inference, in float32."""
    tensors, facts = disk.load_tensors(run.weights)
    check_meaning(config, facts.get("model"), run.weights)
    if facts.get("tokenizers") != run.tokenizers_hash():
        raise BadInput(f"{run.weights}: was trained with another tokenizer than the one in {run.folder}")
    model = build(config)
    copy_into(weights_of(model), expand(tensors), run.weights)
    return model.eval()


def can_begin(folder: Path) -> bool:
    """Nothing is there, or only what a training that was killed before it began may have left."""
    leavings = {*TOKENIZERS, "data.json", ".lock"}
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return not folder.is_file() and all(n in leavings or n.endswith(disk.PART) for n in there)
