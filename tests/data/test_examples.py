"""Examples and their stream: any place can be reached at once."""

import dataclasses

import numpy as np
import pytest

from heedful.data import examples as module
from heedful.data.examples import Examples, Place, Stream, encode, flatten, size_of
from heedful.data.readers import Record
from heedful.data.tokenizer import learn

RECORDS = [Record("a b " * (n % 5 + 1), "c " * (n % 7 + 1)) for n in range(100)]


@pytest.fixture(scope="module")
def tokenizers():
    both = learn([r.source for r in RECORDS] + [r.target for r in RECORDS], "words", 20)
    return both, both


@pytest.fixture
def examples(tokenizers) -> Examples:
    return encode(RECORDS, tokenizers, 100)[0]


def test_pairs_are_the_ids_of_their_records(examples, tokenizers):
    for row, record in enumerate(RECORDS):
        source, target = examples.pair(row)
        assert source.tolist() == tokenizers[0].encode(record.source)
        assert target.tolist() == tokenizers[1].encode(record.target)
    assert len(examples) == 100


def test_too_long_ones_are_left_out_and_counted(tokenizers):
    some, left_out = encode(RECORDS, tokenizers, 8)
    assert some.lengths.max() <= 8 and left_out == 100 - len(some) > 0
    none, left_out = encode(RECORDS, tokenizers, 2)
    assert len(none) == 0 and left_out == 100


def test_encoding_piece_by_piece_changes_nothing(examples, tokenizers, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 7)
    assert encode(RECORDS, tokenizers, 100)[0].fingerprint() == examples.fingerprint()


def test_fingerprint_sees_every_change(examples):
    ids = examples.ids.copy()
    ids[17] += 1
    assert dataclasses.replace(examples, ids=ids).fingerprint() != examples.fingerprint()
    moved = flatten([([2, 8], [9, 3])]), flatten([([2, 8, 9], [3])])
    assert moved[0].fingerprint() != moved[1].fingerprint()


def test_taking_from_any_place_is_reading_through(examples):
    """Three epochs, and from each place in them by a stream that has seen nothing before it."""
    through, places, place = [], [], Place()
    stream = Stream(examples, 120, seed=3)
    while place.epoch < 3:
        places.append(place)
        (rows,), place = stream.take(place, 1)
        through.append(rows)
    assert place == Place(3, 0)
    for start, first in enumerate(places):
        count = min(3, len(through) - start)
        batches, after = Stream(examples, 120, seed=3).take(first, count)
        for got, expected in zip(batches, through[start:], strict=False):
            assert np.array_equal(got, expected)
        assert after == [*places, place][start + count]


def test_an_epoch_through_the_stream_is_all_examples(examples):
    stream = Stream(examples, 120, seed=1)
    taken, place = stream.take(Place(), len(stream.batches_in(0)))
    assert place == Place(1, 0)
    batches = [examples.batch(rows) for rows in taken]
    assert [examples.size(rows) for rows in taken] == [size_of(batch) for batch in batches]
    rows = sum(len(batch.source_BS) for batch in batches)
    tokens = sum(int((batch.target_BT != 0).sum()) for batch in batches)
    assert rows == 100 and tokens == int(np.sum(examples.lengths[:, 1]))
