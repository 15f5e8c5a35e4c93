"""Describes in words what has changed from one report to another.

Findings with equal fingerprints are the same finding, even if lines have moved or if the device or the command differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.report.model import (
    LEVELS,
    VERDICTS,
    DeviceResult,
    Finding,
    Limit,
    Plan,
    Report,
    Verdict,
    facts_of,
    in_order,
    most_severe,
)
from graphsafe.report.pool import Pool
from graphsafe.report.probes import Probes
from graphsafe.report.probes.memory import Growth, Held
from graphsafe.report.probes.probe import Unit
from graphsafe.report.text import bucket_name, bytes_text, count, printable, without_commands

_NOTABLE = 0.1
"If two times or sizes differ by less than this share, they are treated as equal."


@dataclass(frozen=True, slots=True)
class Change:
    text: str
    worse: bool = False
    """Whether something became worse: a verdict is worse, a proof is missing, an error or warning is new, or a finding
    has a higher level."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    changes: tuple[Change, ...]


def changes(before: Sequence[Report], after: Sequence[Report]) -> list[Section]:
    """Return the sections in which something has changed. Several reports are paired by their targets."""
    sections: list[Section] = []
    several = len(before) > 1 or len(after) > 1
    pairs, gone = paired(before, after)
    for old, report in pairs:
        if old is None:
            changed = (_new(report.verdict), *_findings((), report.findings))
            sections.append(Section(_name(report), changed))
            continue
        if old.target != report.target or not _is_same_target(old, report):
            sections.append(Section("target", (Change(f"{_name(report)}, was {_name(old)}"),)))
        prefix = f"{_name(report)}: " if several else ""
        for title, found in _compared(old, report):
            reported = tuple(found)
            sections += [Section(prefix + title, reported)] if reported else []
    return [*sections, *(Section(_name(report), (_gone("gone", report.verdict),)) for report in gone)]


def paired(
    before: Sequence[Report], after: Sequence[Report]
) -> tuple[list[tuple[Report | None, Report]], list[Report]]:
    """Return a list of pairs, and a list of the older reports without a pair.

    A pair consists of the older report of a target, or None, and the newer report. If both reports have a name, the
    names must be equal; otherwise the targets must be equal. Two single reports always form a pair.
    """
    if len(before) == len(after) == 1:
        return [(before[0], after[0])], []
    left = list(before)
    pairs: list[tuple[Report | None, Report]] = []
    for report in after:
        old = next((one for one in left if _is_same_target(one, report)), None)
        left = [one for one in left if one is not old]
        pairs.append((old, report))
    return pairs, left


def _is_same_target(old: Report, new: Report) -> bool:
    has_names = old.name is not None and new.name is not None  # older reports have no names
    return old.name == new.name if has_names else old.target == new.target


def _name(report: Report) -> str:
    return report.called or "scan"


_PROVEN: tuple[Verdict, ...] = ("ready", "ready-with-breaks")


def _new(verdict: Verdict | None) -> Change:
    return Change(f"new, {verdict or 'scanned'}", verdict is not None and verdict not in _PROVEN)


def _gone(text: str, verdict: Verdict | None) -> Change:
    """Return the change for a part that no longer runs. It counts as worse if the part had been proven."""
    return Change(text if verdict is None else f"{text}, was {verdict}", verdict in _PROVEN)


def _compared(before: Report, after: Report) -> Iterator[tuple[str, Iterator[Change]]]:
    yield "verdict", _verdict(before.verdict, after.verdict)
    yield "environment", _environment(before, after)
    olds = {device.device: device for device in before.devices or ()}
    for device in after.devices or ():
        old = olds.pop(device.device, None)
        yield device.device, _device(old, device) if old is not None else iter([Change(f"new, {device.verdict}")])
    for name in olds:
        yield name, iter([Change("no longer run")])
    yield "support", _support(before, after)
    yield "plan", _plan(before.plan, after.plan)
    yield "findings", _findings(before.findings, after.findings)
    yield "not known", _limits(before.limits, after.limits)


def _verdict(before: Any, after: Any) -> Iterator[Change]:
    if before != after:
        worse = after in VERDICTS and before in VERDICTS and VERDICTS.index(after) > VERDICTS.index(before)
        yield Change(f"{after}, was {before}", worse)


def _environment(before: Report, after: Report) -> Iterator[Change]:
    old, new = facts_of(before), facts_of(after)
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name), new.get(name)
        if was != now:
            yield Change(f"{name}: {_said(now)}, was {_said(was)}")


def _said(value: str | None) -> str:
    return "not set" if value is None else value or "empty"


def _device(before: DeviceResult, after: DeviceResult) -> Iterator[Change]:
    yield from _verdict(before.verdict, after.verdict)
    if not (before.buckets or after.buckets):
        yield from _probes(before.probes, after.probes)
    olds = {bucket_name(bucket.axes): bucket for bucket in before.buckets}
    for bucket in after.buckets:
        name = bucket_name(bucket.axes)
        old = olds.pop(name, None)
        if old is None:
            added = _new(bucket.verdict)
            yield Change(f"{name}: {added.text}", added.worse)
            continue
        for change in (*_verdict(old.verdict, bucket.verdict), *_probes(old.probes, bucket.probes)):
            yield Change(f"{name}: {change.text}", change.worse)
    for name, old in olds.items():
        yield _gone(f"{name}: no longer run", old.verdict)
    yield from _pool(*(None if one.pool is None else Pool.of(one.pool) for one in (before, after)))


def _probes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    olds, news = Probes.of(before), Probes.of(after)
    for (name, old), (_, new) in zip(olds, news, strict=True):
        if old.status != new.status:
            yield Change(f"{name}: {new.status}, was {old.status}")
        for was, now in zip(old.numbers(), new.numbers(), strict=True):
            yield from _number(now.name, was.value, now.value, now.unit)
    yield from _held("a step takes", olds.memory.step, news.memory.step)
    yield from _held("the graph uses", olds.memory.pool, news.memory.pool)
    yield from _growth(olds.memory.growth, news.memory.growth)


def _held(text: str, before: Held | None, after: Held | None) -> Iterator[Change]:
    old, new = (None if held is None else held.bytes for held in (before, after))
    for change in _number(text, old, new, "bytes"):
        most = f", most of it at {after.largest_place}" if after is not None and after.bytes else ""
        yield Change(change.text + most, change.worse)


def _growth(before: Growth | None, after: Growth | None) -> Iterator[Change]:
    old, new = (None if growth is None else growth.bytes for growth in (before, after))
    yield from _number("growth over all replays", old, new, "bytes")
    if before is not None and after is not None and before.leaks != after.leaks:
        grows = f"{after.leaks} memory grows with every replay"
        yield Change(grows if after.leaks else "memory no longer grows with every replay", after.leaks is not None)


_UNITS: Mapping[Unit, Callable[[Any], str]] = {
    "count": lambda number: f"{number:.0f}",
    "bytes": lambda number: bytes_text(int(number)),
    "ms": lambda number: f"{number:.3g} ms",
}


def _number(text: str, before: Any, after: Any, unit: Unit) -> Iterator[Change]:
    """Yield a change between two values: any difference of counts, and a notable difference of measured values."""
    was, now = ("not known" if value is None else _UNITS[unit](value) for value in (before, after))
    if before == after or not all(isinstance(value, (int, float)) for value in (before, after)):
        if (before is None) != (after is None):
            yield Change(f"{text}: {now}, was {was}")
    elif unit == "count" or abs(after - before) > _NOTABLE * abs(before):
        share = f" ({(after - before) / before:+.0%})" if before and unit != "count" else ""
        yield Change(f"{text}: {now}, was {was}{share}")


def _pool(before: Pool | None, after: Pool | None) -> Iterator[Change]:
    was, now = (one.status if one is not None else "not tried" for one in (before, after))
    if was != now:
        yield Change(f"shared pool: {now}, was {was}", now == "fail")
    for key, text in (("pool_bytes", "shared pool"), ("saved_bytes", "saved by sharing"), ("peak_bytes", "peak")):
        yield from _number(text, getattr(before, key, None), getattr(after, key, None), "bytes")


def _support(before: Report, after: Report) -> Iterator[Change]:
    for key in ("proven", "declared"):
        both = [getattr(report.support, key, None) for report in (after, before)]
        levels, lengths = ([getattr(one, name, None) for one in both] for name in ("level", "max_query_len"))
        if levels[0] != levels[1]:
            yield Change(f"{key}: {_said(levels[0])}, was {_said(levels[1])}")
        elif lengths[0] != lengths[1]:
            yield Change(f"{key}: up to {lengths[0]} tokens per request, was {lengths[1]}")


def _plan(before: Plan | None, after: Plan | None) -> Iterator[Change]:
    old, new = before or Plan(), after or Plan()
    if (before and old.verified) != (after and new.verified):
        lost = "no longer" if old.verified else "not"
        yield Change("verified" if new.verified else f"{lost} verified" if after else "none, was verified")
    yield from _number("planned step", old.planned_ms, new.planned_ms, "ms")
    yield from _number("eager step", old.eager_ms, new.eager_ms, "ms")
    if old.coverage is not None and new.coverage is not None and old.coverage != new.coverage:
        worse = new.coverage < old.coverage
        yield Change(f"covers {new.coverage:.0%} of the operations, was {old.coverage:.0%}", worse)


def _findings(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Change]:
    olds, news = _by_fingerprint(before), _by_fingerprint(after)
    for key, new in news.items():
        old = olds.get(key)
        if old is None:
            yield Change(f"new: {_finding_text(new)}", new.level != "note" and new.suppressed is None)
            continue
        differences = []
        worse = False
        if (old.suppressed is None) != (new.suppressed is None):
            differences.append("suppressed" if new.suppressed else "no longer suppressed")
            worse = new.suppressed is None and new.level != "note"
        if old.level != new.level:
            differences.append(f"{new.level}, was {old.level}")
            worse = worse or LEVELS.index(new.level) > LEVELS.index(old.level)
        for text, name in (("", "confidence"), ("", "status"), ("times ", "count")):
            was, now = getattr(old, name), getattr(new, name)
            if was != now and now is not None and was is not None:
                differences.append(f"{text}{now}, was {text}{was}")
        if differences:
            yield Change(f"{_finding_text(new)}: {'; '.join(differences)}", worse)
    for key, old in olds.items():
        if key not in news:
            yield Change(f"gone: {_finding_text(old)}")


def _by_fingerprint(findings: Sequence[Finding]) -> dict[str, Finding]:
    """Return one finding for each fingerprint. If several findings have the same fingerprint, return the first one of
    the highest level."""
    return {one.fingerprint: one for one in most_severe(in_order(findings), lambda one: one.fingerprint)}


def _finding_text(finding: Finding) -> str:
    at = finding.location
    return f"{finding.code} {finding.level} at {at.path}:{at.line}: {finding.message}"


def _limits(before: Sequence[Limit], after: Sequence[Limit]) -> Iterator[Change]:
    olds, news = dict.fromkeys(before), dict.fromkeys(after)
    yield from (Change(f"new: {limit.what}: {limit.why}") for limit in news if limit not in olds)
    yield from (Change(f"gone: {limit.what}: {limit.why}") for limit in olds if limit not in news)


def change_lines(sections: Sequence[Section]) -> list[str]:
    """Return the lines to print. Control characters from the reports are replaced."""
    lines = [line for one in sections for line in (f"{one.title}:", *(f"  {change.text}" for change in one.changes))]
    return [*(without_commands(printable(line)) for line in lines), outcome_text(sections)]


def outcome_text(sections: Sequence[Section]) -> str:
    """Return in words how many changes are worse."""
    worse = sum(change.worse for section in sections for change in section.changes)
    if not sections:
        return "nothing changed"
    return f"{count(worse, 'thing')} got worse" if worse else "nothing got worse"
