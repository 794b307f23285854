"""Config: one recipe, as frozen dataclasses; read from TOML and from `--section.key value`, strictly."""

import dataclasses
import tomllib
import types
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from heedful.errors import BadInput, nearest
from heedful.models import CONFIGS
from heedful.models.translation import TranslationConfig


@dataclass(frozen=True)
class DataConfig:
    """Where examples come from, and how text becomes ids."""

    train: tuple[str, ...] = ()  # a TSV, two aligned files, or a part of a bundled corpus
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    folder: str = ""
    pattern: str = ""  # a regular expression with groups `source` and `target`, for other formats
    tokenizer: str = "bpe"
    target_tokenizer: str = ""  # given: source and target have vocabularies of their own
    vocabulary: int = 8000
    target_vocabulary: int = 8000


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. Ends after `steps`, `epochs` or `budget` (such as "10m"), whichever is set."""

    steps: int = 0
    epochs: int = 0
    budget: str = ""
    batch_tokens: int = 4096  # source and target, padding included, per micro-batch
    accumulate: int = 1
    lr: float = 1e-3
    warmup: int = 1000
    schedule: str = "inverse-root"
    optimizer: str = "adam"
    weight_decay: float = 0.0
    clip: float = 1.0
    smoothing: float = 0.1
    consistency: float = 0.0  # weight of the agreement between two passes under dropout (R-Drop)
    precision: str = "bfloat16"
    average: float = 0.0  # decay of the moving average of the weights; 0 is none
    save_every: int = 1000
    eval_every: int = 500
    patience: int = 0  # evaluations without a better dev loss before it stops; 0 is never
    keep: int = 2
    seed: int = 1
    threads: int = 0  # 0: as many as torch finds


@dataclass(frozen=True)
class Config:
    title: str = ""
    model: TranslationConfig = field(default_factory=TranslationConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def fill(kind: type, values: dict[str, Any], prefix: str = "") -> Any:
    """A dataclass from a table; an unknown key or a wrong type is named."""
    hints = typing.get_type_hints(kind)
    known = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key not in hints:
            raise BadInput(f"unknown key {name!r}{nearest(name, [prefix + h for h in hints])}")
        known[key] = convert(name, hints[key], value)
    return kind(**known)


def model_kind(table: dict[str, Any]) -> type:
    kind = table.get("kind", "translation")
    if kind not in CONFIGS:
        raise BadInput(f"model.kind {kind!r} is not one of {', '.join(CONFIGS)}{nearest(str(kind), CONFIGS)}")
    return CONFIGS[kind]


def convert(name: str, kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise BadInput(f"{name} should be a table, not {value!r}")
        return fill(model_kind(value) if name == "model" else kind, value, f"{name}.")
    if isinstance(kind, types.GenericAlias):
        items = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(item, str) for item in items):
            raise BadInput(f"{name} should be text or a list of texts, not {value!r}")
        return tuple(items)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"{name} should be {kind.__name__}, not {value!r}")
    return value


def parse(text: str) -> Any:
    """A value as written on the command line: TOML if it is that, else text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def override(table: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Lays `--model.layers 6` and `--model.layers=6` over a table."""
    table = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    position = 0
    while position < len(words):
        section, dot, key = words[position].removeprefix("--").partition(".")
        if not words[position].startswith("--") or not dot:
            raise BadInput(f"unexpected argument {words[position]!r}; settings look like --train.steps 300")
        end = position + 1
        while end < len(words) and not words[end].startswith("--"):
            end += 1
        if end == position + 1:
            raise BadInput(f"{words[position]} needs a value")
        values = [parse(word) for word in words[position + 1 : end]]
        table.setdefault(section, {})[key] = values[0] if len(values) == 1 else values
        position = end
    return table


def shipped() -> list[str]:
    folder = resources.files("heedful") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_recipe(recipe: str, words: list[str] | None = None) -> Config:
    """A shipped recipe by name, or a TOML file by path, with settings laid over it."""
    if recipe in shipped():
        text = (resources.files("heedful") / "recipes" / f"{recipe}.toml").read_text(encoding="utf-8")
    elif Path(recipe).is_file():
        text = read_text(Path(recipe))
    else:
        raise BadInput(f"no recipe {recipe!r}{nearest(recipe, shipped())}; shipped: {', '.join(shipped())}")
    return from_toml(text, recipe, words or [])


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error


def from_toml(text: str, name: str, words: list[str]) -> Config:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name}: {error}") from error
    try:
        return fill(Config, override(table, words))
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error


def to_toml(config: Config) -> str:
    """The whole config, every key, as a recipe that can be trained again."""
    lines = [f"title = {quoted(config.title)}"]
    for section in ("model", "data", "train"):
        lines += ["", f"[{section}]"]
        table = dataclasses.asdict(getattr(config, section))
        lines += [f"{key} = {quoted(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(quoted(item) for item in value)}]"
    if isinstance(value, str):
        plain = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in plain) + '"'
    return repr(value)
