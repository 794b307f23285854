"""`python -m heedful` is `heedful`: what torchrun starts."""

from heedful.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
