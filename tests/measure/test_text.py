"""Scores against hand-made cases, and against sacreBLEU's own numbers."""

import random

import pytest
import sacrebleu

from heedful.data.readers import Record
from heedful.measure import bootstrap
from heedful.measure.text import by_source, corpus_scores, edits, error_rates, streams

OUTPUTS = ["the cat sat on the mat", "a dog", "no"]
REFERENCES = [["the cat sat on the mat", "a cat sat"], ["a big dog"], ["yes", "no", "maybe"]]


def test_each_source_is_judged_once_with_all_its_references():
    records = [Record("a", "1"), Record("b", "2"), Record("a", "3")]
    assert by_source(records) == (["a", "b"], [["1", "3"], ["2"]])
    assert streams([["1", "3"], ["2"]]) == [["1", "2"], ["3", None]]


@pytest.mark.parametrize(
    "left, right, cost",
    [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)],
)
def test_edits(left, right, cost):
    assert edits(left, right) == edits(right, left) == cost


def test_error_rates_take_the_nearest_reference():
    rates = error_rates(["AH B", "K AE T"], [["AH P", "AH B S"], ["K AE T"]])
    assert rates["error_rate"] == pytest.approx(100 * 1 / 5, abs=1e-3)
    assert rates["sequence_error_rate"] == 50 and rates["exact_match"] == 50


def test_corpus_scores_are_sacrebleus():
    scores = corpus_scores(OUTPUTS, [group[:1] for group in REFERENCES])
    assert scores["bleu"] == round(sacrebleu.corpus_bleu(OUTPUTS, [[g[0] for g in REFERENCES]]).score, 2)
    assert "case:mixed" in scores["bleu_signature"] and "tok:13a" in scores["bleu_signature"]


def test_resampled_statistics_add_up_to_the_corpus_score():
    random.seed(1)
    words = ["a", "b", "c", "d", "e", "f"]
    outputs = [" ".join(random.choices(words, k=9)) for _ in range(40)]
    references = [[" ".join(random.choices(words, k=9))] for _ in outputs]
    rows = bootstrap.statistics(outputs, references)
    whole = sacrebleu.corpus_bleu(outputs, [[r[0] for r in references]]).score
    assert bootstrap.score_of(rows.sum(0)) == pytest.approx(whole)
    low, high = bootstrap.interval(rows)
    assert low < whole < high
    better = bootstrap.statistics([r[0] for r in references], references)
    assert bootstrap.paired(better, rows)["p"] == 0 and bootstrap.paired(rows, rows)["difference"] == 0
