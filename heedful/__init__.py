"""heedful: the Transformer, whole and real.

>>> import heedful
>>> print(heedful.load().translate(["Where is the bathroom?"])[0][0].text)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heedful.translator import load

__version__ = "0.1.0"
__all__ = ["load"]


def __getattr__(name: str):
    """`heedful.load`, found only when asked for: `heedful --help` should not wait for torch."""
    if name == "load":
        from heedful.translator import load

        return load
    raise AttributeError(f"module 'heedful' has no attribute {name!r}")
