"""Makes the run that later versions must be able to read: `python -m tests.old_runs.make FOLDER`.

Run once for each format of the files, by the version that writes it; never again for an old one.
"""

import json
import sys
from pathlib import Path

import torch

from heedful.config import from_toml
from heedful.data.batch import collate
from heedful.data.sources import read
from heedful.run import Run, load_model
from heedful.train import start
from heedful.train.checkpoint import checkpoints
from tests.train.tiny import write_data

RECIPE = """
title = "A run that later versions must read: \u00e9, \u65e5\u672c"

[data]
train = "train.tsv"
dev = "dev.tsv"
folder = "data"
tokenizer = "bpe"
vocabulary = 290

[model]
dim = 8
heads = 2
layers = 1
ff = 16
length = 100

[train]
steps = 6
batch_tokens = 800
accumulate = 2
warmup = 2
optimizer = "muon"
precision = "float32"
average = 0.9
save_every = 2
eval_every = 2
keep = 9
threads = 1
"""


def outputs(run: Run) -> dict[str, list[float]]:
    """The loss of each dev pair, by its source."""
    config = run.config()
    model = load_model(run, config)
    source, target = run.tokenizers(config)
    out = {}
    with torch.no_grad():
        for record in read(("dev.tsv",), str(run.folder / "data")):
            batch = collate([(source.encode(record.source), target.encode(record.target))])
            logits = model(batch).logits
            loss = torch.nn.functional.cross_entropy(logits.mT, batch.labels_BT, reduction="none")
            out[record.source] = [round(x, 5) for x in loss[0].tolist()]
    return out


def make(folder: Path) -> None:
    """Six steps, of which the checkpoint of the last is taken away: so there is something to go on with."""
    write_data(folder)
    (folder / "tiny.toml").unlink()
    config = from_toml(RECIPE, "recipe", ["--data.folder", str(folder)])
    assert start.train(config, folder / "run") == 0
    run = Run(folder / "run")
    (folder / "run" / "data").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).rename(folder / "run" / "data" / name)
    text = run.config_file.read_text(encoding="utf-8").replace(f'folder = "{folder}"', 'folder = "data"')
    run.config_file.write_text(text, encoding="utf-8")
    for path in checkpoints(run):
        if path.stem != "000000004":
            path.unlink()
    (folder / "expected.json").write_text(json.dumps(outputs(run), indent=1) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
