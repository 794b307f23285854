"""Sampling: the filters by hand, the frequencies by count, the seeds by repetition."""

import math

import pytest
import torch

from heedful.generate import Search, generate, stream
from heedful.generate.sample import candidates, draw, keep_min_p, keep_top_p
from tests.generate.models import FIRST, Table, sources, translation

SHARES = torch.tensor([[0.1, 0.4, 0.0, 0.3, 0.2]])


def sampling(**settings) -> Search:
    return Search(temperature=1.0, **settings)


def tokens_drawn(shares, search, draws=2000) -> dict[int, float]:
    number_N = (torch.arange(draws) + 0.5) / draws
    token_N = draw(shares.log().expand(draws, -1), search, number_N.double())
    ids, counts = token_N.unique(return_counts=True)
    return {int(i): round(float(n) / draws, 3) for i, n in zip(ids, counts, strict=True)}


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, {0: 0.1, 1: 0.4, 3: 0.3, 4: 0.2}),
        ({"top_k": 1}, {1: 1.0}),
        ({"top_k": 2}, {1: 4 / 7, 3: 3 / 7}),
        ({"top_k": 99}, {0: 0.1, 1: 0.4, 3: 0.3, 4: 0.2}),
        ({"top_p": 0.3}, {1: 1.0}),
        ({"top_p": 0.65}, {1: 4 / 7, 3: 3 / 7}),
        ({"top_p": 0.75}, {1: 4 / 9, 3: 3 / 9, 4: 2 / 9}),
        ({"min_p": 0.6}, {1: 4 / 7, 3: 3 / 7}),
        ({"min_p": 1.0}, {1: 1.0}),
        ({"top_k": 3, "top_p": 0.5}, {1: 4 / 7, 3: 3 / 7}),
    ],
)
def test_what_may_be_drawn_and_how_often(settings, expected):
    drawn = tokens_drawn(SHARES, sampling(**settings))
    assert drawn == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("temperature, expected", [(0.5, [1, 16, 9, 4]), (1e-3, [0, 1, 0, 0])])
def test_temperature_sharpens(temperature, expected):
    drawn = tokens_drawn(SHARES, Search(temperature=temperature))
    shares = [drawn.get(i, 0.0) for i in (0, 1, 3, 4)]
    assert shares == pytest.approx([n / sum(expected) for n in expected], abs=2e-3)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_top_p_by_few_is_top_p_by_all(top_p):
    """It looks at few tokens first: whether they are enough must not show."""
    logprob_NV = torch.cat([torch.randn(8, 3000) * 4, torch.zeros(2, 3000)]).log_softmax(-1)
    sorted_NV, id_NV = logprob_NV.sort(dim=-1, descending=True, stable=True)
    expected = keep_top_p(sorted_NV, top_p)
    logprob_NC, id_NC = candidates(logprob_NV, sampling(top_p=top_p))
    kept = keep_top_p(logprob_NC, top_p)
    number = int(kept.isfinite().sum(-1).max())
    torch.testing.assert_close(kept[:, :number], expected[:, :number])
    assert (kept.isfinite().sum(-1) == expected.isfinite().sum(-1)).all()
    assert id_NC[:8, 0].equal(id_NV[:8, 0])


def test_min_p_counts_from_the_likeliest_wherever_it_stands():
    kept = keep_min_p(SHARES.log(), 0.7).isfinite()
    assert kept.tolist() == [[False, True, False, True, False]]


def test_samples_have_the_model_s_frequencies():
    A, B = FIRST, FIRST + 1
    table = Table({(): {A: 0.7, B: 0.3}})
    found = generate(table, [[A]] * 40, sampling(nbest=50, seed=1))
    first = [h.ids[0] for row in found for h in row]
    assert first.count(A) / len(first) == pytest.approx(0.7, abs=0.03)


def test_the_same_seed_gives_the_same_sample():
    model, rows = translation(), sources()
    one, two, other = (generate(model, rows, sampling(seed=seed)) for seed in (1, 1, 99))
    assert one == two and one != other
    assert generate(model, rows, sampling(seed=2))[:-1] != one[1:]  # other sources, other targets
    same = generate(model, [rows[0]] * 3, sampling(seed=1))
    assert len({tuple(row[0].ids) for row in same}) > 1


def test_more_samples_begin_with_the_fewer():
    few, many = (generate(translation(), sources(), sampling(nbest=n)) for n in (2, 5))
    assert [[h.ids for h in row] for row in few] == [[h.ids for h in row[:2]] for row in many]


def test_a_cold_sample_is_greedy():
    model, rows = translation(), sources()
    greedy = generate(model, rows, Search(max_length=9))
    for search in (Search(temperature=1e-4, max_length=9), sampling(top_k=1, max_length=9)):
        assert [row[0].ids for row in generate(model, rows, search)] == [row[0].ids for row in greedy]


def test_the_logprobs_of_a_sample_are_the_model_s():
    """Not those of what temperature and filters made of it."""
    table = Table({(): {FIRST: 0.3, FIRST + 1: 0.7}})
    ((h,),) = generate(table, [[FIRST]], Search(temperature=0.1))
    assert h.ids == [FIRST + 1] and h.logprobs == pytest.approx([math.log(0.7), 0.0], abs=1e-5)


@pytest.mark.parametrize("search", [Search(max_length=15), sampling(seed=4, max_length=15)])
def test_a_stream_is_the_same_token_by_token(search):
    model = translation()
    for i, source in enumerate(sources()):
        ((whole,),) = generate(model, [source], search, prefixes=[[8, 9][: i % 3]])
        streamed = list(stream(model, source, search, prefix=[8, 9][: i % 3]))
        assert [*[8, 9][: i % 3], *[token.id for token in streamed]] == whole.ids
        logprobs = whole.logprobs[i % 3 : len(whole.ids)]
        assert [token.logprob for token in streamed] == pytest.approx(logprobs, abs=1e-5)


def test_a_stream_gives_a_token_before_it_looks_for_the_next():
    table = Table({(): {FIRST: 1.0}, (FIRST,): {FIRST: 1.0}})
    tokens = stream(table, [FIRST])
    assert table.reads == 0
    assert next(tokens).id == FIRST and table.reads == 1
    assert next(tokens).id == FIRST and table.reads == 2
