"""Small generators to search with: a Transformer, an RNN whose state only knows `select`, and a table."""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedful.data.batch import END, PAD, START
from heedful.models.translation import Translation, TranslationConfig

FIRST = 7  # the first id that is not a control token
V = 13


def stir(model: nn.Module, std: float, seed: int) -> nn.Module:
    """Random weights; with these seeds, greedy targets differ from each other and some of them end."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std if parameter.dim() > 1 else 0.5)
    return model.eval()


def translation(vocabulary: int = V) -> Translation:
    sizes = {"dim": 16, "heads": 2, "layers": 2, "ff": 32, "length": 64}
    return stir(Translation(TranslationConfig(vocabulary=vocabulary, **sizes)), 0.8, 38)


def post_norm(vocabulary: int = V) -> Translation:
    sizes = {"dim": 16, "heads": 2, "layers": 2, "ff": 32, "length": 64}
    config = TranslationConfig(vocabulary=vocabulary, norm="post", **sizes)
    return stir(Translation(config), 0.5, 100)


def recurrent(vocabulary: int = V) -> "Recurrent":
    return stir(Recurrent(vocabulary), 1.2, 11)


@dataclass(frozen=True)
class Hidden:
    h_ND: Tensor

    def select(self, rows: Tensor) -> "Hidden":
        return Hidden(self.h_ND[rows])


class Recurrent(nn.Module):
    """A GRU that reads the source's mean: its memory and state have a row for each hypothesis."""

    def __init__(self, vocabulary: int = V, dim: int = 8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.head = nn.Linear(dim, vocabulary)

    def encode(self, source_BS: Tensor) -> Hidden:
        there_BS1 = (source_BS != PAD)[:, :, None]
        return Hidden((self.embed(source_BS) * there_BS1).sum(1) / there_BS1.sum(1))

    def decode(self, ids_NT: Tensor, memory: Hidden, state: Hidden | None) -> tuple[Tensor, Hidden]:
        h_ND = state.h_ND if state else torch.zeros_like(memory.h_ND)
        logits = []
        for id_N in ids_NT.unbind(1):
            new_ND = self.cell(torch.cat([self.embed(id_N), memory.h_ND], dim=1), h_ND)
            h_ND = torch.where((id_N != PAD)[:, None], new_ND, h_ND)
            logits.append(self.head(h_ND))
        return torch.stack(logits, dim=1), Hidden(h_ND)


class Table:
    """Says by hand what comes next: {tokens so far: {next token: probability}}, else <end> surely."""

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]], vocabulary: int = V):
        self.table = table
        self.vocabulary = vocabulary
        self.reads = 0

    def encode(self, source_BS: Tensor) -> Hidden:
        return Hidden(source_BS)

    def decode(self, ids_NT: Tensor, memory: Hidden, state: Hidden | None) -> tuple[Tensor, Hidden]:
        self.reads += 1
        past_NT = torch.cat([state.h_ND, ids_NT], dim=1) if state else ids_NT
        start = past_NT.shape[1] - ids_NT.shape[1]
        logits = [
            [self.row(past[: start + t + 1]) for t in range(ids_NT.shape[1])] for past in past_NT.tolist()
        ]
        return torch.tensor(logits), Hidden(past_NT)

    def row(self, past: list[int]) -> list[float]:
        nexts = self.table.get(tuple(i for i in past if i not in (PAD, START)), {END: 1.0})
        probability = torch.full((self.vocabulary,), 1e-30)
        for token, p in nexts.items():
            probability[token] = p
        return probability.log().tolist()


MODELS = {"transformer": translation, "post-norm": post_norm, "recurrent": recurrent}


def sources(lengths=(3, 9, 1, 6, 5, 9, 2), vocabulary: int = V) -> list[list[int]]:
    random = torch.Generator().manual_seed(3)
    words = (torch.randint(FIRST, vocabulary, (n,), generator=random).tolist() for n in lengths)
    return [[START, *row, END] for row in words]


def every_target(vocabulary: int, longest: int):
    """All targets of up to so many words."""
    for length in range(longest + 1):
        yield from itertools.product(range(FIRST, vocabulary), repeat=length)
