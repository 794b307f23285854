"""Card: a run in words, made from what is in its folder and nothing else."""

import json
from typing import Any

from heedful import disk
from heedful.config import Config
from heedful.measure import cost
from heedful.run import Run, build


def facts(run: Run) -> dict[str, Any]:
    config = run.config()
    out: dict[str, Any] = {"title": config.title, "kind": config.model.kind}
    out["parameters"] = cost.parameters(build(config))
    out["bytes"] = run.weights.stat().st_size if run.weights.is_file() else 0
    events = list(run.events())
    steps = [event for event in events if "loss" in event]
    devs = [event for event in events if "dev_loss" in event]
    if steps:
        out["trained"] = {key: steps[-1][key] for key in ("step", "epoch", "tokens", "seconds")}
    if devs:
        out["best_dev_loss"] = min(event["dev_loss"] for event in devs)
    out["machine"] = next((event["machine"] for event in events if "machine" in event), {})
    scores = run.folder / "scores.json"
    out["scores"] = json.loads(scores.read_text(encoding="utf-8")) if scores.is_file() else {}
    return out


def text(run: Run) -> str:
    config, known = run.config(), facts(run)
    lines = [f"# {config.title or run.folder.name}", ""]
    lines += what(config, known) + training(config, known) + scores(known)
    return "\n".join(lines)


def what(config: Config, known: dict[str, Any]) -> list[str]:
    m, d = config.model, config.data
    size = f"{known['parameters'] / 1e6:.2f} M parameters, {known['bytes'] / 1e6:.1f} MB"
    layers = f"{m.layers}+{m.decoder_layers or m.layers} layers"
    shape = f"{layers}, {m.dim} wide, {m.heads} heads, feed-forward {m.ff}, {m.norm}-norm"
    vocabulary = f"{m.vocabulary:,} source and {m.target_vocabulary or m.vocabulary:,} target tokens"
    shared = "one shared vocabulary" if not m.target_vocabulary else "a vocabulary each"
    return [
        f"- model: {m.kind}, {size}",
        f"- shape: {shape}",
        f"- text: {d.tokenizer}, {vocabulary}, {shared}",
        f"- data: train {', '.join(d.train)}; dev {', '.join(d.dev) or 'held out of train'}; test {', '.join(d.test)}",
    ]


def training(config: Config, known: dict[str, Any]) -> list[str]:
    if "trained" not in known:
        return ["- training: none is logged"]
    t, c, done = config.train, known["machine"], known["trained"]
    threads = c.get("threads", t.threads or 1)
    rate = done["tokens"] / max(done["seconds"], 1e-9)
    lines = [
        f"- training: {done['step']:,} steps, {done['epoch']} epochs, {done['tokens']:,} tokens, seed {t.seed}",
        f"- recipe: {t.optimizer}, rate {t.lr:g}, {t.schedule}, warm-up {t.warmup}, {t.batch_tokens} tokens a batch",
        f"- cost: {done['seconds'] / 3600:.2f} hours on {threads} threads, {rate:,.0f} tokens/s",
        f"- energy: {cost.estimate(done['seconds'], threads).text()}",
    ]
    if "flops_per_token" in c:
        total = c["flops_per_token"] * done["tokens"]
        share = total / done["seconds"] / c["peak"]
        lines.append(f"- operations: {total:.3g} in matrix products, {share:.0%} of the peak measured at the start")
    return lines + [f"- best dev loss: {known['best_dev_loss']:.4f} per token"] * ("best_dev_loss" in known)


def scores(known: dict[str, Any]) -> list[str]:
    lines = []
    for part, result in known["scores"].items():
        lines += ["", f"## Scores on {part}", ""]
        lines.append(f"{result['sentences']:,} sentences, beam {result['beam']}, length penalty {result['length_penalty']:g}")
        lines.append("")
        for group in ("one_reference", "all_references", "errors"):
            for key, value in result.get(group, {}).items():
                lines.append(f"- {group.replace('_', ' ')}, {key.replace('_', ' ')}: {value}")
        if "moses_bleu" in result:
            lines.append(f"- one reference, BLEU over lowercased Moses tokens: {result['moses_bleu']}")
    return lines


def write(run: Run) -> None:
    disk.write_text(run.folder / "card.md", text(run) + "\n")
