"""The core: tensors only. No files, no configs, no tokenizers.

Letters in names give shapes: B batch, T query length, S key length, D width, H heads,
K head width, F feed-forward, V vocabulary, N rows, P passes, W hypotheses.
"""

from heedful.nn.attention import Attention, attend, attend_plainly
from heedful.nn.block import Block, Residual, Stack
from heedful.nn.dropout import Dropout
from heedful.nn.embed import Embed
from heedful.nn.head import Head, vocabulary_loss
from heedful.nn.mask import Mask, causal, exists, positions, window
from heedful.nn.position import Learned, Sinusoid
from heedful.nn.state import KeysValues, Memory, State

__all__ = [
    "Attention",
    "Block",
    "Dropout",
    "Embed",
    "Head",
    "KeysValues",
    "Learned",
    "Mask",
    "Memory",
    "Residual",
    "Sinusoid",
    "Stack",
    "State",
    "attend",
    "attend_plainly",
    "causal",
    "exists",
    "positions",
    "vocabulary_loss",
    "window",
]
