"""`python -m ratelimit_middleware` is the command `ratelimits`."""

from __future__ import annotations

import sys

from ratelimit_middleware.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
