"""Beam search: against exhaustive search, against greedy, and where it stops."""

import pytest
import torch

from heedful.data.batch import END
from heedful.generate import Search, generate, score
from heedful.generate.beam import beam_search
from heedful.generate.job import Job, wishes
from tests.generate.models import FIRST, MODELS, Table, every_target, recurrent, sources, translation

A, B, C, D = range(FIRST, FIRST + 4)
SOURCE = [[A]]


@pytest.mark.parametrize("name", MODELS)
def test_beam_1_is_greedy(name):
    """By the algorithm of the beam itself: with a plain sum, what ends best cannot be overtaken."""
    model, search = MODELS[name](), Search(length_penalty=0.0, max_length=20)
    greedy = generate(model, sources(), search)
    beam = beam_search(model, Job.of(wishes(sources(), search, None, None), torch.device("cpu")), search)
    assert len({len(h.ids) for (h,) in greedy if h.finished}) > 1
    for (one,), (other,) in zip(greedy, beam, strict=True):
        assert (one.ids, one.finished) == (other.ids, other.finished)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("build", [translation, recurrent])
def test_full_width_beam_is_exhaustive_search(build, length_penalty):
    """Three words, at most four of them: 121 targets, every one of them scored by itself."""
    vocabulary, longest = FIRST + 3, 4
    model = build(vocabulary)
    (source,) = sources((4,), vocabulary)
    targets = list(every_target(vocabulary, longest))
    scored = score(model, [source] * len(targets), targets, length_penalty=length_penalty)
    best = sorted(scored, key=lambda h: h.score, reverse=True)[:20]
    search = Search(beam=3**longest, nbest=20, length_penalty=length_penalty, max_length=longest + 1)
    (found,) = generate(model, [source], search)
    assert [h.ids for h in found] == [h.ids for h in best]
    assert [h.score for h in found] == pytest.approx([h.score for h in best], abs=1e-5)
    assert all(h.finished for h in found)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_score_is_that_of_the_target_read_in_one_pass(name, beam):
    model = MODELS[name]()
    search = Search(beam=beam, nbest=beam, length_penalty=0.7, max_length=20)
    found = generate(model, sources(), search)
    pairs = [(source, h) for source, row in zip(sources(), found, strict=True) for h in row if h.finished]
    assert len(pairs) >= 3
    read = score(model, [source for source, _ in pairs], [h.ids for _, h in pairs], length_penalty=0.7)
    for (_, h), other in zip(pairs, read, strict=True):
        assert h.score == pytest.approx(other.score, abs=1e-5)
        assert h.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert h.score == pytest.approx(sum(h.logprobs) / (len(h.ids) + 1) ** 0.7)


def test_nbest_is_sorted_and_without_doubles():
    for row in generate(translation(), sources(), Search(beam=6, nbest=6, max_length=12)):
        assert [h.score for h in row if h.finished] == sorted(
            (h.score for h in row if h.finished), reverse=True
        )
        assert len({(tuple(h.ids), h.finished) for h in row}) == len(row) == 6


def test_fewer_of_the_best_are_the_best_of_more():
    """With the same beam, what is asked for changes when it stops, not what it finds."""
    five = generate(translation(), sources(), Search(beam=5, nbest=5, max_length=12))
    one = generate(translation(), sources(), Search(beam=5, nbest=1, max_length=12))
    assert [row[0].ids for row in five] == [row[0].ids for row in one]


def test_a_wider_beam_finds_what_greedy_misses():
    table = Table({(): {A: 0.6, B: 0.4}, (A,): {C: 0.5, D: 0.5}, (B,): {C: 1.0}})
    sums = {"length_penalty": 0.0}
    ((greedy,),) = generate(table, SOURCE, Search(**sums))
    ((beam,),) = generate(table, SOURCE, Search(beam=2, **sums))
    assert greedy.ids == [A, C] and beam.ids == [B, C]


def test_it_goes_on_while_a_live_beam_can_still_win():
    """The first to end is worse than what needs four steps more, at first less likely."""
    long = {(B, *[C] * n): {C: 1.0} for n in range(4)}
    table = Table({(): {A: 0.55, B: 0.45}, (A,): {END: 0.9, D: 0.1}} | long)
    ((h,),) = generate(table, SOURCE, Search(beam=2, max_length=30))
    assert h.ids == [B, C, C, C, C] and h.finished


def test_early_stops_at_what_looks_best_now():
    """The same, without patience: when A ends, B C has the better score already; one step before not."""
    table = Table({(): {A: 0.6, B: 0.4}, (A,): {END: 0.9, D: 0.1}, (B,): {C: 0.4, D: 0.1}, (B, C): {C: 1.0}})
    table.table |= {(B, *[C] * n): {C: 1.0} for n in range(2, 9)}
    patient, early = (Search(beam=2, max_length=30, early=early) for early in (False, True))
    assert generate(table, SOURCE, patient)[0][0].ids == [B, *[C] * 9]
    assert generate(table, SOURCE, early)[0][0].ids == [A]


def test_it_stops_when_none_can_win():
    table = Table({(): {A: 0.9, B: 0.1}, (A,): {END: 0.9, C: 0.1}, (A, C): {C: 0.5}, (B,): {C: 0.5}})
    ((h,),) = generate(table, SOURCE, Search(beam=2, length_penalty=0.0))
    assert h.ids == [A] and table.reads == 2


def test_a_finished_hypothesis_is_never_lost():
    """A ends early and well; then the beam is full of others for long, all of them worse."""
    worse = {(B, *[C] * n): {C: 0.5, D: 0.5} for n in range(9)} | {(B, *[C] * 9): {END: 1.0}}
    table = Table({(): {A: 0.5, B: 0.5}, (A,): {END: 1.0}} | worse)
    (found,) = generate(table, SOURCE, Search(beam=2, nbest=2, max_length=40))
    assert found[0].ids == [A] and found[0].finished


def test_what_was_cut_comes_after_what_ended():
    """However likely: it says nothing about how it would have ended."""
    loop = {tuple([B] * n): {B: 1.0} for n in range(1, 9)}
    table = Table({(): {A: 0.1, B: 0.9}, (A,): {END: 1.0}} | loop)
    (found,) = generate(table, SOURCE, Search(beam=2, max_length=6))
    assert [(h.ids, h.finished) for h in found] == [([A], True)]
    (found,) = generate(Table(loop | {(): {B: 1.0}}), SOURCE, Search(beam=2, nbest=2, max_length=6))
    assert found[0].ids == [B] * 6 and not found[0].finished


def test_more_beams_than_ways_on():
    (found,) = generate(Table({(): {A: 1.0}}, FIRST + 1), SOURCE, Search(beam=9, nbest=9, max_length=2))
    assert found[0].ids == [A] and found[0].score == pytest.approx(0.0)
    assert len({(tuple(h.ids), h.finished) for h in found}) == len(found) < 9
