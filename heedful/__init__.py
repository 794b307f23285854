"""heedful: the Transformer, whole and real."""

__version__ = "0.1.0"
