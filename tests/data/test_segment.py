"""Segment: other pieces, the same text."""

import pytest

from heedful.data import corpora
from heedful.data.examples import encode, joined, segmented
from heedful.data.readers import Record
from heedful.data.segment import Segmenter
from heedful.data.tokenizer import learn
from heedful.errors import BadInput

RECORDS = [Record(*pair) for pair in corpora.part("tatoeba:dev")][:500]
ODD = ["<end>", "  two  spaces ", "é🙂", "a" * 50, "b" * 100_000, ""]


@pytest.fixture(scope="module")
def tokenizer():
    return learn([text for r in RECORDS for text in (r.source, r.target)], "bpe", 1000)


def test_with_every_merge_it_is_the_tokenizer(tokenizer):
    whole = Segmenter(tokenizer, 1, rate=0.0)
    for text in [*ODD, *(r.target for r in RECORDS)]:
        assert whole.encode(text) == [tokenizer.encode(text)]


def test_other_pieces_are_the_same_text(tokenizer):
    segmenter, changed = Segmenter(tokenizer, 4), 0
    for text in [*ODD, *(r.target for r in RECORDS)]:
        ways = segmenter.encode(text)
        assert len(ways) == 4 and all(
            tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text)) for ids in ways
        )
        changed += sum(ids != tokenizer.encode(text) for ids in ways)
    assert 0.5 < changed / (4 * len(RECORDS)) < 1


def test_always_the_same(tokenizer):
    first, again = (segmented(RECORDS, (tokenizer, tokenizer), 3, 100) for _ in range(2))
    assert first.fingerprint() == again.fingerprint() and len(first) == 3 * len(RECORDS)
    plain, _ = encode(RECORDS, (tokenizer, tokenizer), 100)
    both = joined([plain, first])
    assert len(both) == 4 * len(RECORDS)
    assert all((a == b).all() for a, b in zip(both.pair(len(RECORDS)), first.pair(0), strict=True))


def test_no_way_is_longer_than_the_model_reads(tokenizer):
    assert segmented(RECORDS, (tokenizer, tokenizer), 3, 12).lengths.max() <= 12


def test_words_are_not_cut():
    with pytest.raises(BadInput, match=r"data\.segmentations 3: only the bpe tokenizer cuts words"):
        Segmenter(learn(["one two"], "words", 100), 3)
