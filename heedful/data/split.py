"""Split: which examples are for training and which are held out, so that no source is in both."""

import hashlib

from heedful.data.readers import Record


def draw(text: str, number: int = 0) -> int:
    """A 64-bit draw that depends on the text's letters alone: 'Hi.' and 'hi!' go together."""
    letters = "".join(c for c in text.casefold() if c.isalnum())
    return int.from_bytes(hashlib.sha256(letters.encode()).digest()[8 * number : 8 * number + 8], "big")


def hold_out(records: list[Record], share: float) -> tuple[list[Record], list[Record]]:
    """(the rest, about `share` of the records): by source, whatever their order in the file.

    The second draw, since the first decides the parts of the bundled corpora.
    """
    held = [draw(r.source, 1) < share * 2**64 for r in records]
    kept = [r for r, out in zip(records, held, strict=True) if not out]
    return kept, [r for r, out in zip(records, held, strict=True) if out]


def unseen(records: list[Record], dev: list[Record]) -> tuple[list[Record], list[Record]]:
    """(The records whose source dev does not ask for, dev with the others: further right answers to it)."""
    sources = {r.source for r in dev}
    kept = [r for r in records if r.source not in sources]
    others = [r for r in records if r.source in sources]
    return kept, list(dict.fromkeys([*dev, *others]))
