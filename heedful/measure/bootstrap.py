"""Bootstrap: how sure a difference between two systems is, from resampling the sentences."""

from collections.abc import Sequence

import numpy as np
import sacrebleu

SAMPLES = 1000


def statistics(outputs: Sequence[str], references: list[list[str]]) -> np.ndarray:
    """Each sentence's counts for BLEU: their sum over a sample gives the sample's score."""
    bleu = sacrebleu.BLEU()
    rows = []
    for output, group in zip(outputs, references, strict=True):
        score = bleu.corpus_score([output], [[r] for r in group])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.int64)


def score_of(total: np.ndarray) -> float:
    counts, totals = total[:4].tolist(), total[4:8].tolist()
    lengths = int(total[8]), int(total[9])
    return sacrebleu.BLEU.compute_bleu(counts, totals, *lengths, smooth_method="exp").score


def resampled(rows: np.ndarray, seed: int = 1) -> np.ndarray:
    """The scores of SAMPLES corpora of as many sentences, drawn with replacement."""
    random = np.random.default_rng(seed)
    picks = random.integers(0, len(rows), (SAMPLES, len(rows)))
    return np.array([score_of(rows[pick].sum(0)) for pick in picks])


def interval(rows: np.ndarray) -> tuple[float, float]:
    """Where 95 of 100 samples lie."""
    low, high = np.percentile(resampled(rows), [2.5, 97.5])
    return round(float(low), 2), round(float(high), 2)


def paired(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """The mean difference over the same samples, and how often ours is no better."""
    difference = resampled(ours) - resampled(theirs)
    return {"difference": round(float(difference.mean()), 2), "p": float((difference <= 0).mean())}
