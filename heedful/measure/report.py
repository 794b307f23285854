"""Report: translate a test set, score it, show it, and keep it with the run."""

import json
import time
from typing import Any

from heedful import card, disk
from heedful.data.readers import Record
from heedful.generate import Search
from heedful.measure import bootstrap
from heedful.measure.text import Tokens, by_source, corpus_scores, edits, error_rates, moses_bleu
from heedful.progress import told
from heedful.run import Run
from heedful.translator import Translator

MOST = 20  # of the worst, where nobody says how many


def outputs_of(translator: Translator, sources: list[str], search: Search) -> list[str]:
    return [found[0].text for found in told(translator.stream(sources, search))]


def evaluate(
    translator: Translator,
    records: list[Record],
    search: Search,
    moses: Tokens | None = None,
    against: Translator | None = None,
    most: int = MOST,
) -> dict[str, Any]:
    """All scores: against the first reference of each source, and against all where there are more."""
    sources, references = by_source(records)
    started = time.perf_counter()
    outputs = outputs_of(translator, sources, search)
    seconds = time.perf_counter() - started
    first = [group[:1] for group in references]
    result: dict[str, Any] = {"sentences": len(sources), "beam": search.beam, "seconds": round(seconds, 2)}
    result |= {"length_penalty": search.length_penalty, "settings": unusual(search, translator.precision)}
    rows = bootstrap.statistics(outputs, first)
    result["one_reference"] = corpus_scores(outputs, first) | {"bleu_95": bootstrap.interval(rows)}
    if any(len(group) > 1 for group in references):
        result["all_references"] = corpus_scores(outputs, references)
    if moses:
        result["moses_bleu"] = moses_bleu(outputs, first, moses)
    result["errors"] = error_rates(outputs, references)
    result["worst"] = worst(sources, outputs, references, most)
    if against:
        theirs = bootstrap.statistics(outputs_of(against, sources, search), first)
        result["against"] = {"run": str(against.run.folder)} | bootstrap.paired(rows, theirs)
    return result


def unusual(search: Search, precision: str) -> dict[str, Any]:
    """What was asked for besides the beam and the length penalty: scores mean nothing without it."""
    usual = vars(Search()) | {"precision": "float32"}
    asked = vars(search) | {"precision": precision}
    apart = ("beam", "length_penalty")
    return {key: value for key, value in asked.items() if key not in apart and value != usual[key]}


def worst(sources: list[str], outputs: list[str], references: list[list[str]], most: int) -> list[dict]:
    """The sentences furthest from any reference, for their length."""
    rows = []
    for source, output, group in zip(sources, outputs, references, strict=True):
        rate = min(edits(output.split(), r.split()) / max(len(r.split()), 1) for r in group)
        rows.append({"error": round(rate, 2), "source": source, "output": output, "reference": group[0]})
    return sorted(rows, key=lambda row: -row["error"])[:most]


def keep(run: Run, part: str, result: dict[str, Any]) -> None:
    """Writes the scores into the run, where its card finds them."""
    kept = {key: value for key, value in result.items() if key != "worst"}
    scores = run.scores() | {part: kept}
    disk.write_text(run.scores_file, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
    card.write(run)


def table(result: dict[str, Any], most: int) -> str:
    lines = [f"{result['sentences']:,} sentences, beam {result['beam']}, {result['seconds']} s"]
    for name in ("one_reference", "all_references", "errors", "against"):
        for key, value in result.get(name, {}).items():
            lines.append(f"{name.replace('_', ' '):15} {key.replace('_', ' '):20} {value}")
    if "moses_bleu" in result:
        lines.append(f"{'one reference':15} {'lowercased Moses BLEU':20} {result['moses_bleu']}")
    for row in result["worst"][:most]:
        texts = (f"  {key:10} {row[key]}" for key in ("source", "output", "reference"))
        lines += ["", f"error {row['error']}", *texts]
    return "\n".join(lines)
