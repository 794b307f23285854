"""A heat map in the terminal: coloured cells, or plain numbers where there is no colour."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from heedful.look.heat import DARK, HeatMap, colour, shorten

TALLEST, WIDEST = 10, 16
STEPS = 16
NUMBER = 4  # up to three digits, hundredths, and a space


@dataclass(frozen=True)
class Look:
    """How the cells are printed: characters for the row labels and for a cell; in colour; with digits."""

    side: int
    cell: int
    coloured: bool
    digits: bool


def show(heat: HeatMap, console: Console | None = None, digits: bool = False) -> None:
    """Prints a heat map within the console's width; too many columns go on below."""
    console = console or Console()
    coloured = not console.no_color and console.color_system in ("truecolor", "256", "windows")
    for line in lines(heat, console.width, coloured, digits or not coloured):
        console.print(line, highlight=False)


def lines(heat: HeatMap, width: int, coloured: bool, digits: bool) -> Iterator[Text]:
    widest = max(cell_len(shorten(row, WIDEST)) for row in heat.rows)
    side = min(widest, max(width // 3, 1))
    room = width - side - 1
    look = Look(side, NUMBER if digits else cell_width(heat, room), coloured, digits)
    yield Text(heat.title, style="bold" if coloured else "")
    yield legend(heat, look)
    step = max(room // look.cell, 1)
    for start in range(0, len(heat.keys), step):
        shown = range(start, min(start + step, len(heat.keys)))
        yield Text()
        yield from names(heat, shown, look)
        yield from rows(heat, shown, look)


def cell_width(heat: HeatMap, room: int) -> int:
    """Two characters make a square; one has to do if only so all columns fit side by side."""
    wide = any(cell_len(c) > 1 for column in heat.columns for c in column)
    return 1 if room < 2 * len(heat.keys) <= 2 * room and not wide else 2


def names(heat: HeatMap, shown: range, look: Look) -> Iterator[Text]:
    """The labels of some columns, each from top to bottom."""
    labels = [shorten(heat.columns[s], TALLEST) for s in shown]
    height = max(map(len, labels))
    for letters in zip(*(label.rjust(height) for label in labels), strict=True):
        # A letter stands above the last digit of a number.
        padded = (set_cell_size(" " * (look.cell - 2) + c, look.cell) for c in letters)
        yield Text((" " * (look.side + 1) + "".join(padded)).rstrip())


def rows(heat: HeatMap, shown: range, look: Look) -> Iterator[Text]:
    for t, row in enumerate(heat.rows):
        label = shorten(row, look.side)
        line = Text(set_cell_size(" " * (look.side - cell_len(label)) + label, look.side) + " ")
        for s in shown:
            weight = heat.weight_TS[t, s].item()
            text = (number(weight).rjust(look.cell - 1) if look.digits else "").ljust(look.cell)
            line.append(text, style=paint(weight / heat.top) if look.coloured else "")
        yield line


def number(weight: float) -> str:
    """Hundredths; what rounds to none is a dot, so that the eye finds the rest."""
    return str(round(weight * 100)) if weight >= 0.005 else "."


def paint(share: float) -> Style:
    background = colour(share, DARK)
    ink = (0, 0, 0) if share > 0.6 else (255, 255, 255)
    return Style(color=Color.from_rgb(*ink), bgcolor=Color.from_rgb(*background))


def legend(heat: HeatMap, look: Look) -> Text:
    text = Text()
    if look.coloured:
        text.append("0 ")
        for i in range(STEPS):
            text.append(" ", style=paint(i / (STEPS - 1)))
        text.append(f" {heat.top:.2f}   ")
    return text.append(("numbers are hundredths; " if look.digits else "") + "rows look at columns")
