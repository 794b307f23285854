"""Generate: one search for every model that can `encode` a source and `decode` the next token."""

from heedful.generate.score import score
from heedful.generate.search import generate, stream
from heedful.generate.settings import Hypothesis, Search, Token

__all__ = ["Hypothesis", "Search", "Token", "generate", "score", "stream"]
