"""Block: attention and feed-forward, each inside a residual with its norm. Stack: blocks, repeated."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from heedful.nn.attention import Attention
from heedful.nn.dropout import Dropout
from heedful.nn.mask import Mask, exists
from heedful.nn.state import KeysValues, Memory, State

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "swish": nn.SiLU}
NORMS = ("pre", "post")


class Residual(nn.Module):
    """x + f(x), normalised before f ("pre") or after the sum ("post", the original)."""

    def __init__(self, dim: int, dropout: float, norm: str):
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"norm is one of {', '.join(NORMS)}, not {norm}")
        self.first = norm == "pre"
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def enter(self, x_BTD: Tensor) -> Tensor:
        return self.norm(x_BTD) if self.first else x_BTD

    def leave(self, x_BTD: Tensor, y_BTD: Tensor) -> Tensor:
        sum_BTD = self.dropout.add(x_BTD, y_BTD)
        return sum_BTD if self.first else self.norm(sum_BTD)


class FeedForward(nn.Module):
    """Two layers on each token by itself: dim -> ff -> dim."""

    def __init__(self, dim: int, ff: int, activation: str):
        super().__init__()
        self.up = nn.Linear(dim, ff)
        self.activation = ACTIVATIONS[activation]()
        self.down = nn.Linear(ff, dim)
        for linear in (self.up, self.down):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x_BTD)))


@dataclass(frozen=True)
class StackShape:
    """The numbers of a stack. `ff` is the inner width of the feed-forward layer."""

    dim: int
    heads: int
    layers: int
    ff: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "post"
    activation: str = "relu"


class Block(nn.Module):
    """Self-attention, then cross-attention if it has a memory to look at, then feed-forward."""

    def __init__(self, shape: StackShape, crosses: bool):
        super().__init__()
        s = shape
        self.self_residual = Residual(s.dim, s.dropout, s.norm)
        self.self_attention = Attention(s.dim, s.heads, s.attention_dropout)
        if crosses:
            self.cross_residual = Residual(s.dim, s.dropout, s.norm)
            self.cross_attention = Attention(s.dim, s.heads, s.attention_dropout)
        self.ff_residual = Residual(s.dim, s.dropout, s.norm)
        self.ff = FeedForward(s.dim, s.ff, s.activation)

    def look_within(self, x_BTD: Tensor, keep_BTS: Tensor, past: KeysValues | None):
        """Self-attention over the past and x; gives (x, past and x as keys and values)."""
        h_BTD = self.self_residual.enter(x_BTD)
        own = self.self_attention.remember(h_BTD)
        own = past.extend(own) if past else own
        return self.self_residual.leave(x_BTD, self.self_attention(h_BTD, own, keep_BTS)), own

    def look_across(self, x_BTD: Tensor, memory: KeysValues, keep_BTS: Tensor) -> Tensor:
        h_BTD = self.cross_residual.enter(x_BTD)
        return self.cross_residual.leave(x_BTD, self.cross_attention(h_BTD, memory, keep_BTS))

    def feed(self, x_BTD: Tensor) -> Tensor:
        return self.ff_residual.leave(x_BTD, self.ff(self.ff_residual.enter(x_BTD)))


class Stack(nn.Module):
    """Blocks one after another under one mask. An encoder is a stack that sees whatever exists;
    a decoder is a stack that sees the past, and looks across to a memory if it `crosses`."""

    def __init__(self, shape: StackShape, mask: Mask, crosses: bool = False):
        super().__init__()
        self.mask = mask
        blocks = nn.ModuleList(Block(shape, crosses) for _ in range(shape.layers))
        self.blocks = cast(Iterable[Block], blocks)  # it only says that it holds modules
        self.norm = nn.LayerNorm(shape.dim) if shape.norm == "pre" else nn.Identity()

    def forward(
        self, x_BTD: Tensor, pos_BT: Tensor, past: State | None = None, memory: Memory | None = None
    ) -> tuple[Tensor, State]:
        """Gives the new vectors, and the state with which the next tokens can go on."""
        if past and past.branches:
            return self.branch(x_BTD, pos_BT, past, memory)
        pos_BS = torch.cat([past.pos_BS, pos_BT], dim=1) if past else pos_BT
        x_BTD, layers = self.climb(x_BTD, pos_BT, self.mask(pos_BT, pos_BS), past, memory)
        return x_BTD, State(pos_BS, layers)

    def branch(
        self, x_NTD: Tensor, pos_NT: Tensor, past: State, memory: Memory | None
    ) -> tuple[Tensor, State]:
        """Hypotheses that share keys stand in one row, as tokens that do not see each other's past."""
        assert past.branches
        rows, T = len(past.branches.pos_BS), x_NTD.shape[1]
        x_BTD, pos_BT = x_NTD.reshape(rows, -1, x_NTD.shape[2]), pos_NT.reshape(rows, -1)
        branches = past.branches.extend(pos_BT)
        keep_BTS = self.mask(pos_BT, branches.pos_BS) & branches.own_BWS.repeat_interleave(T, dim=1)
        x_BTD, layers = self.climb(x_BTD, pos_BT, keep_BTS, past, memory)
        return x_BTD.view(x_NTD.shape), State(torch.cat([past.pos_BS, pos_NT], dim=1), layers, branches)

    def climb(
        self, x_BTD: Tensor, pos_BT: Tensor, keep_BTS: Tensor, past: State | None, memory: Memory | None
    ):
        """Through all blocks; gives (x, the keys and values of each)."""
        keep_memory = exists(pos_BT, memory.pos_BS) if memory else None
        layers = []
        for i, block in enumerate(self.blocks):
            x_BTD, own = block.look_within(x_BTD, keep_BTS, past.layers[i] if past else None)
            if memory and keep_memory is not None:
                x_BTD = block.look_across(x_BTD, memory.layers[i], keep_memory)
            x_BTD = block.feed(x_BTD)
            layers.append(own)
        return self.norm(x_BTD), tuple(layers)

    def remember(self, memory_BSD: Tensor, pos_BS: Tensor) -> Memory:
        """A source, as the cross-attention of every block will see it."""
        layers = [block.cross_attention.remember(memory_BSD) for block in self.blocks]
        if not torch.is_grad_enabled():  # it will be looked at for every token to come
            layers = [layer.roomy() for layer in layers]
        return Memory(pos_BS, tuple(layers))
