"""Outputs: what a model gives for a batch, before any loss."""

from dataclasses import dataclass

from torch import Tensor

from heedful.nn import Head


@dataclass(frozen=True)
class TokenOutputs:
    """A vector for each position to be predicted, and the head that turns it into logits.

    The loss takes these apart so that the full logits need never exist; `logits` makes them.
    """

    hidden_BTD: Tensor
    head: Head

    @property
    def logits(self) -> Tensor:
        return self.head(self.hidden_BTD)
