"""Decoding speed against CTranslate2 and Hugging Face: the same weights, sentences, beam and lengths.

    python -m bench.decode [--sizes tiny base] [--rounds 5] [--threads 2] [--json]

Weights are random, each answer is forced to 20 tokens, and every engine gets the weights through
`heedful export`. Each contender is a process of its own; in every round all do the same task in turn.
What is reported are medians over rounds, of the clock and of the processors' time (which a busy machine
disturbs less; give it --threads 1), and how many answers are the very ones of heedful in float32. Times
are set against heedful in bfloat16, as those of the other engines' smaller types are theirs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZES = {
    "tiny": {"dim": 128, "heads": 4, "layers": 4, "ff": 256, "vocabulary": 10_000},
    "base": {"dim": 512, "heads": 8, "layers": 6, "ff": 2048, "vocabulary": 32_000},
}
SENTENCES = {"tiny": 256, "base": 64}
TASKS = {"bulk, beam 5": (5, None), "bulk, greedy": (1, None), "one sentence, beam 5": (5, 1)}
LENGTH = 20  # tokens of each answer
LENGTHS = (8, 24)  # the shortest and the longest source
EXACT, FAST = "heedful float32", "heedful bfloat16"  # answers are held against one, times against the other
AT_ONCE = 64  # sentences in a batch of those that do not choose it by themselves


@dataclass(frozen=True)
class Material:
    """What the contenders are given: the folder of a model in all formats, and sources as ids."""

    folder: Path
    sources: list[list[int]]
    threads: int


# ---- the contenders: each makes answers (lists of ids) of sources


class Heedful:
    def __init__(self, material: Material, precision: str):
        import torch

        from heedful.generate import in_precision
        from heedful.run import Run, load_model
        from heedful.train.machine import keep_memory

        torch.set_num_threads(material.threads)
        keep_memory()
        run = Run(material.folder / "run")
        self.model = in_precision(load_model(run, run.config()), precision)

    def answers(self, sources: list[list[int]], beam: int) -> list[list[int]]:
        from heedful.generate import Search, generate

        search = Search(beam=beam, min_length=LENGTH, max_length=LENGTH, max_ratio=0)
        return [found[0].ids for found in generate(self.model, sources, search)]


class CTranslate2:
    def __init__(self, material: Material, kind: str):
        import ctranslate2

        settings = {"compute_type": kind, "inter_threads": 1, "intra_threads": material.threads}
        self.engine = ctranslate2.Translator(str(material.folder / "ctranslate2"), **settings)

    def answers(self, sources: list[list[int]], beam: int) -> list[list[int]]:
        settings = {"beam_size": beam, "min_decoding_length": LENGTH, "max_decoding_length": LENGTH}
        tokens = [[str(i) for i in source[1:-1]] for source in sources]
        found = self.engine.translate_batch(tokens, max_batch_size=AT_ONCE, **settings)
        return [[int(token) for token in one.hypotheses[0]] for one in found]


class HuggingFace:
    def __init__(self, material: Material):
        import torch
        from transformers import AutoModelForSeq2SeqLM
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        torch.set_num_threads(material.threads)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(material.folder / "huggingface").eval()
        self.model.generation_config.max_length = None

    def answers(self, sources: list[list[int]], beam: int) -> list[list[int]]:
        from heedful.data.batch import PAD, pad

        settings = {"num_beams": beam, "min_new_tokens": LENGTH, "max_new_tokens": LENGTH, "do_sample": False}
        out = []
        for start in range(0, len(sources), AT_ONCE):
            ids = pad(sources[start : start + AT_ONCE])
            out += self.model.generate(ids, attention_mask=(ids != PAD).long(), **settings)[:, 1:].tolist()
        return out


def contender(name: str, material: Material) -> Any:
    kind, _, precision = name.partition(" ")
    if kind == "ctranslate2":
        return CTranslate2(material, precision)
    return Heedful(material, precision) if kind == "heedful" else HuggingFace(material)


def contenders(only: list[str]) -> list[str]:
    import ctranslate2

    kinds = sorted(ctranslate2.get_supported_compute_types("cpu") - {"int8"})  # the same as int8_float32
    names = [EXACT, FAST, "huggingface", *(f"ctranslate2 {kind}" for kind in kinds)]
    return [name for name in names if not only or name in (EXACT, FAST) or any(part in name for part in only)]


# ---- the material


def make(folder: Path, size: str, threads: int) -> Material:
    """A model of random weights, in a run and in both exports."""
    import torch

    from heedful import convert
    from heedful.config import Config
    from heedful.data.batch import CONTROL
    from heedful.models.translation import TranslationConfig
    from heedful.run import Run, build, weights_of

    torch.manual_seed(1)
    config = Config(model=TranslationConfig(**SIZES[size], norm="pre", length=64, dropout=0.0))
    tokenizer = numbers(SIZES[size]["vocabulary"])
    run, model = Run(folder / "run"), build(config)
    run.create(config, (tokenizer, tokenizer))
    run.save_weights(config, weights_of(model), {"step": 0})
    for to in ("ctranslate2", "huggingface"):
        convert.export(run, folder / to, to)
    sources = []
    for _ in range(SENTENCES[size]):
        length = int(torch.randint(*LENGTHS, (1,)))
        words = torch.randint(len(CONTROL), SIZES[size]["vocabulary"], (length,))
        sources.append([CONTROL.index("<start>"), *words.tolist(), CONTROL.index("<end>")])
    return Material(folder, sources, threads)


def numbers(vocabulary: int):
    """A tokenizer whose tokens are their own ids, written as numbers."""
    import tokenizers

    from heedful.data.batch import CONTROL
    from heedful.data.tokenizer import Tokenizer

    words = {token: i for i, token in enumerate(CONTROL)}
    words |= {str(i): i for i in range(len(CONTROL), vocabulary)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return Tokenizer(inner)


# ---- the measurement


def work(name: str, folder: Path) -> None:
    """A contender's process: reads a task, does it, tells the time and the answers."""
    table = json.loads((folder / "material.json").read_text())
    material = Material(folder, table["sources"], table["threads"])
    engine = contender(name, material)
    print("ready", flush=True)
    for line in sys.stdin:
        beam, count = TASKS[line.strip()]
        started, worked = time.perf_counter(), time.process_time()
        answers = engine.answers(material.sources[:count], beam)
        told = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - worked}
        print(json.dumps(told | {"answers": answers}), flush=True)


def start(name: str, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "bench.decode", "--worker", name, "--folder", str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: subprocess.Popen, task: str) -> dict[str, Any]:
    worker.stdin.write(f"{task}\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def measure(size: str, names: list[str], rounds: int, threads: int) -> dict[str, dict[str, Any]]:
    """For each task, each contender's median, and its answers."""
    with tempfile.TemporaryDirectory() as folder:
        material = make(Path(folder), size, threads)
        table = {"sources": material.sources, "threads": threads}
        (Path(folder) / "material.json").write_text(json.dumps(table))
        workers = {name: start(name, Path(folder)) for name in names}
        if any(worker.stdout.readline().strip() != "ready" for worker in workers.values()):
            raise SystemExit("a contender did not start")
        seen = {task: {name: [] for name in names} for task in TASKS}
        for _ in range(rounds + 1):  # the first warms up and is not counted
            for task in TASKS:
                for name, worker in workers.items():
                    seen[task][name].append(ask(worker, task))
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    return {task: summary(rows) for task, rows in seen.items()}


def summary(rows: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    out, expected = {}, rows[EXACT][0]["answers"]
    for name, told in rows.items():
        seconds, cpu = (statistics.median(one[key] for one in told[1:]) for key in ("seconds", "cpu"))
        same = sum(a == b for a, b in zip(told[0]["answers"], expected, strict=True))
        lengths = {len(answer) for one in told for answer in one["answers"]}
        assert lengths == {LENGTH}, f"{name}: answers of {lengths} tokens"
        out[name] = {
            "milliseconds": round(1000 * seconds, 1),
            "cpu_milliseconds": round(1000 * cpu, 1),
            "tokens_per_second": round(LENGTH * len(expected) / seconds),
            "same_answers": round(same / len(expected), 3),
        }
    return out


def table(result: dict[str, dict[str, dict[str, Any]]]) -> str:
    head = f"{'ms':>9} {'tokens/s':>9} {'heedful is':>11} {'ms of CPU':>10} {'heedful is':>11}"
    lines = [f"{'':30} {head} {'same answers':>13}"]
    for size, tasks in result.items():
        for task, rows in tasks.items():
            lines.append(f"{size}: {task}")
            lines += [row_text(name, row, rows[FAST]) for name, row in rows.items()]
    return "\n".join(lines)


def row_text(name: str, row: dict[str, Any], ours: dict[str, Any]) -> str:
    times = [row[key] / ours[key] for key in ("milliseconds", "cpu_milliseconds")]
    wall = f"{row['milliseconds']:>9,} {row['tokens_per_second']:>9,} {times[0]:>10.2f}x"
    return (
        f"  {name:28} {wall} {row['cpu_milliseconds']:>10,} {times[1]:>10.2f}x {row['same_answers']:>13.1%}"
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="heedful bench decode", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="peers whose name has this in it"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.worker:
        work(args.worker, args.folder)
        return 0
    try:
        import ctranslate2  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"heedful bench decode: needs {error.name}: pip install heedful[bench]", file=sys.stderr)
        return 2
    names = contenders(args.only)
    result = {size: measure(size, names, args.rounds, args.threads) for size in args.sizes}
    print(json.dumps(result, indent=2) if args.json else table(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
