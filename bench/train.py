"""Training speed against the plain loops that people write, on the same batches, interleaved.

    python -m bench.train --data DIR [--size tiny|base] [--rounds 5] [--json]

DIR holds Multi30k (train.en, train.fr; may be .xz). Each contender is a process of its own, so that
none profits from another's memory settings; in every round each trains the same few batches, in turn.
What is reported are medians over rounds, by the clock and by the processors' time (which a busy machine
disturbs less), and the largest memory. A contender that is not installed is named and left out; Joey NMT
is found if its checkout is on PYTHONPATH.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

from bench.contenders import CONTENDERS, SIZES, Heedful, missing

SENTENCES = {"tiny": 8000, "base": 4000}
BATCH_TOKENS = 4096
STEPS = {"tiny": 8, "base": 2}


def batches_of(folder: str, size: str):
    """The same batches for everybody: real sentences, ids below the vocabulary, lengths sorted."""
    import numpy as np

    from heedful.data.examples import Stream, encode
    from heedful.data.sources import read
    from heedful.data.tokenizer import learn

    records = read(("train.en", "train.fr"), folder)
    most = SIZES[size]["vocabulary"]
    texts = [r.source for r in records] + [r.target for r in records]
    tokenizer = learn(texts, "bpe", min(most, 10_000))
    examples, _ = encode(records[: SENTENCES[size]], (tokenizer, tokenizer), 128)
    stream = Stream(examples, BATCH_TOKENS, seed=1)
    order = np.random.default_rng(1).permutation(len(stream.batches_in(0)))
    return [examples.batch(stream.batches_in(0)[i]) for i in order]


def work(args: argparse.Namespace) -> None:
    """A contender's process: reads a round's first batch number, trains, tells the time."""
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    contender = CONTENDERS[args.worker](SIZES[args.size])
    batches = batches_of(args.data, args.size)
    print("ready", flush=True)
    for line in sys.stdin:
        part = [batches[(int(line) + i) % len(batches)] for i in range(STEPS[args.size])]
        started, began = time.perf_counter(), time.process_time()
        loss = [contender.step(batch) for batch in part][-1]
        seconds, busy = time.perf_counter() - started, time.process_time() - began
        tokens = sum(b.source_BS.numel() + b.labels_BT.numel() for b in part)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        told = {"rate": tokens / seconds, "busy": tokens / busy, "loss": loss, "megabytes": memory}
        print(json.dumps(told), flush=True)


def start(name: str, args: argparse.Namespace) -> subprocess.Popen:
    command = [sys.executable, "-m", "bench.train", "--worker", name, "--size", args.size]
    command += ["--data", args.data, "--threads", str(args.threads)]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if worker.stdout.readline().strip() != "ready":
        raise SystemExit(f"{name} did not start")
    return worker


def ask(worker: subprocess.Popen, first: int) -> dict:
    worker.stdin.write(f"{first}\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def measure(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    from bench.peak import rate_of_products

    wanted = ["heedful bfloat16", *args.only] if args.only else [""]
    names = [name for name in CONTENDERS if any(part in name for part in wanted)]
    for name in [name for name in names if missing(name)]:
        print(f"{name} is left out: {missing(name)} is not installed", file=sys.stderr)
        names.remove(name)
    workers = {name: start(name, args) for name in names}
    seen = {name: [] for name in names}
    peaks = []
    for round_number in range(args.rounds + 1):  # the first warms up and is not counted
        for name, worker in workers.items():
            told = ask(worker, round_number * STEPS[args.size])
            if round_number:
                seen[name].append(told)
        peaks.append(rate_of_products(args.threads))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    out = {name: summary(rows) for name, rows in seen.items()}
    return out | {"peak": {"flops": max(peaks)}}


def summary(rows: list[dict]) -> dict[str, float]:
    return {
        "tokens_per_second": round(statistics.median(row["rate"] for row in rows)),
        "tokens_per_processor_second": round(statistics.median(row["busy"] for row in rows)),
        "loss": round(rows[-1]["loss"], 3),
        "megabytes": round(rows[-1]["megabytes"]),
    }


def operations_per_token(args: argparse.Namespace) -> float:
    """Of the matrix products alone, forward and backward, counted on one of the batches."""
    from heedful.train.meter import operations

    ours, batch = Heedful(SIZES[args.size], "float32"), batches_of(args.data, args.size)[0]
    tokens = batch.source_BS.numel() + batch.labels_BT.numel()
    return operations(lambda: ours.step(batch)) / tokens


def table(result: dict, per_token: float, threads: int) -> str:
    ours = result["heedful bfloat16"]
    clock, busy = "tokens_per_second", "tokens_per_processor_second"
    head = ("tokens/s", "heedful is", "per processor-s", "heedful is", "peak memory", "last loss")
    lines = [f"{'':22}" + "".join(f"{title:>16}" for title in head)]
    for name, row in result.items():
        if name != "peak":
            cells = [f"{row[clock]:,}", f"{ours[clock] / row[clock]:.1f}x"]
            cells += [f"{row[busy]:,}", f"{ours[busy] / row[busy]:.1f}x"]
            cells += [f"{row['megabytes']:,} MB", f"{row['loss']}"]
            lines.append(f"{name:22}" + "".join(f"{cell:>16}" for cell in cells))
    peak = result["peak"]["flops"]
    share, undisturbed = (ours[key] * per_token / peak * n for key, n in ((clock, 1), (busy, threads)))
    lines.append(f"bfloat16 products of this machine: {peak / 1e9:,.0f} GFLOP/s at best in this run")
    lines.append(
        f"heedful bfloat16 has {share:.0%} of that by the clock, {undisturbed:.0%} by the processors"
    )
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="heedful bench train", description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, metavar="DIR", help="Multi30k: train.en, train.fr")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="heedful bfloat16, and names with this")
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.worker:
        work(args)
        return 0
    result = measure(args)
    per_token = operations_per_token(args)
    result["peak"]["operations_per_token"] = per_token
    print(json.dumps(result, indent=2) if args.json else table(result, per_token, args.threads))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
