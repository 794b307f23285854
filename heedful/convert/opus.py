"""OPUS-MT: a Marian model's own pieces and ids; its weights follow them to ours.

Marian has no <start>: a source is its pieces and </s>, and what the decoder reads first is mostly <pad>.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.convert.names import BIAS, SOURCE, TARGET
from heedful.convert.pieces import Pieces, without_start
from heedful.convert.whole import NEVER_BIAS
from heedful.data.batch import CONTROL
from heedful.data.tokenizer import Tokenizer
from heedful.errors import BadInput
from heedful.models.translation import TranslationConfig

PAD, UNK, END = "<pad>", "<unk>", "</s>"
NOWHERE = -1  # the row of a token that they have not


@dataclass(frozen=True)
class Ids:
    """For each id of ours: its text, the row of its embedding there, and the row of its bias."""

    texts: tuple[str, ...]
    rows: tuple[int, ...]
    bias_rows: tuple[int, ...]

    @classmethod
    def of(cls, theirs: dict[str, int], size: int, start: int, missing: list[str]) -> "Ids":
        """Our control tokens, then theirs in their order, then pieces that have no id there: these are
        read as <unk>, and never written."""
        pad, unk, end = (theirs[name] for name in (PAD, UNK, END))
        text = {number: piece for piece, number in theirs.items()}
        rest = [number for number in range(size) if number not in (pad, unk, end)]
        nowhere = (NOWHERE,) * (len(CONTROL) - 4)
        rows = (pad, unk, start, end, *nowhere, *rest, *[unk] * len(missing))
        bias_rows = (pad, unk, NOWHERE, end, *nowhere, *rest, *[NOWHERE] * len(missing))
        return cls((*CONTROL, *(text.get(number, f"{number}") for number in rest), *missing), rows, bias_rows)

    def table(self, table_VD: Tensor) -> Tensor:
        return torch.cat([table_VD, torch.zeros_like(table_VD[:1])])[list(self.rows)]

    def bias(self, bias_V: Tensor) -> Tensor:
        return torch.cat([bias_V, bias_V.new_full((1,), NEVER_BIAS)])[list(self.bias_rows)]


def with_our_ids(
    folder: Path, theirs: dict[str, Any], config: TranslationConfig, tensors: dict[str, Tensor]
) -> tuple[tuple[Tokenizer, Tokenizer], TranslationConfig, dict[str, Tensor]]:
    """Tokenizers made of the folder's own; config and weights with a row for each token of these."""
    pieces = [Pieces.load(folder / name) for name in ("source.spm", "target.spm")]
    if config.target_vocabulary:
        files = [folder / "vocab.json", folder / "target_vocab.json"]
        sizes, groups = [config.vocabulary, config.target_vocabulary], [pieces[:1], pieces[1:]]
    else:
        files, sizes, groups = [folder / "vocab.json"], [config.vocabulary], [pieces]
    start = theirs.get("decoder_start_token_id")
    ids = [ids_of(*parts, start) for parts in zip(files, sizes, groups, strict=True)]
    source, target = ids[0], ids[-1]
    marks = [text for text in source.texts if text.startswith(">>") and text.endswith("<<")]
    tokenizers = (
        without_start(pieces[0].tokenizer(source.texts, marks)),
        pieces[1].tokenizer(target.texts),
    )
    changed = {SOURCE: source.table(tensors[SOURCE]), BIAS: target.bias(tensors[BIAS])}
    if config.target_vocabulary:
        changed[TARGET] = target.table(tensors[TARGET])
        config = replace(config, target_vocabulary=len(target.texts))
    return tokenizers, replace(config, vocabulary=len(source.texts)), tensors | changed


def ids_of(path: Path, size: int, pieces: list[Pieces], start: Any) -> Ids:
    theirs = read_json(path)
    for name in (PAD, UNK, END):
        if name not in theirs:
            raise BadInput(f"{path}: has no {name}")
    numbers = list(theirs.values())
    if not all(type(n) is int and 0 <= n < size for n in numbers) or len(set(numbers)) < len(numbers):
        raise BadInput(f"{path}: its ids are not {len(numbers):,} numbers from 0 to {size - 1:,}")
    if type(start) is not int or not 0 <= start < size:
        raise BadInput(f"{path.parent / 'config.json'}: decoder_start_token_id {start!r} is not an id")
    known = {piece for group in pieces for piece in group.scores}
    return Ids.of(theirs, size, start, sorted(known - theirs.keys()))


def read_json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{path}: not JSON, or damaged: {error}") from error
    if not isinstance(table, dict):
        raise BadInput(f"{path}: not a table of keys and values")
    return table
