"""Batch: padding, packing within a budget, and an order that is a function of (seed, epoch)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.batch import PAD, collate, epoch_order, pack, pad, round_count

LENGTHS = st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=60)


def test_pad_on_either_side():
    assert pad([[5, 6], [7]]).tolist() == [[5, 6], [7, PAD]]
    assert pad([[5, 6], [7]], side="left").tolist() == [[5, 6], [PAD, 7]]
    assert pad([np.array([5], dtype=np.int32)]).dtype == torch.int64


def test_labels_are_the_target_moved_by_one():
    batch = collate([([2, 9, 3], [2, 7, 8, 3]), ([2, 3], [2, 7, 3])])
    assert batch.labels_BT.tolist() == [[7, 8, 3], [7, 3, PAD]]
    assert batch.tokens == 5
    assert batch.to("cpu").source_BS.tolist() == [[2, 9, 3], [2, 3, PAD]]


@settings(max_examples=200, deadline=None)
@given(lengths=LENGTHS, budget=st.integers(0, 300))
def test_pack_keeps_every_row_in_order_and_the_budget(lengths, budget):
    lengths = np.array(lengths)
    order = np.random.default_rng(0).permutation(len(lengths))
    batches = pack(order, lengths, budget)
    assert np.concatenate(batches).tolist() == order.tolist()
    for rows in batches:
        size = len(rows) * lengths[rows].max(0).sum()
        assert size <= budget or len(rows) == 1


@settings(max_examples=100, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 9))
def test_an_epoch_shows_every_row_once(lengths, seed, epoch):
    lengths = np.array(lengths)
    batches = epoch_order(lengths, 200, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == [*range(len(lengths))]
    again = epoch_order(lengths, 200, seed, epoch)
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in batches]


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (2, 0)])
def test_another_seed_or_epoch_is_another_order(seed, epoch):
    lengths = np.random.default_rng(0).integers(2, 20, (200, 2))
    first = [rows.tolist() for rows in epoch_order(lengths, 200, 1, 0)]
    assert [rows.tolist() for rows in epoch_order(lengths, 200, seed, epoch)] != first


def test_shapes_come_again():
    """Each new one costs the time of several steps."""
    random = np.random.default_rng(0)
    source = random.integers(6, 30, 20_000)
    lengths = np.stack([source, source + random.integers(-2, 6, 20_000)], axis=1)
    epochs = [epoch_order(lengths, 4096, 1, epoch) for epoch in range(3)]
    shapes = [{(len(rows), lengths[rows, 0].max()) for rows in batches} for batches in epochs]
    new = len(shapes[2] - shapes[1] - shapes[0])
    assert len(shapes[0]) < 0.6 * len(epochs[0]) and new < 0.1 * len(epochs[2])


@pytest.mark.parametrize("rows, rounded", [(1, 1), (15, 15), (16, 16), (17, 16), (63, 60), (150, 144)])
def test_counts_are_rounded_by_an_eighth_at_most(rows, rounded):
    assert round_count(rows) == rounded
    assert all(r - r / 8 < round_count(r) <= r for r in range(1, 5000))


def test_little_of_a_batch_is_padding():
    """Where, as in real pairs, a long source has a long target."""
    random = np.random.default_rng(0)
    source = random.integers(4, 30, 5000)
    lengths = np.stack([source, source + random.integers(-2, 6, 5000)], axis=1)
    batches = epoch_order(lengths, 2000, 1, 0)
    padded = sum(len(rows) * lengths[rows].max(0).sum() for rows in batches)
    assert lengths.sum() / padded > 0.95
