"""One rank of a target, as its parent knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsafe.capture.ranks.coordinator import Coordinator


@dataclass(frozen=True, slots=True)
class Rank:
    number: int
    coordinator: Coordinator
    meeting_point: Path
    "A folder that all ranks see."
    variables: Mapping[str, str] = field(default_factory=dict)
    "What the environment says to this rank."

    def job_fields(self, meeting: str) -> dict[str, Any]:
        """What a child has to know of its rank. `meeting` names this run of it, alike in all ranks."""
        place = str(self.meeting_point / meeting)
        return {"rank": self.number, "ranks": self.coordinator.size, "rendezvous": place, "variables": self.variables}

    def any(self, value: bool) -> bool:
        return any(self.coordinator.gather(self.number, value))

    def all(self, value: bool) -> bool:
        return all(self.coordinator.gather(self.number, value))

    def first(self, value: Any) -> Any:
        """What the first rank says that says anything."""
        return next((said for said in self.coordinator.gather(self.number, value) if said is not None), None)


def variables_of(number: int, size: int) -> dict[str, str]:
    """As torchrun sets them for the ranks of one machine."""
    rank, ranks = str(number), str(size)
    return {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "ROLE_RANK": rank,
        "GROUP_RANK": "0",
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "ROLE_WORLD_SIZE": ranks,
    }
