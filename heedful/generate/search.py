"""The searches: for many sentences at once, or for one as a stream of tokens."""

from collections.abc import Iterator, Sequence

from heedful.data.batch import END
from heedful.errors import BadInput
from heedful.generate.beam import beam_search
from heedful.generate.job import ORDINARY, ROWS, Job, Source, check_room, in_batches, ready, wishes, within
from heedful.generate.reader import Generator, begin
from heedful.generate.settings import Hypothesis, Search, Token
from heedful.generate.walk import walk, write_all

GREEDY = Search()


def generate(
    model: Generator,
    sources: Sequence[Source],
    search: Search = GREEDY,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
    budget: int = ROWS * ORDINARY,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, the best first (samples: in the order of their drawing).

    `budget`: source tokens, times hypotheses, that are worked on together. It changes the speed alone.
    """
    device, search = ready(model), within(model, search)
    check_room(model, "source", sources)
    write = beam_search if search.beam > 1 else write_all
    todo = wishes(sources, search, prefixes, seeds)

    def run(batch):
        return write(model, Job.of(batch, device), search)

    return in_batches(todo, [wish.lengths for wish in todo], budget // search.hypotheses, run)


def stream(
    model: Generator, source: Source, search: Search = GREEDY, *, prefix: Sequence[int] = ()
) -> Iterator[Token]:
    """The tokens of one target as they are written; not those of the prefix, and not <end>."""
    if search.hypotheses > 1:
        raise BadInput(
            f"a stream is one hypothesis at a time, not {search.hypotheses}: give beam 1 and nbest 1"
        )
    device, search = ready(model), within(model, search)
    check_room(model, "source", [source])
    job = Job.of(wishes([source], search, [prefix], None), device)
    return tokens(model, job, search)


def tokens(model: Generator, job: Job, search: Search) -> Iterator[Token]:
    for step in walk(begin(model, job), job, search):
        for _, token, logprob in step:
            if token != END:
                yield Token(token, logprob)
