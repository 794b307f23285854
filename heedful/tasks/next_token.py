"""Next token: predict each target token from those before it."""

from dataclasses import dataclass

from torch import Tensor, nn

from heedful.data.batch import PAD, Batch
from heedful.models.outputs import TokenOutputs
from heedful.nn import vocabulary_loss


@dataclass(frozen=True)
class NextToken:
    """Cross-entropy with label smoothing, summed over target tokens: the caller divides by their
    number over the whole logical batch, so that accumulation changes nothing.

    With an agreement, each batch is read twice under different dropout, and the two answers should
    be alike (R-Drop): costs a second pass, and helps where data is scarce.
    """

    smoothing: float = 0.0
    agreement: float = 0.0

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if not self.agreement:
            return self.of(model(batch), batch)
        return self.of(model(batch.twice()), batch) / 2

    def of(self, outputs: TokenOutputs, batch: Batch) -> Tensor:
        there = batch.labels_BT != PAD
        hidden_BTD = outputs.hidden_BTD
        hidden_ND = hidden_BTD[there.repeat(len(hidden_BTD) // len(there), 1)]
        labels_N = batch.labels_BT[there]
        return vocabulary_loss(hidden_ND, outputs.head, labels_N, self.smoothing, self.agreement)

    def plain(self) -> "NextToken":
        """The same task, as it is evaluated."""
        return NextToken()
