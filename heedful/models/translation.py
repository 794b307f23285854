"""Translation: the encoder-decoder of "Attention Is All You Need", on one page."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from heedful.data.batch import PAD, Batch
from heedful.models.outputs import TokenOutputs
from heedful.nn import Embed, Head, Memory, Stack, State, causal, exists, positions
from heedful.nn.block import StackShape
from heedful.nn.position import KINDS as POSITIONS


@dataclass(frozen=True)
class TranslationConfig:
    """`vocabulary` and `target_vocabulary` are set from the data; 0 in the latter means shared."""

    kind: str = "translation"
    dim: int = 256
    heads: int = 4
    layers: int = 4
    decoder_layers: int = 0  # 0: as many as the encoder's
    ff: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu", "swish"] = "relu"
    position: Literal["sinusoid", "learned"] = "sinusoid"
    length: int = 256  # positions: the longest text, in tokens
    vocabulary: int = 0
    target_vocabulary: int = 0

    def stack(self, layers: int) -> StackShape:
        c = self
        sizes = (c.dim, c.heads, layers, c.ff, c.dropout, c.attention_dropout)
        return StackShape(*sizes, norm=c.norm, activation=c.activation)


class Translation(nn.Module):
    """Source ids in, a distribution over the next target token out."""

    def __init__(self, config: TranslationConfig):
        super().__init__()
        c = self.config = config
        self.source_embed = self.embed(c.vocabulary)
        self.target_embed = self.embed(c.target_vocabulary) if c.target_vocabulary else self.source_embed
        self.encoder = Stack(c.stack(c.layers), exists)
        self.decoder = Stack(c.stack(c.decoder_layers or c.layers), causal, crosses=True)
        self.head = Head(self.target_embed.table_VD)

    def embed(self, vocabulary: int) -> Embed:
        c = self.config
        return Embed(vocabulary, c.dim, POSITIONS[c.position](c.length, c.dim), c.dropout)

    @property
    def longest(self) -> int:
        """As many tokens as it has positions for."""
        return self.config.length

    def encode(self, source_BS: Tensor) -> Memory:
        pos_BS = positions(source_BS != PAD)
        memory_BSD, _ = self.encoder(self.source_embed(source_BS, pos_BS), pos_BS)
        return self.decoder.remember(memory_BSD, pos_BS)

    def read(self, ids_BT: Tensor, memory: Memory, state: State | None) -> tuple[Tensor, State]:
        """Target tokens after `state`; gives a vector for each next token, and the new state."""
        keep_BT = ids_BT != PAD
        pos_BT = positions(keep_BT)
        if state:
            pos_BT = (pos_BT + state.pos_BS.amax(1, keepdim=True) + 1).where(keep_BT, pos_BT)
        return self.decoder(self.target_embed(ids_BT, pos_BT), pos_BT, state, memory)

    def decode(self, ids_BT: Tensor, memory: Memory, state: State | None) -> tuple[Tensor, State]:
        hidden_BTD, state = self.read(ids_BT, memory, state)
        return self.head(hidden_BTD), state

    def forward(self, batch: Batch) -> TokenOutputs:
        """Every next-token task of every target in one pass: the causal mask keeps them apart."""
        hidden_BTD, _ = self.read(batch.target_BT[:, :-1], self.encode(batch.source_BS), None)
        return TokenOutputs(hidden_BTD, self.head)
