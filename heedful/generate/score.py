"""Score: how likely a model finds translations that are given, by reading them in one pass."""

from collections.abc import Sequence

import torch

from heedful.data.batch import END, START, pad
from heedful.errors import BadInput
from heedful.generate.job import Source, check_room, in_batches, ready, stack
from heedful.generate.reader import Generator, chosen_logprobs
from heedful.generate.settings import Hypothesis

BUDGET = 2048  # target tokens in a batch: all their logits are held at once


def score(
    model: Generator,
    sources: Sequence[Source],
    targets: Sequence[Sequence[int]],
    *,
    length_penalty: float = 1.0,
    budget: int = BUDGET,
) -> list[Hypothesis]:
    """Each target (without <start> and <end>) as a finished hypothesis, as if a search had found it."""
    device = ready(model)
    if len(sources) != len(targets):
        raise BadInput(f"{len(targets)} targets for {len(sources)} sources")
    check_room(model, "source", sources)
    check_room(model, "target", targets, 1)

    @torch.inference_mode()
    def run(batch):
        target_BT = pad([[START, *target, END] for _, target in batch]).to(device)
        memory = model.encode(stack([source for source, _ in batch]).to(device))
        logits_BTV, _ = model.decode(target_BT[:, :-1], memory, None)
        rows = chosen_logprobs(logits_BTV, target_BT[:, 1:]).tolist()
        pairs = zip(batch, rows, strict=True)
        return [Hypothesis.of(list(t), row[: len(t) + 1], True, length_penalty) for (_, t), row in pairs]

    lengths = [(len(source), len(target) + 1) for source, target in zip(sources, targets, strict=True)]
    return in_batches(list(zip(sources, targets, strict=True)), lengths, budget, run)
