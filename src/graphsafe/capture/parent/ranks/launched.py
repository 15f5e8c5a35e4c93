"""Ranks that a launcher has started (`torchrun --nproc-per-node 2 -m graphsafe capture ...`).

Rank 0 leads: it starts the children of all ranks and writes the only report. The other ranks send rank 0 their
environment, wait, and exit with the exit code of rank 0. The ranks connect through a socket in Linux's abstract
namespace, so no file is left behind.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from graphsafe.capture.processes.originals import decode, encode
from graphsafe.errors import RequestError

_PATIENCE = 120.0
"Seconds in which all ranks must connect."
_PLACES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_WHO = struct.Struct("3i")
"The ids that the kernel reports for the other end of a socket: the ids of the process, of its user and of its group."


@dataclass(frozen=True, slots=True)
class Launched:
    rank: int
    size: int

    @staticmethod
    def by(environment: Mapping[str, str]) -> Launched | None:
        """Return this process's place in a launch, if the environment describes a launch with several ranks, else None.
        Raises RequestError."""
        said = [environment.get(name, "") for name in _PLACES]
        if not all(text.isdigit() for text in said[:2]):
            return None
        rank, size = int(said[0]), int(said[1])
        if size < 2:
            return None
        if said[3].isdigit() and int(said[3]) != size:
            raise RequestError(f"capture: {size} ranks on several machines; all ranks must run on one machine")
        return Launched(rank, size)

    def lead(self) -> Leader:
        """Wait until the other ranks have connected. Only rank 0 calls this. Raises RequestError if a rank does not
        connect."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(_address())
        except OSError:
            raise RequestError("capture: another process leads these ranks already") from None
        listener.listen(self.size)
        followers: dict[int, socket.socket] = {}
        environments: dict[int, Mapping[str, str]] = {0: dict(os.environ)}
        deadline = time.monotonic() + _PATIENCE
        with listener:
            while len(environments) < self.size:
                listener.settimeout(max(deadline - time.monotonic(), 0.01))
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    missing = ", ".join(str(rank) for rank in range(self.size) if rank not in environments)
                    raise RequestError(
                        f"capture: RANK and WORLD_SIZE are set, but rank {missing} did not connect "
                        f"within {_PATIENCE:.0f} s"
                    ) from None
                if not _is_ours(connection):
                    connection.close()
                    continue
                reported = decode(connection.makefile(encoding="utf-8").readline())
                followers[reported["rank"]] = connection
                environments[reported["rank"]] = reported["environment"]
        if len({environment.get(_VISIBLE) for environment in environments.values()}) > 1:
            raise RequestError(
                f"capture: each rank has a {_VISIBLE} of its own; let every rank see the GPUs of all ranks"
            )
        return Leader(followers, environments)

    def follow(self) -> int:
        """Wait for rank 0 and return its exit code. The other ranks call this. Raises RequestError if rank 0 sends no
        code."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(_address())
                break
            except OSError:
                connection.close()
                if time.monotonic() > deadline:
                    raise RequestError(f"capture: rank 0 did not connect within {_PATIENCE:.0f} s") from None
                time.sleep(0.05)
        with connection:
            if not _is_ours(connection):
                raise RequestError("capture: another user's process leads these ranks")
            reported = {"rank": self.rank, "environment": dict(os.environ)}
            connection.sendall(f"{encode(reported)}\n".encode())
            answer = connection.makefile(encoding="utf-8").readline().strip()
        if not answer:
            raise RequestError("capture: rank 0 ended without an answer")
        return int(answer)


@dataclass(frozen=True, slots=True)
class Leader:
    """The leading rank. Use it as a context manager: when it closes, the other ranks end."""

    _followers: Mapping[int, socket.socket]
    _environments: Mapping[int, Mapping[str, str]]

    def __enter__(self) -> Leader:
        return self

    def __exit__(self, *error: object) -> None:
        for connection in self._followers.values():
            connection.close()

    def variables(self, rank: int) -> dict[str, str]:
        """Return the environment variables of a rank that differ from those of rank 0."""
        own, leading = self._environments[rank], self._environments[0]
        return {name: value for name, value in own.items() if leading.get(name) != value or name in _PLACES}

    def tell(self, code: int) -> None:
        for connection in self._followers.values():
            try:
                connection.sendall(f"{code}\n".encode())
            except OSError:
                continue


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this user. An environment may contain secrets."""
    who = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _WHO.size)
    return bool(_WHO.unpack(who)[1] == os.getuid())


def _address() -> str:
    """Return the address of the socket. The address is the same for all ranks of one launch, and differs between
    launches."""
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    return "\0graphsafe-" + "-".join([str(os.getuid()), *(os.environ.get(name, "") for name in names)])
