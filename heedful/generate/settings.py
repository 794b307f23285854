"""Search: what to look for, and how. Hypothesis: what was found."""

from dataclasses import dataclass

from heedful.errors import BadInput

# The lowest value that each setting may have, and the highest.
BOUNDS = {
    "beam": (1, None),
    "nbest": (1, None),
    "max_length": (1, None),
    "max_ratio": (0, None),
    "min_length": (0, None),
    "temperature": (0, None),
    "top_k": (0, None),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "seed": (0, None),
    "no_repeat": (0, None),
    "repetition_penalty": (0.01, 100),
    "length_penalty": (-10, 10),  # beyond, powers of lengths are more than float32 holds
}
WHOLE = ("beam", "nbest", "max_length", "min_length", "top_k", "seed", "no_repeat")


@dataclass(frozen=True)
class Search:
    """Beam 1 is greedy; a temperature above 0 samples instead. Lengths are of the whole target, without
    <start>, and with the prefix if one is forced."""

    beam: int = 1
    nbest: int = 1
    length_penalty: float = 1.0  # score = sum of log-probabilities / length ** length_penalty
    early: bool = False  # stop as soon as no live beam, were it to end now, would beat the kept ones
    max_length: int = 256
    max_ratio: float = 6.0  # at most this many tokens per source token, and 10 more; 0: no such limit
    min_length: int = 0
    temperature: float = 0.0
    top_k: int = 0  # sample from the k most likely tokens; 0: from all
    top_p: float = 1.0  # from the fewest tokens that together have this probability
    min_p: float = 0.0  # from tokens at least this many times as likely as the likeliest
    seed: int = 0
    no_repeat: int = 0  # no n tokens in a row may come twice; 0: they may
    repetition_penalty: float = 1.0

    def __post_init__(self):
        for name in WHOLE:
            value = getattr(self, name)
            if type(value) is not int:
                raise BadInput(f"{name} {value!r}: should be a whole number")
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not value >= low or (high is not None and value > high) or value == float("inf"):
                raise BadInput(f"{name} {value}: should be " + wording(low, high))
        if not self.top_p > 0:
            raise BadInput(f"top_p {self.top_p}: should be above 0; 1 keeps every token")
        self.check_pairs()

    def check_pairs(self) -> None:
        """Settings that are fine alone, but not together."""
        if self.min_length > self.max_length:
            raise BadInput(f"min_length {self.min_length}: is above max_length {self.max_length}")
        if self.samples and self.beam > 1:
            raise BadInput(f"temperature {self.temperature}: sampling needs beam 1, not {self.beam}")
        if not self.samples and self.nbest > self.beam:
            raise BadInput(f"nbest {self.nbest}: is above beam {self.beam}")
        for name, neutral in (("top_k", 0), ("top_p", 1), ("min_p", 0)):
            if not self.samples and getattr(self, name) != neutral:
                raise BadInput(f"{name} {getattr(self, name)}: has no effect without a temperature")

    @property
    def samples(self) -> bool:
        return self.temperature > 0

    @property
    def hypotheses(self) -> int:
        """How many are written side by side for each sentence."""
        return self.nbest if self.samples else self.beam

    def limit(self, source: int, prefix: int) -> int:
        """The longest target for a source of so many tokens (0: it has none)."""
        if not (self.max_ratio and source):
            return self.max_length
        by_ratio = int(self.max_ratio * source) + 10 + prefix
        return min(self.max_length, max(by_ratio, self.min_length))


def wording(low: float, high: float | None) -> str:
    return f"{low} or more" if high is None else f"between {low} and {high}"


@dataclass(frozen=True)
class Hypothesis:
    """ids: a target without <start> and <end>. logprobs: one for each, and one for <end> if `finished`;
    else it was cut at its greatest length."""

    ids: list[int]
    score: float
    logprobs: list[float]
    finished: bool

    @classmethod
    def of(cls, ids: list[int], logprobs: list[float], finished: bool, length_penalty: float) -> "Hypothesis":
        length = max(1, len(logprobs))
        return cls(ids, sum(logprobs) / length**length_penalty, logprobs, finished)


@dataclass(frozen=True)
class Token:
    """One token of a stream."""

    id: int
    logprob: float
