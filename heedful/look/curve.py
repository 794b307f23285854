"""A training as a curve: losses over steps, as an SVG."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from heedful.look.svg import INK, MARGIN, PALE, PAPER, PROSE

WIDTH, HEIGHT = 720, 420
LEFT, TOP, RIGHT, BOTTOM = 70, 60, 30, 60  # from the paper's edges to those of the field
COLOURS = ("#a9783f", "#5b3a86", "#2f7d6b")
TICKS = 5


@dataclass(frozen=True)
class Line:
    """A name, and points (x, y) from left to right."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Field:
    """From what is measured to pixels."""

    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.right

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)


def field_of(lines: Sequence[Line]) -> Field:
    xs, ys = zip(*(point for line in lines for point in line.points), strict=True)
    low, high = min(ys), max(ys)
    room = max((high - low) * 0.05, 1e-3)
    return Field(max(*xs, 1.0), low - room, high + room)


def curve(title: str, lines: Sequence[Line]) -> str:
    """Lines over steps, each under its name."""
    at = field_of(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="{PROSE}" font-size="12" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="12" fill="{PAPER}"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 14}" font-size="16" font-weight="600">{escape(title)}</text>',
        *axes(at),
        *(part for number, line in enumerate(lines) for part in drawn(line, number, at)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def axes(at: Field) -> Iterator[str]:
    yield f'<g stroke="{PALE}" stroke-opacity="0.3">'
    levels = list(ticks(at.low, at.high))
    for level in levels:
        y = at.y(level)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
    yield f'</g><g fill="{PALE}">'
    for level in levels:
        yield f'<text x="{LEFT - 8}" y="{at.y(level) + 4:.1f}" text-anchor="end">{level:g}</text>'
    for step in ticks(0, at.right):
        x = at.x(step)
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step:,.0f}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - BOTTOM + 36}" text-anchor="end">steps</text></g>'


def ticks(low: float, high: float) -> Iterator[float]:
    """Round numbers from low to high: 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * round_one for round_one in (1, 2, 5, 10) if power * round_one >= rough)
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield round(number * step, 10)


def drawn(line: Line, number: int, at: Field) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    places = [(at.x(x), at.y(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    x, y = places[-1]
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    across = LEFT + 200 * number
    yield f'<rect x="{across}" y="{MARGIN + 24}" width="14" height="4" fill="{colour}"/>'
    yield f'<text x="{across + 20}" y="{MARGIN + 30}">{escape(line.name)}</text>'
