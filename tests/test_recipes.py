"""The shipped recipes: their size, and that the data they are for is read as they say."""

import dataclasses
from pathlib import Path

import pytest

from heedful.config import load_recipe, shipped
from heedful.data.sources import read
from heedful.run import Run, build, load_model
from heedful.train import start

DATA = Path(__file__).parents[2] / "shared" / "data"
FOLDERS = {
    "multi30k-ende": "multi30k",
    "multi30k-enfr": "multi30k",
    "cmudict": "cmudict",
    "scan-simple": "scan",
}
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data is not shipped")


def parameters(model):
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", ["multi30k-ende", "multi30k-enfr"])
def test_multi30k_is_within_three_million_parameters(name):
    config = load_recipe(name)
    vocabulary = config.data.vocabulary
    assert not config.data.target_tokenizer
    assert (
        parameters(
            build(dataclasses.replace(config, model=dataclasses.replace(config.model, vocabulary=vocabulary)))
        )
        < 3e6
    )


@needs_data
def test_what_the_recipe_says_of_cmudict_is_so():
    d = load_recipe("cmudict").data
    train, dev = (read(names, str(DATA / "cmudict"), d.pattern) for names in (d.train, d.dev))
    words, asked = {r.source for r in train}, {r.source: r for r in dev}
    sounds = [r for r in train if r.source in asked]
    assert (len(words), len(train), len(asked), len(dev)) == (102_068, 108_952, 5_447, 5_447)
    assert len({r.source for r in sounds}) == 721
    assert len({r.source for r in sounds if r == asked[r.source]}) == 26


@needs_data
def test_scan_holds_out_a_part_of_train():
    config = load_recipe("scan-simple", ["--data.folder", str(DATA / "scan")])
    train, dev = start.records_of(config)
    assert len(train) + len(dev) == 16_728 and 0.04 < len(dev) / 16_728 < 0.06
    test = read(config.data.test, config.data.folder, config.data.pattern)
    assert len(test) == 4_182
    sources = [{r.source for r in part} for part in (train, dev, test)]
    assert len(set.union(*sources)) == 16_728 + 4_182
    assert test[0].source == "turn opposite right thrice and turn opposite left"


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", shipped())
def test_each_recipe_trains(name, tmp_path):
    if name == "pairs":
        pytest.skip("its data is the user's")
    folder = ["--data.folder", str(DATA / FOLDERS[name])] if name in FOLDERS else []
    words = [*folder, "--train.steps", "20", "--train.threads", "1"]
    assert start.train(load_recipe(name, [*words, "--train.warmup", "5"]), tmp_path) == 0
    run = Run(tmp_path)
    assert parameters(load_model(run, run.config()))
    losses = [event["loss"] for event in run.events() if "loss" in event]
    assert losses[-1] < losses[0]
