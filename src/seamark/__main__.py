"""Entry point of ``python -m seamark``, the command ``seamark``."""

from __future__ import annotations

import sys

from seamark.cli import main

if __name__ == "__main__":
    sys.exit(main())
