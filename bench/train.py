"""Training speed against the plain loops that people write, on the same batches, interleaved.

    python -m bench.train --data DIR [--size tiny|base] [--rounds 5] [--json]

DIR holds Multi30k (train.en, train.fr; may be .xz). Each contender is a process of its own, so that
none profits from another's memory settings; in every round each trains the same few batches, in turn.
What is reported are medians over rounds, and ratios.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

SIZES = {
    "tiny": {"dim": 128, "heads": 4, "layers": 4, "ff": 256, "vocabulary": 10_000, "dropout": 0.3},
    "base": {"dim": 512, "heads": 8, "layers": 6, "ff": 2048, "vocabulary": 32_000, "dropout": 0.1},
}
SENTENCES = {"tiny": 8000, "base": 4000}
BATCH_TOKENS = 4096
STEPS = {"tiny": 8, "base": 2}
SMOOTHING = 0.1
LR = 5e-4


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


class Heedful:
    """Our own training step, as `heedful train` takes it."""

    def __init__(self, shape: dict, precision: str):
        from heedful.config import TrainConfig
        from heedful.models.translation import Translation, TranslationConfig
        from heedful.tasks.next_token import NextToken
        from heedful.train import optimizers
        from heedful.train.machine import keep_memory
        from heedful.train.weights import Weights

        keep_memory()
        self.model = Translation(TranslationConfig(norm="post", **shape))
        self.task = NextToken(SMOOTHING)
        self.weights = Weights(self.model, precision, 0.0)
        self.optimizers = optimizers.make(self.weights.masters, TrainConfig(lr=LR))

    def step(self, batch) -> float:
        import torch

        loss = self.task.loss(self.model, batch) / batch.tokens
        loss.backward()
        self.weights.gather()
        masters = list(self.weights.masters.values())
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.weights.publish()
        for master in masters:
            master.grad = None
        return loss.item()


class PlainTorch:
    """A loop over torch.nn.Transformer in float32, as tutorials write it."""

    def __init__(self, shape: dict):
        import torch
        from torch import nn

        self.torch, dim = torch, shape["dim"]
        self.embed = nn.Embedding(shape["vocabulary"], dim, padding_idx=0)
        sizes = (dim, shape["heads"], shape["layers"], shape["layers"], shape["ff"], shape["dropout"])
        self.body = nn.Transformer(*sizes, batch_first=True)
        self.drop = nn.Dropout(shape["dropout"])
        self.position = nn.Parameter(torch.randn(256, dim) * 0.02)
        self.head = nn.Linear(dim, shape["vocabulary"])
        self.head.weight = self.embed.weight
        self.loss = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=SMOOTHING)
        self.all = nn.ModuleList([self.embed, self.body, self.drop, self.head])
        self.adam = torch.optim.Adam([*self.all.parameters(), self.position], LR, (0.9, 0.98), 1e-9)

    def vectors(self, ids):
        return self.drop(self.embed(ids) * self.position.shape[1] ** 0.5 + self.position[: ids.shape[1]])

    def step(self, batch) -> float:
        source, target, labels = batch.source_BS, batch.target_BT[:, :-1], batch.labels_BT
        causal = self.body.generate_square_subsequent_mask(target.shape[1])
        pads = {"src_key_padding_mask": source == 0, "memory_key_padding_mask": source == 0}
        y = self.body(
            self.vectors(source), self.vectors(target), tgt_mask=causal, tgt_is_causal=True, **pads
        )
        loss = self.loss(self.head(y).flatten(0, 1), labels.flatten())
        self.adam.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(list(self.all.parameters()), 1.0)
        self.adam.step()
        return loss.item()


class Marian:
    """Hugging Face MarianMTModel in its plain loop, float32."""

    def __init__(self, shape: dict):
        import torch
        from transformers import MarianConfig, MarianMTModel

        names = {"dim": "d_model", "vocabulary": "vocab_size", "dropout": "dropout"}
        settings = {names[key]: shape[key] for key in names}
        for side in ("encoder", "decoder"):
            settings |= {f"{side}_layers": shape["layers"], f"{side}_attention_heads": shape["heads"]}
            settings |= {f"{side}_ffn_dim": shape["ff"]}
        special = {"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3, "bos_token_id": 2}
        config = MarianConfig(activation_function="relu", scale_embedding=True, **special, **settings)
        self.torch, self.model = torch, MarianMTModel(config).train()
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=0, label_smoothing=SMOOTHING)
        self.adam = torch.optim.Adam(self.model.parameters(), LR, (0.9, 0.98), 1e-9)

    def step(self, batch) -> float:
        source, target = batch.source_BS, batch.target_BT[:, :-1]
        masks = {"attention_mask": source != 0, "decoder_attention_mask": target != 0}
        logits = self.model(input_ids=source, decoder_input_ids=target, use_cache=False, **masks).logits
        loss = self.loss(logits.flatten(0, 1), batch.labels_BT.flatten())
        self.adam.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.step()
        return loss.item()


CONTENDERS = {
    "heedful bfloat16": lambda shape: Heedful(shape, "bfloat16"),
    "heedful float32": lambda shape: Heedful(shape, "float32"),
    "torch.nn.Transformer": PlainTorch,
    "MarianMTModel": Marian,
}


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
        started = time.perf_counter()
        loss = [contender.step(batch) for batch in part][-1]
        seconds = time.perf_counter() - started
        tokens = sum(b.source_BS.numel() + b.labels_BT.numel() for b in part)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"rate": tokens / seconds, "loss": loss, "megabytes": memory}), flush=True)


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

    names = [name for name in CONTENDERS if not args.only or any(part in name for part in args.only)]
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
    return out | {"peak": {"flops": statistics.median(peaks)}}


def summary(rows: list[dict]) -> dict[str, float]:
    return {
        "tokens_per_second": round(statistics.median(row["rate"] for row in rows)),
        "loss": round(rows[-1]["loss"], 3),
        "megabytes": round(rows[-1]["megabytes"]),
    }


def operations_per_token(args: argparse.Namespace) -> float:
    """Of the matrix products alone, forward and backward, counted on one of the batches."""
    from heedful.measure.cost import operations

    ours, batch = Heedful(SIZES[args.size], "float32"), batches_of(args.data, args.size)[0]
    tokens = batch.source_BS.numel() + batch.labels_BT.numel()
    return operations(lambda: ours.step(batch)) / tokens


def table(result: dict, per_token: float) -> str:
    ours = result["heedful bfloat16"]["tokens_per_second"]
    lines = [f"{'':24} {'tokens/s':>10} {'heedful is':>11} {'peak memory':>12} {'last loss':>10}"]
    for name, row in result.items():
        if name != "peak":
            rate = row["tokens_per_second"]
            memory = f"{row['megabytes']:,} MB"
            lines.append(f"{name:24} {rate:>10,} {ours / rate:>10.1f}x {memory:>12} {row['loss']:>10}")
    share = ours * per_token / result["peak"]["flops"]
    lines.append(f"share of the bfloat16 products' peak, measured in the same run: {share:.0%}")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="heedful bench train", description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, metavar="DIR", help="Multi30k: train.en, train.fr")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contenders whose name has this in it")
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.worker:
        work(args)
        return 0
    result = measure(args)
    print(json.dumps(result, indent=2) if args.json else table(result, operations_per_token(args)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
