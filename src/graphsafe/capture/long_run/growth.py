"""What a long run of replays says: growth, drift and late failures, from the numbers that it took."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.compare import Check
from graphsafe.capture.findings import Seen
from graphsafe.capture.line_finding import finding_at
from graphsafe.report.model import Finding, Limit
from graphsafe.report.text import bytes_text
from graphsafe.rulebook import Rulebook

Probe = dict[str, Any]

_MOST_SETTLING = 0.75
"A cache or a pool settles; what grows between more than this share of the points keeps growing."
_HOST_NOISE = 8 << 20
"Python and the driver take so much of the host's memory by the way."
_KEEPS = "What is kept from replay to replay is never given back, and the memory ends some day, far from the cause."
_SLOWER = 1.5
"A step that takes so many times as long at the end as at the beginning, rising all the while, slows down."


@dataclass(frozen=True, slots=True)
class Growth:
    device_bytes: int | None
    host_bytes: int | None
    "From the first point to the last; None where it was not measured."
    leaks: str | None
    "Which memory keeps growing: `device`, `host`, or none."
    pool_bytes: int | None = None
    slows: bool | None = None
    "Whether steps take longer and longer; None where no time was taken."


def growth_of(points: Sequence[Mapping[str, Any]]) -> Growth:
    device, host, pool, times = (
        [point[key] for point in points if point[key] is not None]
        for key in ("device_bytes", "host_bytes", "pool_bytes", "step_ms")
    )
    leaks = "device" if _keeps_growing(device, 0) else "host" if _keeps_growing(host, _HOST_NOISE) else None
    slows = _keeps_growing(times, (_SLOWER - 1) * times[0]) if times else None
    return Growth(_grown(device), _grown(host), leaks, _grown(pool), slows)


def _grown(values: Sequence[int]) -> int | None:
    return values[-1] - values[0] if values else None


def _keeps_growing(values: Sequence[float], noise: float) -> bool:
    rises = [after > before for before, after in itertools.pairwise(values)]
    return len(rises) > 1 and values[-1] - values[0] > noise and sum(rises) >= _MOST_SETTLING * len(rises)


def add_growth(probes: dict[str, Probe], reported: Mapping[str, Any]) -> None:
    """Into the probes of a run: memory that grows, and, as a fault of replay, what drifts or fails."""
    points = reported["points"]
    growth = growth_of(points)
    memory, replay = probes["memory"], probes["replay"]
    memory["growth"] = {
        "replays": reported["replays"],
        "compared": reported["compared"],
        "bytes": growth.device_bytes,
        "pool_bytes": growth.pool_bytes,
        "host_bytes": growth.host_bytes,
        "leaks": growth.leaks,
        **_ends("ms", points),
        **_ends("step_ms", points),
        "slows": growth.slows,
        "keeping": reported["keeping"],
        "moved": reported["moved"],
        # Seen in the same look: what moved before outputs drifted was not what they are made of.
        "drifts": [
            {**one, "moved": [each["path"] for each in reported["moved"] if each["replay"] == one["replay"]]}
            for one in reported["drifts"]
        ],
        "failure": reported["failure"],
        "stopped": reported["stopped"],
    }
    if growth.leaks is not None:
        memory |= {"status": "fail", "reason": f"the memory of the {growth.leaks} grows with every replay"}
    for drift in reported["drifts"]:
        name = f"{drift['output']} at replay {drift['replay']} of {reported['replays']}"
        check = Check(name, "different", False, drift["max_abs"], drift["floor"], replay=drift["replay"])
        replay |= {"status": "fail", "checks": [*(replay.get("checks") or ()), check.as_data()]}
    if reported["failure"] is not None:
        failure = reported["failure"]
        number, since = failure["replay"], failure["right_until"] + 1
        between = f"replay {number}" if since == number else f"one of replays {since} to {number}"
        text = f"{between} of {reported['replays']}: {failure['message']}"
        replay |= {"status": "fail", "first_error": {"message": text}}


def _ends(key: str, points: Sequence[Mapping[str, Any]]) -> Probe:
    values = [point[key] for point in points if point[key] is not None]
    return {f"first_{key}": values[0] if values else None, f"last_{key}": values[-1] if values else None}


def said_of(seen: Seen, refresh: Mapping[str, Any] | None, book: Rulebook) -> list[Finding | Limit]:
    """A leak, at the line that keeps memory; state that was replaced so that replays are wrong, at the refresh (all of
    the code of the user that runs between replays), else at the step; and what ended the run before its time."""
    growth = (seen.probes.get("memory") or {}).get("growth") or {}
    said: list[Finding | Limit] = []
    if growth.get("stopped"):
        said.append(Limit("long-run", seen.device, growth["stopped"]))
    frame = refresh or seen.build.get("entry")
    first = next(iter(growth.get("drifts") or ()), None)
    if first is not None:
        for moved in [one for one in growth["moved"] if one["path"] in first["moved"]]:
            because = f"Here `{moved['path']}` lies elsewhere after replay {moved['replay']} of {growth['replays']}."
            because += f" From replay {first['replay']} on {first['output']} differs from eager steps."
            words, data = {"expr": moved["path"]}, {"attribute": moved["path"], **first}
            rule = book.rules["GS703"]
            said.append(finding_at(frame, rule, "rebound", "error", words, because, data, seen.device, seen.source))
    if growth.get("leaks"):
        grown = bytes_text(growth["bytes"] if growth["leaks"] == "device" else growth["host_bytes"])
        because = f"Here {grown} more of the {growth['leaks']} were held after {growth['replays']} replays."
        keeping = next((one for one in growth["keeping"] if one["frame"] is not None), None)
        if growth["leaks"] == "device" and keeping is not None:
            frame = keeping["frame"]
            because += f" This line keeps {bytes_text(keeping['bytes'])} of them at each replay."
        words = {"expr": f"{grown} in {growth['replays']} replays", "value": growth["leaks"]}
        rule = book.rules["GS402"]
        data = {name: growth[name] for name in ("replays", "bytes", "host_bytes", "leaks")}
        said.append(
            finding_at(frame, rule, "leaking", "warning", words, because, data, seen.device, seen.source, _KEEPS)
        )
    return said
