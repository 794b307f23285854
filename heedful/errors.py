"""What goes wrong because of what was given, not because of a fault in the program."""

import difflib
from collections.abc import Iterable


class BadInput(ValueError):
    """One clear line for the user; the command prints it and exits with status 2."""


class Damaged(BadInput):
    """A file that does not hold what was written; an older one may."""


def nearest(word: str, known: Iterable[str]) -> str:
    """' (did you mean X?)', or nothing if no known word is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
