"""The texts of a rule that an output format may show. The rules of the rulebook have these attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from graphsafe.report.model import Level


class RuleText(Protocol):
    """`summary` is one line. `what`, `why` and `fix` are Markdown."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def level(self) -> Level: ...
    @property
    def summary(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def fix(self) -> str: ...


RuleTexts = Mapping[str, RuleText]
"""Code -> the texts of its rule."""
