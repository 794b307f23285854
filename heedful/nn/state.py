"""State: what decoding carries. A value passed in and returned, never hidden on a module."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from heedful.nn.mask import ABSENT

LANES = 16  # float32 numbers in a vector register


class Room:
    """Space for keys and values to grow in, of which the first `filled` are written.

    In one piece and of whole vector registers, it is looked at as it is: products and softmax over an
    odd part of it would cost more than over all of it.
    """

    def __init__(self, k_BHSK: Tensor, v_BHSK: Tensor, filled: int):
        self.k_BHSK, self.v_BHSK, self.filled = k_BHSK, v_BHSK, filled

    @classmethod
    def around(cls, own: "KeysValues", size: int) -> "Room":
        (B, H, _, K), size = own.k_BHSK.shape, -(-size // LANES) * LANES
        room = cls(own.k_BHSK.new_zeros(B, H, size, K), own.v_BHSK.new_zeros(B, H, size, K), 0)
        room.write(own)
        return room

    def write(self, new: "KeysValues") -> "KeysValues":
        """All that is written, the new included."""
        start, self.filled = self.filled, self.filled + new.length
        self.k_BHSK[:, :, start : self.filled] = new.k_BHSK
        self.v_BHSK[:, :, start : self.filled] = new.v_BHSK
        return self.first(self.filled)

    def first(self, length: int) -> "KeysValues":
        return KeysValues(self.k_BHSK[:, :, :length], self.v_BHSK[:, :, :length], self)


@dataclass(frozen=True)
class KeysValues:
    """What one attention looks at: the keys and values of some source."""

    k_BHSK: Tensor
    v_BHSK: Tensor
    room: Room | None = None

    @property
    def length(self) -> int:
        return self.k_BHSK.shape[2]

    def extend(self, new: "KeysValues") -> "KeysValues":
        """Like a list's append: in place if this is all that its room holds and there is space left.
        Whoever still has an older value sees no change, and extends a room of its own."""
        if torch.is_grad_enabled():
            k_BHSK = torch.cat([self.k_BHSK, new.k_BHSK], dim=2)
            return KeysValues(k_BHSK, torch.cat([self.v_BHSK, new.v_BHSK], dim=2))
        total, room = self.length + new.length, self.room
        if room is None or room.filled != self.length or room.k_BHSK.shape[2] < total:
            room = Room.around(self, total + total // 4 + LANES)
        return room.write(new)

    def select(self, rows: Tensor) -> "KeysValues":
        if self.room is None:
            return KeysValues(self.k_BHSK[rows], self.v_BHSK[rows])
        return Room(self.room.k_BHSK[rows], self.room.v_BHSK[rows], self.length).first(self.length)

    def roomy(self) -> "KeysValues":
        """In a room of their own, for those who look at them again and again."""
        return Room.around(self, self.length).first(self.length)

    def whole(self, keep_BTS: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values and who may look at whom; with the rest of the room, at which nobody looks."""
        if self.room is None:
            return self.k_BHSK, self.v_BHSK, keep_BTS
        rest = self.room.k_BHSK.shape[2] - self.length
        return self.room.k_BHSK, self.room.v_BHSK, pad(keep_BTS, (0, rest))


@dataclass(frozen=True)
class Memory:
    """The encoded source, as every decoder layer sees it; pos_BS is ABSENT where padded."""

    pos_BS: Tensor
    layers: tuple[KeysValues, ...]

    def select(self, rows: Tensor) -> "Memory":
        return Memory(self.pos_BS[rows], tuple(layer.select(rows) for layer in self.layers))


@dataclass(frozen=True)
class Branches:
    """W hypotheses share each row of keys and values: a token stays where it was written, and each
    hypothesis knows which of them are its own past. A new order moves these bools and no key."""

    pos_BS: Tensor
    own_BWS: Tensor

    def extend(self, pos_BT: Tensor) -> "Branches":
        """Each hypothesis reads T/W tokens more, that only it has behind it."""
        B, W, _ = self.own_BWS.shape
        new_WT = torch.eye(W, dtype=torch.bool, device=pos_BT.device).repeat_interleave(
            pos_BT.shape[1] // W, 1
        )
        own_BWS = torch.cat([self.own_BWS, new_WT.expand(B, -1, -1)], dim=2)
        return Branches(torch.cat([self.pos_BS, pos_BT], dim=1), own_BWS)

    def follow(self, parent_BW: Tensor) -> "Branches":
        rows_B1 = torch.arange(len(parent_BW), device=parent_BW.device)[:, None]
        return Branches(self.pos_BS, self.own_BWS[rows_B1, parent_BW])


@dataclass(frozen=True)
class State:
    """What has been decoded so far: the positions, and each layer's keys and values.

    pos_BS has a row for each hypothesis, and so have keys and values, unless `branches` tells that
    neighbouring hypotheses share them.
    """

    pos_BS: Tensor
    layers: tuple[KeysValues, ...]
    branches: Branches | None = None

    def select(self, rows: Tensor) -> "State":
        """Any hypotheses, in any order, each with keys and values of its own."""
        shared, pos_BS = rows, self.pos_BS[rows]
        if self.branches:
            shared = rows // self.branches.own_BWS.shape[1]
            own_NS = self.branches.own_BWS.flatten(0, 1)[rows]
            pos_BS = self.branches.pos_BS[shared].where(own_NS, ABSENT)
        return State(pos_BS, tuple(layer.select(shared) for layer in self.layers))

    def fan(self, width: int) -> "State":
        """Each row becomes `width` hypotheses, side by side, that share what was read so far."""
        own_BWS = torch.ones_like(self.pos_BS, dtype=torch.bool)[:, None].repeat(1, width, 1)
        pos_NS = self.pos_BS.repeat_interleave(width, dim=0)
        return State(pos_NS, self.layers, Branches(self.pos_BS, own_BWS))

    def follow(self, parent_BW: Tensor) -> "State":
        """After fan: hypothesis w of a row goes on from what was hypothesis parent[w] of that row."""
        assert self.branches
        first_B1 = torch.arange(len(parent_BW), device=parent_BW.device)[:, None] * parent_BW.shape[1]
        pos_NS = self.pos_BS[(first_B1 + parent_BW).flatten()]
        return State(pos_NS, self.layers, self.branches.follow(parent_BW))

    def stay(self, rows: Tensor) -> "State":
        """After fan: only these rows, each with all its hypotheses."""
        assert self.branches
        B, W, _ = self.branches.own_BWS.shape
        pos_NS = self.pos_BS.view(B, W, -1)[rows].flatten(0, 1)
        branches = Branches(self.branches.pos_BS[rows], self.branches.own_BWS[rows])
        return State(pos_NS, tuple(layer.select(rows) for layer in self.layers), branches)
