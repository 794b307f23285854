"""Generate: one search for every model that can `encode` a source and `decode` the next token."""

from heedful.generate.precision import in_precision
from heedful.generate.score import score
from heedful.generate.search import generate, stream
from heedful.generate.settings import Hypothesis, Search, Token

__all__ = ["Hypothesis", "Search", "Token", "generate", "in_precision", "score", "stream"]
