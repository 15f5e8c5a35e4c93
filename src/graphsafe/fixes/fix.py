"""What a fix is: edits of one file that repair one finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphsafe.fixes.code import Code
from graphsafe.report.model import Edit, Finding


@dataclass(frozen=True, slots=True)
class Fix:
    title: str
    "What it does, as an order: `use torch.full`."
    edits: tuple[Edit, ...]
    is_safe: bool = True
    "On the CPU the step gives the same result, whatever else the program does."


Proposal = Callable[[Code, Finding], Fix | None]
"""What a fix would do about a finding; None where it is not known to be right."""
