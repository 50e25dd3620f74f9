"""A rule file, or one that it includes, while it is compiled."""

from __future__ import annotations

from pathlib import Path as Folder
from typing import NamedTuple

from ratelimit_middleware.rules.document import Document, Finding, Path
from ratelimit_middleware.rules.lists_spec import ListSpec
from ratelimit_middleware.rules.model import RequestList
from ratelimit_middleware.rules.schema import FileSpec, RuleSpec
from ratelimit_middleware.rules.tiers import TierPlan

__all__ = ["Part"]


class Part(NamedTuple):
    """A file, read and checked; what is wrong with it is found one after the other."""

    spec: FileSpec
    document: Document
    findings: list[Finding]

    def refuse(self, path: Path, message: str, *, at_key: bool = False) -> None:
        """Add a finding."""
        self.findings.append(self.document.find(path, message, at_key=at_key))

    def listed(self, path: Path, spec: ListSpec | None, *, folds: bool = False) -> RequestList | None:
        """A list of requests, with what its files hold; their names begin beside this file."""
        folder = Folder() if self.document.lines is None else Folder(self.document.name).parent
        if spec is None:
            return None
        return spec.built(folder, lambda i, why: self.refuse((*path, "ips", i), why), folds=folds)

    def tiers(self, path: Path, spec: RuleSpec, main: Part) -> TierPlan | None:
        """What the tiers of the main file have under a rule; None if it has the same for all."""
        file = main.spec
        if spec.tiers is None:
            return None
        if file.tiers is None:
            if "tiers" not in main.document.data:  # else they are refused already
                message = "the file names no tiers: write `tiers: {by: …, pro: {scale: 10}}` at its top"
                self.refuse((*path, "tiers"), message)
            return None
        return file.tiers.plan(
            file.client.settings,
            spec.tiers,
            lambda name, why: self.refuse((*path, "tiers", name), why, at_key=True),
        )
