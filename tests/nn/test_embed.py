"""Embed and the sum of its gradient."""

import pytest
import torch
from torch.nn import functional as F

from heedful.nn import Embed, Learned, Sinusoid
from heedful.nn.embed import Lookup
from heedful.nn.position import sinusoid


def gradient(lookup, table, ids, weigh):
    table = table.clone().requires_grad_()
    (lookup(table, ids) * weigh).sum().backward()
    return table.grad


def test_lookup_is_embedding_with_its_gradient():
    table, ids = torch.randn(11, 8), torch.randint(10, (4, 7))  # 10 is never asked for
    weigh = torch.randn(4, 7, 8)
    assert Lookup.apply(table, ids).equal(F.embedding(ids, table))
    ours = gradient(Lookup.apply, table, ids, weigh)
    torch.testing.assert_close(ours, gradient(lambda t, i: F.embedding(i, t), table, ids, weigh))
    assert (ours[10] == 0).all()


def test_a_frequent_token_in_bfloat16_gets_its_whole_gradient():
    """4,096 times 0.01 is 41; summed in bfloat16 it would come to a halt long before."""
    table, ids = torch.zeros(3, 2, dtype=torch.bfloat16), torch.ones(8, 512, dtype=torch.int64)
    ours = gradient(Lookup.apply, table, ids, torch.tensor(0.01, dtype=torch.bfloat16))
    assert ours.dtype == torch.bfloat16
    assert ours[1].tolist() == pytest.approx([4096 * 0.01] * 2, rel=0.01)


def test_gradient_is_right_for_a_gradient_that_is_a_view():
    table, ids = torch.randn(5, 4), torch.randint(5, (3, 2))
    ours = gradient(lambda t, i: Lookup.apply(t, i).transpose(0, 1), table, ids, torch.ones(2, 3, 4))
    torch.testing.assert_close(ours, ids.flatten().bincount(minlength=5)[:, None].expand(5, 4).float())


def test_embed_is_the_scaled_row_plus_the_position():
    """sqrt(dim): rows start small, since the same table makes the logits when it is tied."""
    ids, pos = torch.tensor([[3, 1], [1, 0]]), torch.tensor([[0, 1], [0, -1]])
    embed = Embed(5, 16, Sinusoid(4, 16), dropout=0.0)
    torch.testing.assert_close(embed(ids, pos), embed.table_VD[ids] * 4 + sinusoid(4, 16)[pos.clamp(min=0)])
    as_set = Embed(5, 16, None, dropout=0.0)
    torch.testing.assert_close(as_set(ids, pos), as_set.table_VD[ids] * 4)


def test_rows_come_out_as_large_as_the_waves():
    embed = Embed(1000, 64, None, dropout=0.0)
    assert embed(torch.arange(1000)[None], None).std().item() == pytest.approx(1, abs=0.02)


def test_dropout_is_on_the_sum():
    embed = Embed(5, 64, Learned(4, 64), dropout=0.5)
    ids, pos = torch.tensor([[3, 1]]), torch.tensor([[0, 1]])
    out, whole = embed(ids, pos), embed.eval()(ids, pos)
    kept = out != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(out[kept], 2 * whole[kept])
