"""The fast way to the likeliest is the plain one, rule by rule."""

import pytest
import torch

from heedful.data.batch import END, PAD, START
from heedful.generate import Search, best
from heedful.generate.best import by_ranking_all, likeliest
from heedful.generate.rules import Past
from tests.generate.models import FIRST

RULES = {
    "none": Search(),
    "penalty": Search(repetition_penalty=1.7),
    "repeats": Search(no_repeat=2),
    "minimum": Search(min_length=4),
}


def past(rows: int, V: int) -> Past:
    ids_NT = torch.randint(FIRST, V, (rows, 5))
    ids_NT[:, 0] = START
    ids_NT[rows // 2 :, 3] = ids_NT[rows // 2 :, 1]
    ids_NT[: rows // 2, :2] = torch.tensor([PAD, START])
    return Past(ids_NT, (ids_NT > START).sum(1))


@pytest.mark.parametrize("V", [1024, 1500, 10_000])
@pytest.mark.parametrize("W, k", [(1, 1), (1, 10), (5, 10)])
@pytest.mark.parametrize("search", RULES.values(), ids=RULES)
def test_blocks_find_what_ranking_all_finds(V, W, k, search, monkeypatch):
    monkeypatch.setattr(best, "CHUNK", 3 * W * V)  # several chunks, the last one smaller
    rows = past(16 * W, V)
    logits_NV = torch.randn(16 * W, V) * 3
    logits_NV[:, END] = 12.0  # would always be the best
    logits_NV[torch.arange(16 * W), rows.ids_NT[:, -1]] = 11.0
    total_BW = torch.randn(16, W).cumsum(1) - 20
    total_BW[3:, 1:][:, -1:] = -torch.inf
    ways, plain = (find(logits_NV, rows, total_BW, k, search) for find in (likeliest, by_ranking_all))
    assert ways.parent_BC.equal(plain.parent_BC) and ways.token_BC.equal(plain.token_BC)
    torch.testing.assert_close(ways.logprob_BC, plain.logprob_BC, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ways.total_BC, plain.total_BC, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_the_normaliser_is_logsumexp(scale):
    value_NC = torch.randn(50, 1280) * scale
    norm_N = best.normaliser(value_NC, torch.empty_like(value_NC))
    torch.testing.assert_close(norm_N, value_NC.double().logsumexp(1).float(), rtol=1e-6, atol=2e-6)


def test_logits_are_left_as_they_are():
    logits_NV = torch.randn(4, 2000)
    before = logits_NV.clone()
    for search in (*RULES.values(), Search(temperature=1.0, repetition_penalty=2.0)):
        likeliest(logits_NV, past(4, 2000), torch.zeros(4, 1), 1, search)
        by_ranking_all(logits_NV, past(4, 2000), torch.zeros(4, 1), 1, search)
    assert logits_NV.equal(before)
