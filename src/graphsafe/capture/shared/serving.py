"""Messages between the parent and a process from which children are forked. `written` encodes these messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphsafe.capture.shared.job import Job

Import = Literal["prepare", "ahead", "follow"]
"""The imports that a server runs for a job: `prepare` imports the target's file, `ahead` runs the imports at the
beginning of its factory, and `follow` imports the libraries that the build child has imported."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Asks a server to fork a child."""

    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class Branch:
    """Asks a server to fork another server."""

    imports: Import | None = None
    job: Job | None = None
    folder: str | None = None
    "The working directory of the new server. None means the working directory of the present server."


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
    "The exit status, or the negative number of the signal that ended the child. None while the child runs."
