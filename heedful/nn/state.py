"""State: what decoding carries. A value passed in and returned, never hidden on a module."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeysValues:
    """What one attention looks at: the keys and values of some source."""

    k_BHSK: Tensor
    v_BHSK: Tensor

    def extend(self, new: "KeysValues") -> "KeysValues":
        k_BHSK = torch.cat([self.k_BHSK, new.k_BHSK], dim=2)
        return KeysValues(k_BHSK, torch.cat([self.v_BHSK, new.v_BHSK], dim=2))

    def select(self, rows: Tensor) -> "KeysValues":
        return KeysValues(self.k_BHSK[rows], self.v_BHSK[rows])


@dataclass(frozen=True)
class Memory:
    """The encoded source, as every decoder layer sees it; pos_BS is ABSENT where padded."""

    pos_BS: Tensor
    layers: tuple[KeysValues, ...]

    def select(self, rows: Tensor) -> "Memory":
        return Memory(self.pos_BS[rows], tuple(layer.select(rows) for layer in self.layers))


@dataclass(frozen=True)
class State:
    """What has been decoded so far: the positions, and each layer's keys and values."""

    pos_BS: Tensor
    layers: tuple[KeysValues, ...]

    def select(self, rows: Tensor) -> "State":
        return State(self.pos_BS[rows], tuple(layer.select(rows) for layer in self.layers))
