"""A training so small that it ends in a second: words said backwards."""

import random
from pathlib import Path

from heedful.cli import main
from heedful.config import Config, load_recipe
from heedful.run import Run
from heedful.train import start
from heedful.train.loop import Trainer

WORDS = ["the", "cat", "dog", "runs", "sits", "on", "under", "mat", "house", "big", "small", "red"]
RECIPE = """
[data]
train = "train.tsv"
dev = "dev.tsv"
tokenizer = "words"

[model]
dim = 16
heads = 2
layers = 1
ff = 32
length = 32

[train]
steps = 24
batch_tokens = 200
accumulate = 2
warmup = 4
average = 0.9
save_every = 5
eval_every = 4
threads = 1
"""


def write_data(folder: Path) -> None:
    """80 and 12 sentences of 1 to 8 words, always the same."""
    draw = random.Random(0)
    for name, size in (("train", 80), ("dev", 12)):
        sentences = [[draw.choice(WORDS) for _ in range(draw.randint(1, 8))] for _ in range(size)]
        lines = [" ".join(words) + "\t" + " ".join(word[::-1] for word in words) for words in sentences]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "tiny.toml").write_text(RECIPE)


def config_in(folder: Path, *words: str) -> Config:
    return load_recipe(str(folder / "tiny.toml"), ["--data.folder", str(folder), *words])


def command(*words: object) -> int:
    """What `heedful` with these words would give: for a process of its own."""
    return main([str(word) for word in words])


def training(folder: Path, run: Path, *words: str) -> tuple[object, ...]:
    """The words of the command that trains in `run` on the data in `folder`."""
    return ("train", folder / "tiny.toml", "--run", run, "--data.folder", folder, *words)


def trainer(folder: Path, run: Path, *words: str) -> Trainer:
    """A trainer on the data in `folder` that has done nothing yet; `run` is a run already."""
    config = config_in(folder, *words)
    made, tokenizers = start.new_trainer(Run(run), config)
    made.run.create(made.config, tokenizers, start.hashes_of(config))
    return made


def trained(folder: Path, run: Path, *words: str) -> Trainer:
    """The same, after its training."""
    made = trainer(folder, run, *words)
    assert start.keep_going(made) == 0
    return made
