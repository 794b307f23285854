"""What may not be written: control tokens, repeats, an end too early, a target too long."""

import pytest
import torch

from heedful.data.batch import CLS, END, MASK, PAD, SEP, START, UNK
from heedful.generate import Search, generate, score
from heedful.generate.rules import forbid_repeats, penalise
from tests.generate.models import FIRST, MODELS, Table, V, sources, translation

A, B, C, D = range(FIRST, FIRST + 4)
WAYS = {
    "greedy": {},
    "beam": {"beam": 4, "nbest": 4},
    "sampled": {"temperature": 2.0, "nbest": 4},
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request):
    return request.param


def hypotheses(model, search, **more):
    return [h for row in generate(model, sources(), search, **more) for h in row]


@pytest.mark.parametrize("name", MODELS)
def test_control_tokens_are_never_written(name, way):
    model = MODELS[name]()
    with torch.no_grad():  # a model that likes them best
        bias = model.head.bias
        bias[[PAD, UNK, START, CLS, SEP, MASK]] += 5.0
    found = hypotheses(model, Search(max_length=15, **way))
    assert found and all(i >= FIRST for h in found for i in h.ids)
    assert sum(len(h.ids) for h in found) > len(found)


@pytest.mark.parametrize("least", [1, 7])
def test_minimum_length(least, way):
    found = hypotheses(translation(), Search(min_length=least, max_length=20, **way))
    assert min(len(h.ids) for h in found) in range(least, 10)


@pytest.mark.parametrize("most", [1, 2, 6])
def test_maximum_length(most, way):
    """<end> counts: what is finished is shorter."""
    for h in hypotheses(translation(), Search(max_length=most, **way)):
        assert len(h.ids) + h.finished <= most
        assert len(h.ids) == most or h.finished


def test_exact_length(way):
    found = hypotheses(translation(), Search(min_length=5, max_length=5, **way))
    assert all(len(h.ids) == len(h.logprobs) == 5 and not h.finished for h in found)


def test_length_by_the_source(way):
    model = translation()
    with torch.no_grad():
        model.head.bias[END] -= 99.0
    for source, row in zip(sources(), generate(model, sources(), Search(max_ratio=2.0, **way)), strict=True):
        assert all(len(h.ids) == 2 * len(source) + 10 for h in row)


def test_a_short_command_may_have_a_long_answer():
    """In SCAN, nine words become 48 actions; three for each and ten more cut all of those."""
    command = "<start> walk around left thrice and run around right thrice <end>"
    assert Search().limit(len(command.split()), prefix=0) > 48


def test_a_limit_by_the_source_is_above_the_minimum(way):
    found = hypotheses(translation(), Search(max_ratio=0.1, min_length=17, max_length=17, **way))
    assert all(len(h.ids) == 17 for h in found)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_nothing_is_said_twice(n, way):
    found = hypotheses(translation(), Search(no_repeat=n, max_length=20, **way), prefixes=[[A, B, A, C]] * 7)
    assert max(len(h.ids) for h in found) > 4
    for h in found:
        grams = [tuple(h.ids[i : i + n]) for i in range(2 if n < 3 else 0, len(h.ids) - n + 1)]
        assert len(set(grams[-(len(h.ids) - 4) :])) == len(grams[-(len(h.ids) - 4) :])
    assert any(len(set(h.ids)) < len(h.ids) for h in hypotheses(translation(), Search(max_length=20, **way)))


def test_which_tokens_would_repeat():
    logprob_NV = torch.zeros(3, V)
    ids = [[START, A, B, C, A, B], [PAD, START, A, A, A, A], [PAD, PAD, START, A, B, A]]
    forbid_repeats(logprob_NV, torch.tensor(ids), 3)
    assert logprob_NV.isneginf().nonzero().tolist() == [[0, C], [1, A]]


def test_the_penalty_by_hand():
    logits = torch.zeros(1, V)
    logits[0, [A, B, C]] = torch.tensor([2.0, -2.0, 3.0])
    out = penalise(logits, torch.tensor([[PAD, START, A, B, A]]), 4.0)
    assert out[0, [A, B, C]].tolist() == [0.5, -8.0, 3.0]


def test_a_penalty_breaks_a_loop():
    loop = Table({(A,) * n: {A: 0.6, B: 0.4} for n in range(9)})
    ((plain,),) = generate(loop, [[A]], Search(max_length=9))
    ((penalised,),) = generate(loop, [[A]], Search(max_length=9, repetition_penalty=3.0))
    assert plain.ids == [A] * 9 and penalised.ids == [A, B]


def test_rules_that_leave_nothing_end_the_target(way):
    """Three words, none twice, and no end before five: it is cut after three."""
    model = translation(FIRST + 3)
    search = Search(no_repeat=1, min_length=5, max_length=9, **way)
    for row in generate(model, sources(vocabulary=FIRST + 3), search):
        assert row and all(len(h.ids) == 3 and not h.finished for h in row)


def test_a_forced_prefix_begins_every_hypothesis(way):
    model, prefixes = translation(), [[A, B, UNK], [], [C], [D] * 5, [A], [B], [C, D]]
    found = generate(model, sources(), Search(max_length=15, **way), prefixes=prefixes)
    for source, prefix, row in zip(sources(), prefixes, found, strict=True):
        assert all(h.ids[: len(prefix)] == prefix for h in row)
        read = score(model, [source] * len(row), [h.ids for h in row])
        for h, other in zip(row, read, strict=True):
            assert h.logprobs == pytest.approx(other.logprobs[: len(h.logprobs)], abs=1e-4)


def test_long_prefixes_are_read_in_pieces(monkeypatch, way):
    model, prefixes = translation(), [[A, B, C, D] * 3, [A], [], [B] * 7, [], [], [C] * 12]
    whole = generate(model, sources(), Search(max_length=20, **way), prefixes=prefixes)
    monkeypatch.setattr("heedful.generate.reader.PIECE", 21)
    pieces = generate(model, sources(), Search(max_length=20, **way), prefixes=prefixes)
    assert [[h.ids for h in row] for row in whole] == [[h.ids for h in row] for row in pieces]
    for one, two in zip(whole, pieces, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in two], abs=1e-5)


def test_a_broken_model_is_named():
    model = translation()
    with torch.no_grad():
        model.head.bias[A] = float("nan")
    for search in (Search(), Search(beam=3), Search(temperature=1.0)):
        with pytest.raises(ValueError, match="NaN"):
            generate(model, sources(), search)
