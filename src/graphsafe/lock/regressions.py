"""Compares a report with a lock.

It describes regressions, names the lines that caused them, and says whether these lines have changed since the lock was
committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from graphsafe.errors import RequestError
from graphsafe.files import saved
from graphsafe.git.changed_lines import Changes, Lines, changes_since_last_of
from graphsafe.lock.proven import Key, Proven, kind_of
from graphsafe.report.model import VERDICTS, Finding, Report, failing
from graphsafe.report.probes import Probes
from graphsafe.report.text import bucket_name, bytes_text, count
from graphsafe.scan.sources.source import MAX_BYTES

Item = TypeVar("Item")
Introduced = Callable[[str, int], str]
"""Returns a remark about a line, given its file and number.

The remark is `; introduced with this change` or `; not in this change`, or "" if this is unknown.
"""
_LIBRARIES = frozenset(("site-packages", "dist-packages"))
"Folders of installed packages. Git does not track the files in them, but their lines do not count as new."


def introduced_since(lock: Path) -> Introduced:
    """Return a function that says whether a line was introduced since the commit that last changed the lock."""

    @cache
    def changes() -> Changes | None:
        return changes_since_last_of(lock)

    @cache
    def changed(path: str) -> Lines | None:
        since, absolute = changes(), Path(os.path.realpath(path))
        if since is None or _LIBRARIES & {*absolute.parts} or not absolute.is_relative_to(since.repository.top):
            return None
        try:
            return since.lines([str(absolute)], lambda each: saved(each, MAX_BYTES))[str(absolute)]
        except RequestError:
            return None

    def text(path: str, line: int) -> str:
        lines = changed(path)
        if lines is None:
            return ""
        return "; introduced with this change" if any(line in each for each in lines) else "; not in this change"

    return text


def of_place(introduced: Introduced, place: str) -> str:
    """Return the remark about a place such as `cache.py:41`."""
    path, _, line = place.rpartition(":")
    return introduced(path, int(line)) if path and line.isdecimal() else ""


_WAITS = ("read", "wait", "query", "extent", "hidden-sync")
_COPIES = ("copy-to-host", "copy-to-device")
_MOST_LINES = 3
_RUNS = 3
"""A replay counts as slower only if it is slower in this many successive runs.

On an H200 (torch 2.11), a single comparison with a fresh lock can find one of 20 entries slower by chance.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one target with its lock, in sentences."""

    worse: tuple[str, ...]
    better: tuple[str, ...]
    skipped: tuple[str, ...]
    "The kinds of devices that are in the lock but did not run."
    compared: int
    slower: int = 0
    "The number of sentences in `worse` that are about times."

    @property
    def is_only_slower(self) -> bool:
        return 0 < self.slower == len(self.worse)


def compared(
    name: str,
    locked: Mapping[Key, Proven],
    now: Mapping[Key, Proven],
    report: Report,
    introduced: Introduced = lambda path, line: "",
    update: str = "--update-lock",
) -> Comparison:
    """Compare a target's entries for the kinds of devices that have run.

    `update` is the name of the option that writes the lock.
    """
    if not locked:
        return Comparison((f"{name}: not in the lock; {update} adds it",), (), (), 0)
    kinds = {device for device, _, _ in now}
    worse: list[str] = []
    better: list[str] = []
    slower = 0
    for key in [key for key in locked if key[0] in kinds] + [key for key in now if key not in locked]:
        title = _title(name, key, len(kinds) > 1)
        before, after = locked.get(key), now.get(key)
        if before is None:
            if any(device == key[0] for device, _, _ in locked):
                worse.append(f"{title}: not in the lock; {update} adds it")
        elif after is None:
            worse.append(f"{title}: was {before.verdict}, and no longer runs; {update} removes it")
        else:
            is_other = None not in (before.torch, after.torch) and before.torch != after.torch
            since = f" (torch {before.torch} → {after.torch})" if is_other else ""
            times = list(_changed_times(before, after))
            slower += sum(is_worse for _, is_worse in times)
            changes = [*_changes(before, after, report, introduced), *times]
            worse += [f"{title}: {text}{since}" for text, is_worse in changes if is_worse]
            better += [f"{title}: {text}{since}" for text, is_worse in changes if not is_worse]
    missing = sorted({device for device, _, _ in locked} - kinds)
    skipped = [f"{name}: skipped on {device}, which this machine does not have" for device in missing]
    skipped += [f"{name}: the lock has no entry for {kind}" for kind in sorted(kinds - {key[0] for key in locked})]
    entries = sum(key in now for key in locked)
    return Comparison(tuple(worse), tuple(better), tuple(skipped), entries, slower)


def confirmed(
    report: Report, compare: Callable[[Report], Comparison], again: Callable[[], Report | None]
) -> Comparison:
    """Return the comparison of a report. If the target has only become slower, it is run and compared again.

    `again` runs the target and returns the new report, or None if the run gave no result.
    """
    found = compare(report)
    for _ in range(_RUNS - 1):
        if not found.is_only_slower:
            break
        one = again()
        found = found if one is None else compare(one)
    return found


def _title(name: str, key: Key, of_several: bool) -> str:
    device, bucket, rank = key
    parts = (name, bucket.replace("=", " "), "" if rank is None else f"rank {rank}")
    return ", ".join(filter(None, parts)) + (f" on {device}" if of_several else "")


def _changes(before: Proven, after: Proven, report: Report, introduced: Introduced) -> Iterator[tuple[str, bool]]:
    """Yield each change, and whether it is a regression."""
    step = _probes_of(after, report).step
    if before.verdict != after.verdict:
        is_worse = VERDICTS.index(after.verdict) > VERDICTS.index(before.verdict)
        cause = _cause(report, after.device, introduced) if is_worse else ""
        yield f"{before.verdict} → {after.verdict}{cause}", is_worse
    for kind in sorted({*before.nodes, *after.nodes}) if after.nodes and before.nodes else ():
        old, new = before.nodes.get(kind, 0), after.nodes.get(kind, 0)
        if old != new:
            yield f"{old} → {count(new, f'{kind} node')}", new > old
    for noun, old_count, new_count, kinds in (
        ("wait", before.waits, after.waits, _WAITS),
        ("copy", before.copies, after.copies, _COPIES),
    ):
        if old_count is not None and new_count is not None and old_count != new_count:
            places = [line.place for line in step.by_line or () if set(kinds) & set(line.kinds)]
            at = _first(places, lambda place: f"{place}{of_place(introduced, place)}") if new_count > old_count else ""
            yield f"{old_count} → {count(new_count, noun)} in an eager step{at}", new_count > old_count
    if before.coverage is not None and after.coverage is not None and before.coverage != after.coverage:
        text = f"the plan captures {before.coverage:.0%} → {after.coverage:.0%} of the step"
        yield text, after.coverage < before.coverage
    if before.pool_bytes is not None and after.pool_bytes is not None and before.pool_bytes != after.pool_bytes:
        grown = after.pool_bytes > before.pool_bytes
        held = _probes_of(after, report).memory.pool
        place = held.largest_place if grown and held is not None and held.lines else ""
        at = f"; most of it is taken at {place}{of_place(introduced, place)}" if place else ""
        yield f"the graph's pool {bytes_text(before.pool_bytes)} → {bytes_text(after.pool_bytes)}{at}", grown


def _changed_times(before: Proven, after: Proven) -> Iterator[tuple[str, bool]]:
    """Yield a change of a replay's time, if the speedup has changed in the same direction.

    If only one of the two has changed, the change may be noise. On an H200 (torch 2.11), two successive runs of one
    commit gave eager steps of 2.27 and 1.55 ms, while a replay took 0.17 ms in both. Two other runs gave replays of
    0.125 and 0.161 ms, and the slower replay had the larger speedup.
    """
    if before.speedup is None or after.speedup is None or before.replay_ms is None or after.replay_ms is None:
        return
    slower = after.replay_ms.low > before.replay_ms.high and after.speedup.high < before.speedup.low
    faster = after.replay_ms.high < before.replay_ms.low and after.speedup.low > before.speedup.high
    if slower or faster:
        gained = f"{before.speedup.median:.3g} → {after.speedup.median:.3g} times as fast as the eager step"
        yield f"a replay {before.replay_ms.text('ms')} → {after.replay_ms.text('ms')}, {gained}", slower


def _probes_of(entry: Proven, report: Report) -> Probes:
    for device in report.devices or ():
        if kind_of(device.device, report.environment) == entry.device and device.rank == entry.rank:
            buckets = {bucket_name(bucket.axes): bucket.probes for bucket in device.buckets}
            return Probes.of(buckets.get(entry.bucket, device.probes))
    return Probes()


def _cause(report: Report, kind: str, introduced: Introduced) -> str:
    """Return the first errors on this kind of device. Without errors, return the first limit of the report, or ""."""
    known = report.environment
    errors = [one for one in failing(report, "error") if one.device is None or kind_of(one.device, known) == kind]
    if errors:
        return _first(errors, lambda one: _error(one, introduced))
    limits = [limit for limit in report.limits if limit.kind != "simulated"]
    return f"; {limits[0].what}: {limits[0].why}" if limits else ""


def _error(one: Finding, introduced: Introduced) -> str:
    path, line = one.location.path, one.location.line
    return f"{path}:{line} {one.message} ({one.code}){introduced(path, line)}"


def _first(items: Sequence[Item], text: Callable[[Item], str]) -> str:
    """Return the descriptions of the first items, and the number of further items."""
    more = [f"{len(items) - _MOST_LINES} more"] if len(items) > _MOST_LINES else []
    return "".join(f"; {each}" for each in [*map(text, items[:_MOST_LINES]), *more])
