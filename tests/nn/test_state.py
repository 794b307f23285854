"""State: a value, whoever goes on from it; and hypotheses that share what they have in common."""

import pytest
import torch

from heedful.nn import KeysValues, Stack, causal, positions, window
from heedful.nn.block import StackShape
from tests.nn.reference import SAME, stir

SEEN = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]], dtype=torch.bool)


@pytest.fixture(params=["grad", "no grad"])
def either_way(request):
    """Without gradients keys are written into room kept for them; with gradients they cannot be."""
    with torch.set_grad_enabled(request.param == "grad"):
        yield


def make(mask=causal, crosses=False) -> Stack:
    return stir(Stack(StackShape(dim=8, heads=2, layers=2, ff=12, dropout=0.0), mask, crosses))


def step(stack, x, state, memory=None):
    """Tokens x after the state."""
    pos = state.pos_BS.amax(1, keepdim=True) + 1 + torch.arange(x.shape[1])
    return stack(x, pos, state, memory)


def test_nobody_sees_what_another_does_with_the_same_state(either_way):
    """From every state of a run, two ways on: the second gives what it would have given first."""
    stack, x = make(), torch.randn(3, 8, 8)
    _, state = stack(x[:, :2], torch.arange(2).repeat(3, 1))
    states = [state]
    for t in range(2, 7):
        states.append(step(stack, x[:, t : t + 1], states[-1])[1])
    other = torch.randn(3, 1, 8)
    for n, state in enumerate(states, start=2):
        whole = torch.cat([x[:, :n], other], 1)
        expected, _ = stack(whole, torch.arange(n + 1).repeat(3, 1))
        torch.testing.assert_close(step(stack, other, state)[0], expected[:, -1:], **SAME)
        assert state.pos_BS.shape == (3, n)
        assert all(layer.k_BHSK.shape[2] == n for layer in state.layers)
    torch.testing.assert_close(
        step(stack, x[:, 7:], states[-1])[0], stack(x, torch.arange(8).repeat(3, 1))[0][:, -1:], **SAME
    )


@pytest.mark.parametrize("sizes", [[1] * 40, [1, 30, 2, 1], [20, 20]])
def test_keys_and_values_grow_by_any_amount(either_way, sizes):
    k, v = torch.randn(2, 3, 2, sum(sizes), 4)
    gathered, olds = None, []
    for new in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True):
        gathered = gathered.extend(KeysValues(*new)) if gathered else KeysValues(*new)
        olds.append(gathered)
    for old, length in zip(olds, torch.tensor(sizes).cumsum(0), strict=True):
        assert old.k_BHSK.equal(k[:, :, :length]) and old.v_BHSK.equal(v[:, :, :length])


def test_rows_of_state_and_memory_can_be_selected(either_way):
    """As a beam does it: rows repeated, dropped, exchanged."""
    stack, x, rows = make(crosses=True), torch.randn(3, 5, 8), torch.tensor([1, 1, 0, 2])
    memory = stack.remember(torch.randn(3, 4, 8), positions(SEEN))
    pos = torch.arange(5).repeat(3, 1)
    whole, _ = stack(x, pos, memory=memory)
    _, state = stack(x[:, :4], pos[:, :4], memory=memory)
    out, _ = stack(x[rows, 4:], pos[rows, 4:], state.select(rows), memory.select(rows))
    torch.testing.assert_close(out, whole[rows, 4:], **SAME)


class Hypotheses:
    """Each with all its tokens, run from the start and by itself: what sharing is held to."""

    def __init__(self, stack, memory, prompts):
        self.stack, self.memory, self.rows = stack, memory, list(range(len(prompts)))
        self.tokens = prompts

    def fan(self, width):
        self.rows = [row for row in self.rows for _ in range(width)]
        self.tokens = [tokens for tokens in self.tokens for _ in range(width)]

    def select(self, which):
        self.rows, self.tokens = [self.rows[i] for i in which], [self.tokens[i] for i in which]

    def step(self, x):
        self.tokens = [torch.cat([old, new]) for old, new in zip(self.tokens, x, strict=True)]
        outs = []
        for row, tokens in zip(self.rows, self.tokens, strict=True):
            memory = self.memory and self.memory.select(torch.tensor([row]))
            out, _ = self.stack(tokens[None], torch.arange(len(tokens))[None], memory=memory)
            outs.append(out[:, -x.shape[1] :])
        return torch.cat(outs)


@pytest.mark.parametrize("mask", [causal, causal & window(3)])
@pytest.mark.parametrize("crosses", [False, True])
def test_hypotheses_that_share_are_hypotheses_of_their_own(either_way, mask, crosses):
    """Prompts of different lengths, three hypotheses each, reordered, some rows done, some picked."""
    stack, prompts = make(mask, crosses), torch.randn(3, 4, 8)
    memory = stack.remember(torch.randn(3, 4, 8), positions(SEEN.flip(1))) if crosses else None
    _, state = stack(prompts, positions(SEEN), memory=memory)
    alone = Hypotheses(stack, memory, [x[seen] for x, seen in zip(prompts, SEEN, strict=True)])

    state = state.fan(3)
    alone.fan(3)
    for length in (1, 2, 1):
        x = torch.randn(9, length, 8)
        out, state = step(stack, x, state, memory)
        torch.testing.assert_close(out, alone.step(x), **SAME)
        parent = torch.randint(3, (3, 3))
        state = state.follow(parent)
        alone.select((torch.arange(3)[:, None] * 3 + parent).flatten().tolist())

    stay = torch.tensor([2, 0])
    state, memory = state.stay(stay), memory and memory.select(stay)
    alone.select([6, 7, 8, 0, 1, 2])
    x = torch.randn(6, 1, 8)
    out, state = step(stack, x, state, memory)
    torch.testing.assert_close(out, alone.step(x), **SAME)

    best = torch.tensor([1, 5, 3])
    state, memory = state.select(best), memory and memory.select(best // 3)
    alone.select(best.tolist())
    x = torch.randn(3, 2, 8)
    out, _ = step(stack, x, state, memory)
    torch.testing.assert_close(out, alone.step(x), **SAME)
