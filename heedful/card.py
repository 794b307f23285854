"""Card: a run in words, made from what is in its folder and nothing else."""

from pathlib import Path
from typing import Any

from heedful import disk
from heedful.config import Config, TrainConfig
from heedful.errors import BadInput
from heedful.look.curve import Line, curve
from heedful.measure import cost
from heedful.run import Run, build

CURVES = {"loss": "training (smoothed labels, dropout)", "dev_loss": "dev"}


def facts(run: Run) -> dict[str, Any]:
    config = run.config()
    out: dict[str, Any] = {"title": config.title, "kind": config.model.kind}
    out["parameters"] = cost.parameters(build(config))
    out["bytes"] = run.weights.stat().st_size if run.weights.is_file() else 0
    events = list(run.events())
    devs = [event["dev_loss"] for event in events if event.get("dev_loss") is not None]
    out |= trained(config, events)
    if devs:
        out["best_dev_loss"] = min(devs)
    return out | {"scores": run.scores()}


def trained(config: Config, events: list[dict[str, Any]]) -> dict[str, Any]:
    """How far the training came, on what machines, and what it cost; nothing if none is logged."""
    steps = [event for event in events if "loss" in event]
    if not steps:
        return {}
    last = [event for event in events if "seconds" in event and "machine" not in event][-1]
    done = {key: steps[-1][key] for key in ("step", "epoch", "tokens")} | {"seconds": last["seconds"]}
    spans = cost.spans(events, last["seconds"])
    energy = energy_of(config.train, last, spans)
    known = {"trained": done, "machines": [span.machine for span in spans], "energy": energy.facts()}
    if spans:
        flops = next(event["flops_per_token"] for event in events if "machine" in event) * done["tokens"]
        known["operations"] = {"flops": flops, "share_of_peak": cost.share_of_peak(flops, spans)}
    return known


def energy_of(train: TrainConfig, last: dict[str, Any], spans: list[cost.Span]) -> cost.Energy:
    if "joules" in last:
        return cost.measured(last["joules"], train.grams_per_kwh)
    unknown = cost.Span({"threads": train.threads or 1}, last["seconds"])  # from before machines were logged
    return cost.estimate(spans or [unknown], train.watts, train.gpu_watts, train.grams_per_kwh)


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
    own = m.target_vocabulary
    tokens = (
        f"{m.vocabulary:,} source and {own:,} target tokens" if own else f"{m.vocabulary:,} shared tokens"
    )
    parts = {"train": d.train, "dev": d.dev or ("held out of train",), "test": d.test or ("none",)}
    data = "; ".join(f"{part} {', '.join(names)}" for part, names in parts.items())
    return [
        f"- model: {m.kind}, {size}",
        f"- shape: {shape}",
        f"- text: {d.tokenizer}, {tokens}",
        f"- data: {data}",
    ]


def training(config: Config, known: dict[str, Any]) -> list[str]:
    if "trained" not in known:
        return ["- training: none is logged"]
    t, done = config.train, known["trained"]
    rate = done["tokens"] / max(done["seconds"], 1e-9)
    passed = f"{done['step']:,} steps, {done['epoch']} epochs, {done['tokens']:,} tokens"
    recipe = (
        f"{t.optimizer}, rate {t.lr:g}, {t.schedule}, warm-up {t.warmup}, {t.batch_tokens} tokens a batch"
    )
    lines = [
        f"- training: {passed}, seed {t.seed}",
        f"- recipe: {recipe}",
        f"- time: {done['seconds'] / 3600:.3g} hours, {rate:,.0f} tokens/s",
        *(f"- machine: {machine_in_words(machine)}" for machine in known["machines"]),
        *costs(config, known),
    ]
    if "best_dev_loss" in known:
        lines.append(f"- best dev loss: {known['best_dev_loss']:.4f} per token")
    return lines


def machine_in_words(machine: dict[str, Any]) -> str:
    team = f"{machine['processes']} processes of " if machine["processes"] > 1 else ""
    speed = f"products at up to {machine['peak'] / 1e9:,.0f} GFLOP/s in {machine['precision']}"
    return f"{machine['name']}, {team}{machine['threads']} threads, torch {machine['torch']}, {speed}"


def costs(config: Config, known: dict[str, Any]) -> list[str]:
    """Operations, energy and carbon: measured, or an estimate that says so."""
    lines = []
    if done := known.get("operations"):
        share = f"{done['share_of_peak']:.0%} of the machine's peak when it began"
        lines.append(f"- operations: {done['flops']:.3g} in matrix products, {share}")
    told = known["energy"]
    assumed = [told.get(f"assumed_watts_per_{part}", 0.0) for part in ("core", "gpu")]
    energy = cost.Energy(told["kwh"], config.train.grams_per_kwh, *assumed)
    return [
        *lines,
        f"- energy: {energy.text()}",
        f"- that is: {cost.in_familiar_terms(energy.grams)}",
    ]


def scores(known: dict[str, Any]) -> list[str]:
    lines = []
    for part, result in known["scores"].items():
        search = f"beam {result['beam']}, length penalty {result['length_penalty']:g}"
        for key, value in result.get("settings", {}).items():
            search += f", {key.replace('_', ' ')} {value}"
        lines += ["", f"## Scores on {part}", "", f"{result['sentences']:,} sentences, {search}", ""]
        for group in ("one_reference", "all_references", "errors"):
            for key, value in result.get(group, {}).items():
                lines.append(f"- {group.replace('_', ' ')}, {key.replace('_', ' ')}: {value}")
        if "moses_bleu" in result:
            lines.append(f"- one reference, BLEU over lowercased Moses tokens: {result['moses_bleu']}")
    return lines


def plot(run: Run) -> Path:
    """The losses of a training as a picture in its folder."""
    events, lines = list(run.events()), []
    for key, name in CURVES.items():
        points = [(event["step"], event[key]) for event in events if event.get(key) is not None]
        lines += [Line(name, points)] if points else []
    if not lines:
        raise BadInput(f"{run.log_file}: no loss is logged that could be drawn")
    path = run.folder / "curve.svg"
    disk.write_text(path, curve(run.config().title or run.folder.name, lines))
    return path


def write(run: Run) -> None:
    disk.write_text(run.folder / "card.md", text(run) + "\n")
