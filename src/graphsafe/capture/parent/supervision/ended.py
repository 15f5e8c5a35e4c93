"""How a child process ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphsafe.report.probes.probe import ProbeStatus

Ending = Literal["done", "target", "state", "crashed", "timeout", "stopped", "fault"]
"""`done`: it did all its work; `target`: the user's code raised an error; `state`: the target's state cannot be put
back; `crashed`: it died; `timeout`: it took too long; `stopped`: another rank could not go on; `fault`: graphsafe's own
code failed."""

_STATUS: dict[Ending, ProbeStatus] = {"crashed": "crashed", "timeout": "timeout"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child process ended, with the reason in one line, which is empty if it did all its work."""

    how: Ending
    why: str = ""

    @property
    def by_itself(self) -> bool:
        """Whether the child itself reported its end, and did not die or get ended in the middle of its work."""
        return self.how in ("done", "target", "state")

    @property
    def status(self) -> ProbeStatus:
        """The status of a probe during which the child ended."""
        return _STATUS.get(self.how, "skipped")
