"""Capture: the weights are those of the equation, and looking changes nothing."""

import pytest
import torch

from heedful.data.batch import collate
from heedful.look import View, attentions, views, watch
from heedful.models.translation import Translation, TranslationConfig
from heedful.nn import Attention, attend_plainly, attention

SOURCE = ["<start>", "the", "cat", "<end>"]
READ = ["<start>", "le", "chat"]
WRITTEN = ["le", "chat", "<end>"]
CROSS = "decoder.blocks.1.cross_attention"


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = TranslationConfig(dim=16, heads=2, layers=3, decoder_layers=2, ff=32, vocabulary=20)
    return Translation(config).eval()


@pytest.fixture
def batch():
    """Two examples, the first shorter than the second on both sides."""
    return collate([([2, 8, 9, 3], [2, 10, 11, 3]), ([2, 8, 9, 12, 13, 3], [2, 10, 11, 14, 15, 3])])


@pytest.fixture
def fast_kernel(monkeypatch):
    """Torch's kernel is preferred even for so few keys; a list that grows whenever the fast way is taken."""
    calls = []
    attend = attention.attend

    def counted(q_BHTK, k_BHSK, v_BHSK, *, keep_BTS, rate=0.0):
        calls.append(1)
        return attend(q_BHTK, k_BHSK, v_BHSK, keep_BTS=keep_BTS, rate=rate)

    monkeypatch.setattr(attention, "attend", counted)
    monkeypatch.setattr(attention, "prefers_fused", lambda q, k: True)
    return calls


def look(model, batch, names=None):
    with watch(model, names) as weights, torch.no_grad():
        model(batch)
    return weights


def test_every_attention_is_found(model):
    assert len(attentions(model)) == 3 + 2 * 2
    assert "encoder.blocks.2.self_attention" in attentions(model)


def test_weights_are_those_of_the_equation():
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"encoder": torch.nn.Module()})
    block = torch.nn.Module()
    model["encoder"].blocks = torch.nn.ModuleList([block])
    heads = block.self_attention = Attention(8, heads=2)
    x_BTD, keep_BTS = torch.randn(1, 5, 8), torch.ones(1, 5, 5, dtype=torch.bool).tril()
    with watch(model) as weights:
        heads(x_BTD, heads.remember(x_BTD), keep_BTS)
    own = heads.remember(x_BTD)
    q_BHTK = heads.query(x_BTD).view(1, 5, 2, 4).transpose(1, 2)
    _, expected_BHTS = attend_plainly(q_BHTK, own.k_BHSK, own.v_BHSK, keep_BTS=keep_BTS)
    assert torch.equal(weights["encoder.blocks.0.self_attention"], expected_BHTS)
    assert not weights["encoder.blocks.0.self_attention"].requires_grad


def test_views_have_tokens_and_rows_that_sum_to_one(model, batch):
    found = views(look(model, batch), SOURCE, READ, WRITTEN)
    expected = [("encoder", 0), ("encoder", 1), ("encoder", 2), ("decoder", 0), ("decoder", 1)]
    assert [(v.kind, v.layer) for v in found] == [*expected, ("cross", 0), ("cross", 1)]
    assert (found[0].queries, found[0].keys) == (tuple(SOURCE), tuple(SOURCE))
    assert (found[3].queries, found[3].keys) == (tuple(READ), tuple(READ))
    assert (found[5].queries, found[5].keys) == (tuple(WRITTEN), tuple(SOURCE))
    for view in found:
        assert view.weight_HTS.dtype == torch.float32
        assert view.weight_HTS.shape == (2, len(view.queries), len(view.keys))
        assert torch.allclose(view.weight_HTS.sum(-1), torch.ones(2, len(view.queries)))


def test_the_past_does_not_see_the_future(model, batch):
    for view in views(look(model, batch), SOURCE, READ):
        if view.kind == "decoder":
            assert torch.equal(view.weight_HTS, view.weight_HTS.tril())


def test_a_row_in_a_batch_is_the_row_alone(model, batch):
    alone = collate([([2, 8, 9, 3], [2, 10, 11, 3])])
    for one, two in zip(
        views(look(model, batch), SOURCE, READ), views(look(model, alone), SOURCE, READ), strict=True
    ):
        assert torch.allclose(one.weight_HTS, two.weight_HTS, atol=1e-6)


def test_outputs_stay_as_they_are(model, batch):
    with torch.no_grad():
        before = model(batch).logits
        with watch(model):
            during = model(batch).logits
    assert torch.allclose(before, during, atol=1e-6)


def test_only_what_is_watched_leaves_the_fast_kernel(model, batch, fast_kernel):
    weights = look(model, batch, names=[CROSS])
    assert list(weights) == [CROSS]
    assert len(fast_kernel) == 3 + 2 * 2 - 1
    fast_kernel.clear()
    model(batch)
    assert len(fast_kernel) == 3 + 2 * 2


def test_outputs_stay_as_they_are_beside_the_fast_kernel(model, batch, fast_kernel):
    with torch.no_grad():
        before = model(batch).logits
        with watch(model):
            during = model(batch).logits
    assert torch.allclose(before, during, atol=1e-6)


def test_hooks_go_whatever_happens(model, batch):
    with pytest.raises(KeyError), watch(model):
        assert all(a.weights.watched for a in attentions(model).values())
        raise KeyError("something else went wrong")
    with pytest.raises(ValueError), watch(model, [CROSS, "no such"]):
        pass
    assert not any(a.weights.watched for a in attentions(model).values())


def test_an_unknown_name_gets_the_nearest(model):
    with pytest.raises(ValueError, match=r"'decoder.blocks.1.crossattention'.*did you mean"):
        look(model, None, ["decoder.blocks.1.crossattention"])


def test_a_model_without_attention():
    with pytest.raises(ValueError, match="Linear has no attention to watch"), watch(torch.nn.Linear(2, 2)):
        pass


def test_two_passes_are_not_mixed(model, batch):
    with pytest.raises(RuntimeError, match="ran twice while watched"), watch(model):
        model(batch)
        model(batch)
    assert not any(a.weights.watched for a in attentions(model).values())


def test_tokens_that_do_not_fit_are_refused(model, batch):
    weights = look(model, batch)
    with pytest.raises(ValueError, match="3 tokens, but weight on 6 keys"):
        views(weights, SOURCE[:3], READ)
    with pytest.raises(ValueError, match="weights"):
        views(weights, [*SOURCE, "a", "b", "c"], READ)
    with pytest.raises(ValueError, match="weights"):
        views(weights, SOURCE, [])


def test_a_view_refuses_what_is_no_number():
    with pytest.raises(ValueError, match="not finite"):
        View("encoder", 0, torch.tensor([[[float("nan")]]]), ("a",), ("a",))
    with pytest.raises(ValueError, match="'sideways' is not one of encoder"):
        View("sideways", 0, torch.ones(1, 1, 1), ("a",), ("a",))
