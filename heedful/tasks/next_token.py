"""Next token: predict each target token from those before it."""

from dataclasses import dataclass

from torch import Tensor, nn

from heedful.data.batch import PAD, Batch
from heedful.models.outputs import TokenOutputs
from heedful.nn import vocabulary_loss


@dataclass(frozen=True)
class NextToken:
    """Cross-entropy with label smoothing, summed over target tokens: the caller divides by their
    number over the whole logical batch, so that accumulation changes nothing."""

    smoothing: float = 0.0

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.of(model(batch), batch)

    def of(self, outputs: TokenOutputs, batch: Batch) -> Tensor:
        there = batch.labels_BT != PAD
        labels_N = batch.labels_BT[there]
        return vocabulary_loss(outputs.hidden_BTD[there], outputs.head, labels_N, self.smoothing)
