"""Messages between the parent and a process that children fork from, as `written` encodes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphsafe.capture.shared.job import Job

Import = Literal["prepare", "ahead", "follow"]
"""The imports of a job: `prepare` imports its file, `ahead` also the imports at the beginning of its factory, `follow`
the imports that its build child has made."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Asks for a child."""

    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class Branch:
    """Asks for another server."""

    imports: Import | None = None
    job: Job | None = None
    folder: str | None = None
    "The folder in which the new server works, if not in the same folder."


@dataclass(frozen=True, slots=True)
class End:
    """Asks a server to end."""


@dataclass(frozen=True, slots=True)
class ServerState:
    pid: int
    ready: bool = False
    refused: str | None = None
    "The reason why the server cannot be used (its imports must not be shared), or None."


@dataclass(frozen=True, slots=True)
class ChildState:
    number: int
    pid: int
    status: int | None = None
    "None while the child runs."
