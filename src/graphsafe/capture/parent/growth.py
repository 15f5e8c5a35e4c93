"""Judges a long run of replays by its measurements: growth, drift and late failures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from graphsafe.capture.answers.build import Built
from graphsafe.capture.answers.probes import LongRun, Point
from graphsafe.capture.parent.finding_table import finding_at
from graphsafe.capture.parent.probes import DeviceAnswers, reported
from graphsafe.report.model import Finding, Limit
from graphsafe.report.probes.memory import Growth, Memory
from graphsafe.report.probes.probe import Error
from graphsafe.report.probes.replay import Check, Replay
from graphsafe.report.text import bytes_text
from graphsafe.rulebook.book import Rulebook

Value = TypeVar("Value", int, float)

_MOST_SETTLING = 0.75
"""Memory is leaked if it grows in at least this share of the intervals. A cache or a pool stops growing earlier."""
_HOST_NOISE = 8 << 20
"Number of bytes by which host memory may grow because of Python and the driver alone."
_KEEPS = "Memory that is kept from replay to replay is never freed. It runs out eventually, far from the cause."
_SLOWER = 1.5
"""Steps slow down if their time rises steadily, and if the last steps take more than this many times as long as the
first."""
_NOTHING_SEEN = Growth(replays=0, compared=0)


def growth_of(points: Sequence[Point], run: Growth = _NOTHING_SEEN) -> Growth:
    """Return the growth of a run, with the numbers from its measured points."""
    device = _known([point.device_bytes for point in points])
    host = _known([point.host_bytes for point in points])
    times, step_times = _known([point.ms for point in points]), _known([point.step_ms for point in points])
    return replace(
        run,
        bytes=_grown(device),
        pool_bytes=_grown(_known([point.pool_bytes for point in points])),
        host_bytes=_grown(host),
        leaks="device" if _keeps_growing(device, 0) else "host" if _keeps_growing(host, _HOST_NOISE) else None,
        first_ms=times[0] if times else None,
        last_ms=times[-1] if times else None,
        first_step_ms=step_times[0] if step_times else None,
        last_step_ms=step_times[-1] if step_times else None,
        slows=_keeps_growing(step_times, (_SLOWER - 1) * step_times[0]) if step_times else None,
    )


def _known(values: Sequence[Value | None]) -> list[Value]:
    return [value for value in values if value is not None]


def _grown(values: Sequence[int]) -> int | None:
    return values[-1] - values[0] if values else None


def _keeps_growing(values: Sequence[float], noise: float) -> bool:
    rises = [after > before for before, after in itertools.pairwise(values)]
    return len(rises) > 1 and values[-1] - values[0] > noise and sum(rises) >= _MOST_SETTLING * len(rises)


def with_long_run(memory: Memory, replay: Replay, run: LongRun) -> tuple[Memory, Replay]:
    """Return the probes `memory` and `replay` with the results of a long run. A leak makes the probe `memory` fail.
    Outputs that drift, and late failures, make the probe `replay` fail."""
    growth = growth_of(run.points, run.growth)
    memory = replace(memory, growth=growth)
    if growth.leaks is not None:
        memory = replace(memory, status="fail", reason=f"{growth.leaks} memory grows with every replay")
    for one in growth.drifts:
        name = f"{one.output} at replay {one.replay} of {growth.replays}"
        check = Check(name, "different", False, one.max_abs, one.floor, replay=one.replay)
        replay = replace(replay, status="fail", checks=(*(replay.checks or ()), check))
    if growth.failure is not None:
        number, since = growth.failure.replay, growth.failure.right_until + 1
        between = f"replay {number}" if since == number else f"one of replays {since} to {number}"
        error = Error(f"{between} of {growth.replays}: {growth.failure.message}")
        replay = replace(replay, status="fail", first_error=error)
    return memory, replay


def said_of(seen: DeviceAnswers, book: Rulebook) -> list[Finding | Limit]:
    """Return the findings and limits of a long run:
    - a leak, at the line that keeps memory
    - replaced state that makes replays wrong, at the refresh, or at the step if there is no refresh
    - the reason if the run stopped early
    """
    growth, run = seen.probes.memory.growth, seen.answers.get(LongRun)
    said: list[Finding | Limit] = []
    if growth is None or run is None:
        return said
    if growth.stopped:
        said.append(Limit("long-run", seen.device, growth.stopped))
    frame = run.refresh or seen.answers[Built].entry
    first = next(iter(growth.drifts), None)
    for moved in growth.moved:
        if first is None or moved.path not in first.moved:
            continue
        because = f"Here `{moved.path}` is at another address after replay {moved.replay} of {growth.replays}."
        because += f" From replay {first.replay} on, {first.output} differs from eager steps."
        words, data = {"expr": moved.path}, {"attribute": moved.path, **reported(first)}
        # Between replays, only the refresh runs user code.
        rule, how = (book.rules["GS707"], "input-rebound") if run.refresh else (book.rules["GS703"], "rebound")
        said.append(finding_at(frame, rule, how, "error", words, because, data, seen.device, seen.source))
    if growth.leaks:
        grown = bytes_text((growth.bytes if growth.leaks == "device" else growth.host_bytes) or 0)
        because = f"Here {grown} more {growth.leaks} memory was held after {growth.replays} replays."
        keeping = next((one for one in growth.keeping if one.frames), None)
        if growth.leaks == "device" and keeping is not None:
            frame = keeping.frames[-1]
            because += f" This line keeps {bytes_text(keeping.bytes)} of it at each replay."
        words = {"expr": f"{grown} in {growth.replays} replays", "value": growth.leaks}
        rule = book.rules["GS402"]
        data = {name: getattr(growth, name) for name in ("replays", "bytes", "host_bytes", "leaks")}
        said.append(
            finding_at(frame, rule, "leaking", "warning", words, because, data, seen.device, seen.source, _KEEPS)
        )
    return said
