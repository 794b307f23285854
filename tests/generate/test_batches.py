"""A sentence is translated as it would be alone, whoever stands beside it and whatever was done before."""

import pytest
import torch

from heedful.data.batch import PAD
from heedful.generate import Search, generate, score
from heedful.generate.reader import Reader
from tests.generate.models import MODELS, sources

SEARCHES = {
    "greedy": Search(max_length=20),
    "beam": Search(beam=4, nbest=2, max_length=20),
    "sampled": Search(temperature=1.0, nbest=3, max_length=20, seed=5),
    "cut": Search(temperature=1.3, top_k=5, top_p=0.9, min_p=0.05, max_length=20),
    "ruled": Search(beam=3, no_repeat=2, repetition_penalty=1.3, min_length=4, max_length=20),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_gives_what_each_gives_alone(name, search):
    """All together, alone, in pairs, and in another order: the very same tokens."""
    model, rows = MODELS[name](), sources()
    seeds = [search.seed + i for i in range(len(rows))]
    together = generate(model, rows, search)
    alone = [generate(model, [row], search, seeds=[s])[0] for row, s in zip(rows, seeds, strict=True)]
    pairs = generate(model, rows, search, budget=1)
    turned = generate(model, rows[::-1], search, seeds=seeds[::-1])[::-1]
    assert len({tuple(h.ids) for row in together for h in row}) >= 2
    for other in (alone, pairs, turned):
        for one, two in zip(together, other, strict=True):
            assert [(h.ids, h.finished) for h in one] == [(h.ids, h.finished) for h in two]
            assert [h.score for h in one] == pytest.approx([h.score for h in two], abs=1e-4)


@pytest.mark.parametrize(
    "search", [Search(beam=9, max_length=4), Search(temperature=1.0, nbest=9, max_length=4)]
)
def test_more_hypotheses_than_a_batch_has_room_for_go_one_by_one(search):
    """A budget that came down to nothing once made batches of nothing, for ever."""
    model, rows = MODELS["transformer"](), sources()[:2]
    small = generate(model, rows, search, budget=8)
    assert [[h.ids for h in row] for row in small] == [
        [h.ids for h in row] for row in generate(model, rows, search)
    ]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_prefixes_of_any_length_go_into_one_batch(search):
    model, rows = MODELS["transformer"](), sources()
    prefixes = [row[1:-1][: i % 4] for i, row in enumerate(rows)]
    together = generate(model, rows, search, prefixes=prefixes)
    for i, row in enumerate(rows):
        (alone,) = generate(model, [row], search, prefixes=[prefixes[i]], seeds=[search.seed + i])
        assert [(h.ids, h.finished) for h in together[i]] == [(h.ids, h.finished) for h in alone]
        assert [h.score for h in together[i]] == pytest.approx([h.score for h in alone], abs=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["transformer", "post-norm"])
def test_padding_on_either_side_of_a_source_changes_nothing(name, side):
    model, search = MODELS[name](), Search(beam=4, nbest=2, max_length=20)
    rows = sources()
    padded = [[PAD] * 3 + row if side == "left" else row + [PAD] * 3 for row in rows]
    for one, two in zip(generate(model, rows, search), generate(model, padded, search), strict=True):
        assert [(h.ids, h.finished) for h in one] == [(h.ids, h.finished) for h in two]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shares", [True, False])
def test_cached_is_uncached(name, shares, monkeypatch):
    """Every hypothesis of a beam, read from its start in one pass, has the logits it had step by step."""
    if not shares:
        monkeypatch.setattr(Reader, "shares", False)
    model = MODELS[name]()
    search = Search(beam=4, nbest=4, max_length=12)
    for source, row in zip(sources(), generate(model, sources(), search), strict=True):
        whole = score(model, [source] * 4, [h.ids for h in row])
        for h, other in zip(row, whole, strict=True):
            assert h.logprobs == pytest.approx(other.logprobs[: len(h.logprobs)], abs=1e-4)


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_select_then_decode_is_decode_then_select(name, shares, monkeypatch):
    """Through the reader, as a beam does it: hypotheses follow others, and sentences leave."""
    if not shares:
        monkeypatch.setattr(Reader, "shares", False)
    model, width = MODELS[name](), 3
    with torch.inference_mode():
        reader = Reader(model, model.encode(torch.tensor(sources((4, 4)))))
        _, reader = reader.read(torch.tensor([[2, 8], [2, 9]]))
        reader = reader.fan(2, width)
        ids_BW = torch.tensor([[7, 8, 9], [10, 11, 12]])
        _, reader = reader.read(ids_BW.view(-1, 1))
        parent_BW, new_BW = torch.tensor([[2, 2, 0], [1, 0, 2]]), torch.tensor([[7, 9, 7], [8, 8, 9]])
        after, _ = reader.follow(parent_BW).read(new_BW.view(-1, 1))
        left, _ = reader.follow(parent_BW).stay(torch.tensor([1])).read(new_BW[1].view(-1, 1))
    torch.testing.assert_close(left, after[width:], rtol=1e-4, atol=1e-5)
    for b in range(2):
        for w in range(width):
            prefix = [8 + b, int(ids_BW[b, parent_BW[b, w]]), int(new_BW[b, w])]
            with torch.inference_mode():
                memory = model.encode(torch.tensor(sources((4, 4))[b : b + 1]))
                whole, _ = model.decode(torch.tensor([[2, *prefix]]), memory, None)
            torch.testing.assert_close(after[b * width + w, -1], whole[0, -1], rtol=1e-4, atol=1e-5)
