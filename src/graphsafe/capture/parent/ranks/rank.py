"""One rank of a target, as its parent sees it. A target without ranks has a single rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from graphsafe.capture.parent.ranks.coordinator import Coordinator


def side_by_side(works: Sequence[Callable[[], None]], abandon: Callable[[], None] = lambda: None) -> None:
    """Run all functions in `works`, each in a thread. After the first exception, `abandon` is called, so that the other
    functions end too. The first exception is raised at the end; later exceptions are dropped."""
    if len(works) == 1:
        works[0]()
        return
    with ThreadPoolExecutor(len(works)) as pool:
        ended, _ = wait([pool.submit(work) for work in works], return_when=FIRST_EXCEPTION)
        errors = [error for one in ended if (error := one.exception()) is not None]
        if errors:
            abandon()
    if errors:
        raise errors[0]


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank. A single rank does not wait for other ranks, and reports do not name it."""

    number: int = 0
    coordinator: Coordinator = field(default_factory=lambda: Coordinator(1))
    meeting_point: Path = Path()
    "A folder that all ranks can read."
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def reported(self) -> int | None:
        """The rank's number for a report; None for a single rank."""
        return self.number if self.coordinator.size > 1 else None

    def named(self, before: str) -> str:
        """Return the rank for a message, such as ` of rank 1` if `before` is `of`. The result is empty for a single
        rank."""
        return "" if self.reported is None else f" {before} rank {self.number}"

    def job_fields(self, meeting: str) -> dict[str, Any]:
        """Return the fields of a job that depend on the rank. `meeting` is a name for this run of the child, the same
        in all ranks."""
        if self.reported is None:
            return {}
        place = str(self.meeting_point / meeting)
        return {"rank": self.number, "ranks": self.coordinator.size, "rendezvous": place, "variables": self.variables}

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all ranks, in order of rank."""
        return self.coordinator.gather(self.number, value)

    def any(self, value: bool) -> bool:
        """Return whether the value is true in any rank."""
        return any(self.gather(value))

    def all(self, value: bool) -> bool:
        """Return whether the value is true in all ranks."""
        return all(self.gather(value))

    def first(self, value: Value | None) -> Value | None:
        """Return the value of the first rank whose value is not None."""
        return next((said for said in self.gather(value) if said is not None), None)


def variables_of(number: int, size: int) -> dict[str, str]:
    """Return the environment variables that torchrun sets for the ranks of one machine."""
    own = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(number))
    return own | dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), str(size)) | {"GROUP_RANK": "0"}
