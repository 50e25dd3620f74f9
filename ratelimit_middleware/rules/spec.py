"""The base of every map of the rule file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Spec"]


class Spec(BaseModel):
    """A map of the file: no key that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)
