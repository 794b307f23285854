"""A heat map in the terminal: coloured cells, or plain numbers where there is no colour."""

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from heedful.look.heat import DARK, HeatMap, colour, shorten

TALLEST, WIDEST = 10, 16
STEPS = 16
NUMBER = 4  # a space and up to three digits: hundredths


def show(heat: HeatMap, console: Console | None = None, digits: bool = False) -> None:
    """Prints a heat map within the console's width; too many columns go on below."""
    console = console or Console()
    coloured = not console.no_color and console.color_system in ("truecolor", "256", "windows")
    for line in lines(heat, console.width, coloured, digits or not coloured):
        console.print(line, highlight=False, no_wrap=True, overflow="ignore", crop=False)


def lines(heat: HeatMap, width: int, coloured: bool, digits: bool) -> Iterator[Text]:
    yield Text(heat.title, style="bold" if coloured else "")
    yield legend(heat, coloured, digits)
    rows = [shorten(row, WIDEST) for row in heat.rows]
    side = min(max(map(cell_len, rows)), max(width // 3, 1))
    cell = cell_width(heat, width - side - 1, digits)
    step = max((width - side - 1) // cell, 1)
    for start in range(0, len(heat.keys), step):
        yield Text()
        yield from block(heat, side, range(len(heat.keys))[start : start + step], (cell, coloured, digits))


def cell_width(heat: HeatMap, room: int, digits: bool) -> int:
    """Two characters make a square; one has to do if only so all columns fit side by side."""
    if digits:
        return NUMBER
    wide = any(cell_len(c) > 1 for column in heat.columns for c in column)
    return 1 if room < 2 * len(heat.keys) <= 2 * room and not wide else 2


def block(heat: HeatMap, side: int, keys: range, look: tuple[int, bool, bool]) -> Iterator[Text]:
    """Some columns: their labels from top to bottom, then each row. `look`: cell, coloured, digits."""
    cell, coloured, digits = look
    labels = [shorten(heat.columns[s], TALLEST) for s in keys]
    height = max(map(len, labels))
    for y in range(height):
        letters = (label.rjust(height)[y] for label in labels)
        padded = (" " * (cell - 2) + set_cell_size(c, min(cell, 2)) for c in letters)
        # Numbers end at the right of their cell, so the letters above them do too.
        shift = 1 if digits else 0
        yield Text((" " * (side + 1 + shift) + "".join(padded)).rstrip())
    for t, row in enumerate(heat.rows):
        line = Text(set_cell_size(" " * (side - cell_len(row)) + shorten(row, side), side) + " ")
        for s in keys:
            weight = heat.weight_TS[t, s].item()
            text = number(weight).rjust(cell) if digits else " " * cell
            line.append(text, style=paint(weight / heat.top) if coloured else "")
        yield line


def number(weight: float) -> str:
    """Hundredths; what rounds to none is a dot, so that the eye finds the rest."""
    return str(round(weight * 100)) if weight >= 0.005 else "."


def paint(share: float) -> Style:
    background = colour(share, DARK)
    ink = (0, 0, 0) if share > 0.6 else (255, 255, 255)
    return Style(color=Color.from_rgb(*ink), bgcolor=Color.from_rgb(*background))


def legend(heat: HeatMap, coloured: bool, digits: bool) -> Text:
    text = Text("0 " if coloured else "")
    if coloured:
        for i in range(STEPS):
            text.append(" ", style=paint(i / (STEPS - 1)))
        text.append(f" {heat.top:.2f}")
    if digits:
        text.append(("   " if coloured else "") + "numbers are hundredths; rows look at columns")
    return text
