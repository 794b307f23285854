"""Convert: runs for other programs and from them. Names of weights are tables, one per format (names.py)."""

import os
from pathlib import Path

from heedful import card, disk
from heedful.config import Config, DataConfig, fill
from heedful.convert import ctranslate, huggingface, int8, marian
from heedful.convert.whole import Whole
from heedful.errors import BadInput
from heedful.run import Run, weights_of


def export(run: Run, folder: Path, to: str, quantization: str = "") -> None:
    """Writes what another program, or int8 a small disk, wants of a run."""
    if quantization and to != "ctranslate2":
        raise BadInput(f"--quantization {quantization}: goes with --to ctranslate2 only")
    refuse_taken(folder)
    if to == "int8":
        int8.to_int8(run, folder)
        return
    whole = Whole.of(run)
    if to == "ctranslate2":
        disk.write(folder, lambda aside: ctranslate.write(whole, aside, quantization or "float32"))
    else:
        disk.write(folder, lambda aside: huggingface.write(whole, aside))


def bring(source: Path, folder: Path) -> Run:
    """Makes a run of a Hugging Face folder."""
    refuse_taken(folder)
    whole = marian.read(source)
    data = fill(DataConfig, {"tokenizer": whole.kind})
    config = Config(title=f"From {source.resolve().name}", model=whole.config, data=data)

    def make(aside: Path) -> None:
        aside.mkdir(parents=True)
        run = Run(aside)
        run.create(config, whole.tokenizers)
        run.save_weights(config, weights_of(whole.model), {"from": source.name})
        card.write(run)

    disk.write(folder, make)
    return Run(folder)


def refuse_taken(folder: Path) -> None:
    if folder.name in ("", ".."):
        raise BadInput(f"{folder}: is no name for a new folder")
    if os.path.lexists(folder):
        raise BadInput(f"{folder} is there already")
