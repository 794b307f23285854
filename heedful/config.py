"""Config: one recipe, as frozen dataclasses; read from TOML and from `--section.key value`, strictly."""

import dataclasses
import math
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from heedful.errors import BadInput, nearest
from heedful.models import CONFIGS
from heedful.models.translation import TranslationConfig

Tokenizers = Literal["bpe", "words", "characters"]


@dataclass(frozen=True)
class DataConfig:
    """Where examples come from, and how text becomes ids."""

    train: tuple[str, ...] = ()  # a TSV, two aligned files, or a part of a bundled corpus
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    folder: str = ""
    pattern: str = ""  # a regular expression with groups `source` and `target`, for other formats
    hold_out: float = 0.0  # the part of train that serves as dev, where there is no dev file
    unseen: bool = False  # takes out of train every source that dev asks for, as further answers to it
    rename: float = 0.0  # the share of the pairs with a common name that train with a made-up one instead
    tokenizer: Tokenizers | Literal["unigram"] = "bpe"  # unigram: of a model that was imported
    target_tokenizer: Tokenizers | Literal[""] = ""  # given: source and target have vocabularies of their own
    segmentations: int = 1  # ways in which each pair of train is cut into pieces: more is BPE-dropout
    vocabulary: int = 8000  # for words and characters, at most
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
    schedule: Literal["constant", "linear", "cosine", "inverse-root", "warmup-stable-decay"] = "inverse-root"
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    weight_decay: float = 0.0
    clip: float = 1.0
    smoothing: float = 0.1
    agreement: float = 0.0  # weight of the agreement between two passes under dropout (R-Drop)
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    average: float = 0.0  # decay of the moving average of the weights; 0 is none
    average_last: int = 0  # or: the mean of the weights at the last so many evaluations; 0 is none
    save_every: int = 1000
    eval_every: int = 500
    patience: int = 0  # evaluations without a better dev loss before it stops; 0 is never
    keep: int = 2
    seed: int = 1
    threads: int = 0  # 0: as many as torch finds
    parallel: Literal["ddp", "sharded"] = "ddp"  # how several processes train: see docs/machines.md
    watts: float = 8.0  # assumed of a core, memory included, where no counter of energy can be read
    gpu_watts: float = 300.0  # assumed of a GPU, there
    grams_per_kwh: float = 480.0  # of CO2e: the world's mean in 2023 (Ember, Global Electricity Review)
    track: Literal["", "tensorboard"] = ""  # what mirrors log.jsonl


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
    return CONFIGS[choose("model.kind", tuple(CONFIGS), table.get("kind", "translation"))]


class Typed(str):
    """A value as typed on the command line; what it means depends on the key."""


def convert(name: str, kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise BadInput(f"{name} should be a table, not {value!r}")
        return fill(model_kind(value) if name == "model" else kind, value, f"{name}.")
    choices = choices_of(kind)
    if choices:
        return choose(name, choices, value)
    if isinstance(kind, types.GenericAlias):
        items = value if isinstance(value, (list, tuple)) else as_list(value)
        return tuple(convert(name, str, item) for item in items)
    if isinstance(value, Typed):
        value = interpret(value, typing.cast(type, kind))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"{name} should be {NOUNS[kind]}, not {value!r}")
    return value if kind is not str else writable(name, value)


NOUNS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def choices_of(kind: Any) -> tuple[str, ...]:
    """The words that a Literal, or a union of such, allows."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(word for part in typing.get_args(kind) for word in choices_of(part))
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def choose(name: str, choices: tuple[str, ...], value: Any) -> str:
    value = interpret(value, str) if isinstance(value, Typed) else value
    if value in choices:
        return str(value)
    known = ", ".join(word for word in choices if word)
    raise BadInput(f"{name} {str(value)!r} is not one of {known}{nearest(str(value), choices)}")


def interpret(word: Typed, kind: type) -> Any:
    """TOML if it is that and of the right type, else the word itself."""
    try:
        value = tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        value = str(word)
    if kind is float and isinstance(value, str):
        try:
            return float(value)  # .5, which TOML would write 0.5
        except ValueError:
            return value
    return str(word) if kind is str and not isinstance(value, str) else value


def as_list(value: Any) -> list[Any]:
    """`--data.train '["a", "b"]'` is a list, as `--data.train a b` is; all else is one item."""
    given = interpret(value, list) if isinstance(value, Typed) else value
    return given if isinstance(given, list) else [value]


def writable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} is not UTF-8 text: {text!r}") from error
    return str(text)


# The least and the most of each number; where none is said, 0 and no limit.
LEAST = {"dim": 1, "heads": 1, "layers": 1, "ff": 1, "length": 3, "batch_tokens": 1, "accumulate": 1}
LEAST |= {"keep": 1, "lr": 1e-9, "segmentations": 1}
MOST = {"dropout": 0.99, "attention_dropout": 0.99, "smoothing": 0.99, "average": 0.99999, "hold_out": 0.9}
MOST |= {"rename": 1, "seed": 2**32 - 1, "length": 100_000, "threads": 1024}


def check(config: Config) -> Config:
    """The config, if its numbers make sense."""
    for section in ("model", "data", "train"):
        for key, value in dataclasses.asdict(getattr(config, section)).items():
            if type(value) in (int, float):
                check_number(f"{section}.{key}", value, LEAST.get(key, 0), MOST.get(key, math.inf))
    check_heads(config.model.dim, config.model.heads)
    if config.train.average and config.train.average_last:
        raise BadInput("train.average and train.average_last are two averages: choose one")
    seconds_in(config.train.budget)
    return config


def check_heads(dim: int, heads: int) -> None:
    if dim % heads:
        best = min((n for n in range(1, dim + 1) if dim % n == 0), key=lambda n: abs(n - heads))
        raise BadInput(f"model.heads {heads} does not divide model.dim {dim} (did you mean {best}?)")


def check_number(name: str, value: float, least: float, most: float) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        bounds = f"from {least} to {most}" if math.isfinite(most) else f"at least {least}"
        raise BadInput(f"{name} {value} should be {bounds}")


def seconds_in(budget: str) -> float:
    """'90s', '10m' or '2h' as seconds; 0 for ''."""
    units = {"s": 1, "m": 60, "h": 3600}
    if not budget:
        return 0.0
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([smh])", budget)
    seconds = float(found[1]) * units[found[2]] if found else 0.0
    if not seconds:
        raise BadInput(f"train.budget {budget!r} should look like 90s, 10m or 2h")
    return seconds


def override(table: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Lays `--model.layers 6` and `--model.layers=6` over a table."""
    table = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    for name, values in settings_in(words):
        section, dot, key = name.partition(".")
        if not dot or not isinstance(table.setdefault(section, {}), dict):
            raise BadInput(f"unexpected argument '--{name}'; settings look like --train.steps 300")
        if not values:
            raise BadInput(f"--{name} needs a value")
        table[section][key] = values[0] if len(values) == 1 else values
    return table


def settings_in(words: list[str]) -> list[tuple[str, list[Typed]]]:
    """Each `--name` with the words that belong to it."""
    settings: list[tuple[str, list[Typed]]] = []
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            settings.append((name, [Typed(value)] if equals else []))
        elif settings:
            settings[-1][1].append(Typed(word))
        else:
            raise BadInput(f"unexpected argument {word!r}; settings look like --train.steps 300")
    return settings


def shipped() -> list[str]:
    names = [entry.name for entry in (resources.files("heedful") / "recipes").iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


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
        return check(fill(Config, override(table, words)))
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
