"""The tables of names, without any of the programs that they are for."""

from collections import Counter
from itertools import product

import pytest
import torch

from heedful.convert.huggingface import halves
from heedful.convert.names import CTRANSLATE2, HUGGINGFACE, reorder, rows, to_ours, to_theirs
from heedful.data.batch import pad
from heedful.errors import BadInput
from heedful.models.translation import Translation
from heedful.run import weights_of
from tests.convert.tiny import TEXTS, tiny

SHAPES = [
    {"norm": norm, "position": position, "two": two}
    for norm, position, two in product(("pre", "post"), ("sinusoid", "learned"), (False, True))
]


@pytest.fixture(params=SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def whole(request, tmp_path):
    return tiny(tmp_path / "run", **request.param)


@pytest.fixture(params=[HUGGINGFACE, CTRANSLATE2], ids=["huggingface", "ctranslate2"])
def names(request):
    return request.param


def test_every_weight_has_its_place(whole, names):
    table = list(rows(names, whole.config))
    theirs = Counter(name for row in table for name in row.theirs)
    assert set(theirs.values()) == {1}
    assert {name for row in table for name in row.ours} == whole.tensors().keys()


def test_only_tables_are_in_several_places(whole, names):
    ours = Counter(name for row in rows(names, whole.config) for name in row.ours)
    assert all("table" in name for name, times in ours.items() if times > 1)


def test_numbers_are_moved_and_no_more(whole, names):
    ours = whole.tensors()
    theirs = to_theirs(ours, rows(names, whole.config))
    for row in rows(names, whole.config):
        here = torch.cat([ours[name] for name in row.ours])
        assert torch.equal(here, torch.cat([theirs[name] for name in row.theirs]))


def test_who_gets_the_numbers_may_change_them(whole, names):
    before = {name: tensor.clone() for name, tensor in whole.tensors().items()}
    for tensor in to_theirs(whole.tensors(), rows(names, whole.config)).values():
        tensor.zero_()
    assert all(torch.equal(before[name], tensor) for name, tensor in whole.tensors().items())


def test_there_and_back(whole):
    table, ours = list(rows(HUGGINGFACE, whole.config)), whole.tensors()
    back = to_ours(to_theirs(ours, table), table)
    assert back.keys() == ours.keys()
    assert all(torch.equal(back[name], ours[name]) for name in ours)


def test_two_that_should_be_one_are_refused(tmp_path):
    whole = tiny(tmp_path / "run")
    table = list(rows(HUGGINGFACE, whole.config))
    theirs = to_theirs(whole.tensors(), table)
    theirs["model.decoder.embed_positions.weight"] += 1
    with pytest.raises(BadInput, match=r"decoder\.embed_positions"):
        to_ours(theirs, table)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_another_order_is_the_same_model(tmp_path, norm):
    """Learned positions, since they are weights, and move with the others."""
    whole = tiny(tmp_path / "run", norm=norm, position="learned")
    moved = Translation(whole.config).eval()
    order = torch.randperm(whole.config.dim)
    with torch.no_grad():
        for name, tensor in reorder(whole.tensors(), order).items():
            weights_of(moved)[name].copy_(tensor)
    source = pad([whole.tokenizers[0].encode(text) for text in TEXTS])
    expected, _ = whole.model.decode(source, whole.model.encode(source), None)
    found, _ = moved.decode(source, moved.encode(source), None)
    table = "source_embed.table_VD"
    assert not torch.equal(weights_of(moved)[table], weights_of(whole.model)[table])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_an_order_can_be_undone(whole):
    order, ours = halves(whole.config.dim), whole.tensors()
    back = reorder(reorder(ours, order), order.argsort())
    assert all(torch.equal(back[name], ours[name]) for name in ours)
