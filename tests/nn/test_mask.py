"""Masks: who may look at whom, by position."""

import pytest
import torch

from heedful.nn import Mask, causal, exists, positions, window

SIDES = {
    "none": [[1, 1, 1]],
    "right": [[1, 1, 1, 0, 0]],
    "left": [[0, 0, 1, 1, 1]],
    "middle": [[1, 0, 1, 0, 1]],
}


def seen(rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.bool)


def test_positions_count_the_tokens_that_are_there_whichever_side_is_padded():
    assert positions(seen(SIDES["none"])).tolist() == [[0, 1, 2]]
    assert positions(seen(SIDES["right"])).tolist() == [[0, 1, 2, -1, -1]]
    assert positions(seen(SIDES["left"])).tolist() == [[-1, -1, 0, 1, 2]]
    assert positions(seen(SIDES["middle"])).tolist() == [[0, -1, 1, -1, 2]]
    assert positions(seen([[0, 0]])).tolist() == [[-1, -1]]
    assert positions(seen(SIDES["left"])).dtype == torch.int64


def test_exists_hides_padding_from_all_alike():
    pos = positions(seen([[1, 1, 0], [0, 1, 1]]))
    keep = exists(pos, pos)
    assert keep.shape == (2, 1, 3) and keep.dtype == torch.bool
    assert keep[:, 0].equal(seen([[1, 1, 0], [0, 1, 1]]))


def test_causal_is_the_look_ahead_mask():
    pos = torch.arange(4)[None]
    assert causal(pos, pos)[0].equal(seen([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]))


def test_causal_is_the_same_among_real_tokens_whichever_side_is_padded():
    for rows in SIDES.values():
        pos = positions(seen(rows))
        real = pos[0] >= 0
        keep = causal(pos, pos)[0]
        assert keep[real][:, real].equal(torch.ones(3, 3, dtype=torch.bool).tril())
        assert not keep[:, ~real].any(), "padding is seen"
        assert not keep[~real].any(), "padding looks"


def test_window_sees_the_nearest_on_either_side():
    pos = torch.arange(5)[None]
    expected = [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]
    assert window(2)(pos, pos)[0].equal(seen(expected))
    assert window(1)(pos, pos)[0].equal(torch.eye(5, dtype=torch.bool))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_window_alone_does_not_see_padding(side):
    """Which stands at -1, next to the first token."""
    pos = positions(seen(SIDES[side]))
    assert not window(2)(pos, pos)[0][:, pos[0] < 0].any()


def test_rules_join_with_and():
    q, k = torch.arange(3, 5)[None], positions(seen([[0, 1, 1, 1, 1, 1]]))
    joined = causal & window(2)
    assert isinstance(joined, Mask)
    assert joined(q, k).equal(causal(q, k) & window(2)(q, k))
    assert joined(q, k)[0].equal(seen([[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]]))
    assert (exists & causal & window(9))(q, k).equal(causal(q, k))


def test_a_rule_knows_positions_and_not_shapes():
    """The rows for new tokens over a cache are the last rows of the rule for all."""
    pos = positions(seen([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]))
    for mask in (causal, window(2), causal & window(2)):
        assert mask(pos[:, 3:], pos).equal(mask(pos, pos)[:, 3:])
