"""A run as a smaller run: what inference needs, with its matrices in eight bits."""

import shutil
from pathlib import Path

from heedful import card, disk
from heedful.compact import compact, expand
from heedful.run import TOKENIZERS, Run

STORY = ("config.toml", "data.json", "log.jsonl", "scores.json", *TOKENIZERS)


def to_int8(run: Run, out: Path) -> Run:
    """Writes the whole folder aside, then gives it its name."""
    config, smaller = run.config(), Run(out)
    tensors, facts = disk.load_tensors(run.weights)

    def make(aside: Path) -> None:
        aside.mkdir(parents=True)
        for name in STORY:
            if (run.folder / name).is_file():
                shutil.copyfile(run.folder / name, aside / name)
        Run(aside).save_weights(config, compact(expand(tensors)), facts)
        card.write(Run(aside))

    disk.write(out, make)
    return smaller
