"""Finds the first difference between the collectives that ranks have issued, and describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphsafe.capture.processes.originals import decode, read_text
from graphsafe.capture.shared.collectives import Call, file_of
from graphsafe.files import from_here
from graphsafe.report.reading import read
from graphsafe.report.text import listed


def read_issued(folder: Path, child: str) -> list[Call]:
    try:
        lines = read_text(str(file_of(folder, child))).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(read(Call, decode(line)))
        except (ValueError, TypeError, AttributeError, RecursionError):  # the process was killed while it was writing
            break
    return found


def first_difference(by_rank: Sequence[Sequence[Call]]) -> dict[int, Call | None] | None:
    """Return, for each rank, its first collective that does not match those of the others. The value is None for a rank
    that issues no further collective.

    Return None if all ranks issue the same collectives. The lines of the calls may differ: the root of a broadcast may
    call it on a line of its own.
    """
    for at in range(max(map(len, by_rank), default=0)):
        here = {rank: calls[at] if at < len(calls) else None for rank, calls in enumerate(by_rank)}
        if len({None if call is None else (call.op, call.size) for call in here.values()}) > 1:
            return _unmatched({rank: _without_partner(by_rank, rank, here) for rank, call in here.items()}, by_rank)
    return None


def _unmatched(here: dict[int, Call | None], by_rank: Sequence[Sequence[Call]]) -> dict[int, Call | None]:
    """Return the calls. `extra` is set on each call from a line that no other rank reaches. If there is no such line,
    `extra` is set on all calls."""
    elsewhere = {
        rank: {call_text(call) for other, calls in enumerate(by_rank) if other != rank for call in calls}
        for rank in here
    }
    extra = {rank for rank, call in here.items() if call is not None and call_text(call) not in elsewhere[rank]}
    return {rank: call and replace(call, extra=rank in extra or not extra) for rank, call in here.items()}


def _without_partner(by_rank: Sequence[Sequence[Call]], rank: int, here: Mapping[int, Call | None]) -> Call | None:
    """Return this rank's call that has no partner in the ranks that issue fewer calls. It is the first call of the
    operation on a line that none of these ranks reaches.

    A comparison by position alone could be wrong: it would pair this call with a later call of the rank that issues
    fewer calls.
    """
    others = [calls for other, calls in enumerate(by_rank) if here[other] is None]
    own = here[rank]
    if own is None or not others:
        return own
    known = {call_text(call) for calls in others for call in calls}
    return next((call for call in by_rank[rank] if call.op == own.op and call_text(call) not in known), own)


def of_one_rank(divergence: Mapping[int, Call | None], rank: int | None) -> tuple[Call, dict[str, Any], str] | None:
    """Return this rank's call that caused the divergence, the calls of the other ranks, and a sentence. Return None if
    another rank caused the divergence."""
    own = None if rank is None else divergence.get(rank)
    if own is None or not own.extra:
        return None
    others = {other: call for other, call in sorted(divergence.items()) if call != own}
    reported = listed([f"rank {other} {doing_text(call)}" for other, call in others.items()], most=4)
    data: dict[str, Any] = {
        "rank": rank,
        "others": {str(other): call and call_text(call) for other, call in others.items()},
    }
    return own, data, f" Here {reported}."


def call_text(call: Call) -> str:
    """Return a call as a string: `all_reduce (model.py:31)`."""
    last = call.frames[-1]
    return f"{call.op} ({from_here(last.path)}:{last.line})"


def doing_text(call: Call | None) -> str:
    """Return what a rank does in a divergence: `issues all_reduce (model.py:31)`."""
    return "issues none" if call is None else f"issues {call_text(call)}"


def divergence_text(divergence: Mapping[int, Call | None]) -> str:
    """Describe in one line how the ranks differ."""
    each = ", ".join(f"rank {rank} {doing_text(call)}" for rank, call in sorted(divergence.items()))
    return f"the ranks do not issue the same collectives: {each}"
