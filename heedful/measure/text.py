"""Scores of generated text against references, several of them where there are several."""

from collections.abc import Callable, Sequence
from typing import cast

import sacrebleu
from sacrebleu.metrics.base import Metric

from heedful.data.readers import Record
from heedful.errors import BadInput

Tokens = Callable[[Sequence[str]], list[str]]


def by_source(records: list[Record]) -> tuple[list[str], list[list[str]]]:
    """Each source once, in order, with all its references; the first of them is the one that came first."""
    references: dict[str, list[str]] = {}
    for record in records:
        references.setdefault(record.source, []).append(record.target)
    return list(references), list(references.values())


def streams(references: list[list[str]]) -> list[list[str | None]]:
    """As sacreBLEU wants them: the first reference of every sentence, then the second (or None), ..."""
    most = max(len(group) for group in references)
    return [[group[i] if i < len(group) else None for group in references] for i in range(most)]


def corpus_score(metric: Metric, outputs: Sequence[str], references: list[list[str]]) -> float:
    refs = cast(list[list[str]], streams(references))  # None is welcome, though its annotations do not say so
    return round(metric.corpus_score(outputs, refs).score, 2)


def corpus_scores(outputs: Sequence[str], references: list[list[str]]) -> dict[str, float | str]:
    """Cased, detokenised sacreBLEU with its signature, chrF and TER, against the references given."""
    bleu, chrf, ter = sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER()
    return {
        "bleu": corpus_score(bleu, outputs, references),
        "chrf": corpus_score(chrf, outputs, references),
        "ter": corpus_score(ter, outputs, references),
        "bleu_signature": str(bleu.get_signature()),
    }


def moses_tokens(language: str) -> Tokens:
    """Texts as lowercased Moses tokens of a language; sacremoses itself would take another's as English."""
    try:
        from sacremoses import MosesTokenizer
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise BadInput("--moses needs sacremoses: pip install heedful[moses]") from error
    known = sorted({*NonbreakingPrefixes().available_langs.values(), "ja", "ko"})
    if language not in known:
        raise BadInput(f"--moses {language}: no rules for this language; there are: {', '.join(known)}")
    moses = MosesTokenizer(lang=language)
    return lambda texts: [" ".join(moses.tokenize(text.lower(), escape=False)) for text in texts]


def moses_bleu(outputs: Sequence[str], references: list[list[str]], tokens: Tokens) -> float:
    """Lowercased BLEU over Moses tokens, as older papers report it."""
    bleu = sacrebleu.BLEU(tokenize="none", force=True)
    return corpus_score(bleu, tokens(outputs), [tokens(group) for group in references])


def edits(left: Sequence[str], right: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def error_rates(outputs: Sequence[str], references: list[list[str]]) -> dict[str, float]:
    """Per word of the nearest reference, and per sequence (one that is in no reference is an error).

    For phonemes these are the phoneme and the word error rate.
    """
    wrong = length = missed = 0
    for output, group in zip(outputs, references, strict=True):
        words = output.split()
        best = min(((edits(words, r.split()), len(r.split())) for r in group), key=lambda pair: pair[0])
        wrong, length, missed = wrong + best[0], length + best[1], missed + (output not in group)
    return {
        "error_rate": round(100 * wrong / max(length, 1), 3),
        "sequence_error_rate": round(100 * missed / len(outputs), 3),
        "exact_match": round(100 - 100 * missed / len(outputs), 3),
    }
