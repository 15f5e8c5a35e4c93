"""A fix: edits of one file that repair one finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphsafe.fixes.code import Code
from graphsafe.report.model import Edit, Finding


@dataclass(frozen=True, slots=True)
class Fix:
    title: str
    "The repair as an imperative: `use torch.full`."
    edits: tuple[Edit, ...]
    risk: str = ""
    """The cases in which the fix changes a result, in words that follow "unsafe:".

    Empty for a safe fix, with which the step on the CPU always gives the same result.
    """

    @property
    def is_safe(self) -> bool:
        return not self.risk


Proposal = Callable[[Code, Finding], Fix | None]
"""Returns the fix of a finding, or None if none is known to be right."""
