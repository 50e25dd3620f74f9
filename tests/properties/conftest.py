"""How examples are run."""

from __future__ import annotations

from hypothesis import settings

# A busy machine may stop for longer than any example takes.
settings.register_profile("laws", deadline=None)
settings.load_profile("laws")
