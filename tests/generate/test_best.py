"""The fast way to the likeliest is the plain one, rule by rule."""

import pytest
import torch

from heedful.data.batch import END, PAD, START
from heedful.generate import Search, best
from heedful.generate.best import by_ranking_all, likeliest
from heedful.generate.rules import Past, next_logprobs
from tests.generate.models import FIRST

RULES = {
    "none": Search(),
    "minimum": Search(min_length=4),
    "penalty": Search(repetition_penalty=1.7),
    "repeats": Search(no_repeat=2),
}


def past(rows: int, V: int) -> Past:
    ids_NT = torch.randint(FIRST, V, (rows, 5))
    ids_NT[:, 0] = START
    ids_NT[rows // 2 :, 3] = ids_NT[rows // 2 :, 1]
    ids_NT[: rows // 2, :2] = torch.tensor([PAD, START])
    return Past(ids_NT, (ids_NT > START).sum(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("V", [1024, 1500, 10_000])
@pytest.mark.parametrize("W, k", [(1, 1), (1, 10), (5, 10)])
@pytest.mark.parametrize("name", ["none", "minimum"])
def test_blocks_find_what_ranking_all_finds(V, W, k, name, dtype, monkeypatch):
    monkeypatch.setattr(best, "CHUNK", 3 * V)  # several chunks, the last one smaller
    search, rows = RULES[name], past(16 * W, V)
    logits_NV = torch.stack([torch.randperm(V) for _ in range(16 * W)]) / 128.0  # no two alike
    logits_NV[:, [END, START, V - 1, V - 70]] += V / 128.0
    logits_NV = logits_NV.to(dtype)
    total_BW = torch.randn(16, W).cumsum(1) - 20
    total_BW[3:, 1:][:, -1:] = -torch.inf
    ways, plain = (find(logits_NV, rows, total_BW, k, search) for find in (likeliest, by_ranking_all))
    torch.testing.assert_close(ways.logprob_BC, plain.logprob_BC, rtol=1e-5, atol=4e-5)
    torch.testing.assert_close(ways.total_BC, plain.total_BC, rtol=1e-6, atol=4e-5)
    if dtype == torch.float32:  # in bfloat16 many are alike
        assert ways.parent_BC.equal(plain.parent_BC) and ways.token_BC.equal(plain.token_BC)
    row_BC = ways.parent_BC + torch.arange(16)[:, None] * W
    logprob_NV = next_logprobs(logits_NV, rows, search)
    torch.testing.assert_close(logprob_NV[row_BC, ways.token_BC], ways.logprob_BC, rtol=1e-5, atol=4e-5)
    pairs = (ways.parent_BC * V + ways.token_BC).tolist()
    assert all(len(set(row)) == k for row in pairs)


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_the_survey_of_normalisers_and_blocks(scale):
    logits_NV = torch.randn(50, 1290) * scale
    norm_N, high_NM = best.survey(logits_NV)
    torch.testing.assert_close(norm_N, logits_NV.double().logsumexp(1).float(), rtol=1e-6, atol=2e-6)
    assert high_NM[:, 3].equal(logits_NV[:, 192:256].amax(1))
    assert high_NM.shape[1] == 21 and high_NM[:, 20].equal(logits_NV[:, 1280:].amax(1))


def test_logits_are_left_as_they_are():
    logits_NV = torch.randn(4, 2000)
    before = logits_NV.clone()
    for search in (*RULES.values(), Search(temperature=1.0, repetition_penalty=2.0)):
        likeliest(logits_NV, past(4, 2000), torch.zeros(4, 1), 1, search)
        by_ranking_all(logits_NV, past(4, 2000), torch.zeros(4, 1), 1, search)
    assert logits_NV.equal(before)
