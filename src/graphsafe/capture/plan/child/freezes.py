"""Compares the logs of several steps. Finds the values that captured segments would freeze, and the code that has to
become part of breaks.

The functions are pure functions of logs. Each result is a `Need`. A kind of need is searched for only if no need of an
earlier kind was found, because each break that grows changes the needs of later kinds.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from graphsafe.capture.child.lines.operations import unlike
from graphsafe.capture.plan.child.call import BreakValues
from graphsafe.capture.plan.child.watch import Argument, Flow, Log, Op, Visit
from graphsafe.capture.shared.places import is_within
from graphsafe.report.model import CallSite

NeedKind = Literal["statement", "block", "defined", "used", "around", "caller", "private", "slot"]


@dataclass(frozen=True, slots=True)
class Need:
    """A change of a plan's breaks, without which the plan would be wrong.

    - `statement`: the statement to which `frames` lead has to run eagerly
    - `block`: the statement around that statement has to run eagerly
    - `defined`: the region with the number `region` is extended to the statement that defines `name`
    - `used`: the region is extended to the statement that reads `name`
    - `around`: the region is extended to the statement around it
    - `caller`: the region is extended to the call of its function
    - `private`: the region passes on `name` in a separate buffer
    - `slot`: the region passes on the state with the path `name`
    """

    kind: NeedKind
    code: str
    reason: str
    frames: tuple[CallSite, ...]
    region: int | None = None
    name: str | None = None


def needs(
    logs: Sequence[Log], handed: Sequence[BreakValues], assigned: Mapping[str, tuple[CallSite, ...]]
) -> list[Need]:
    """Return the changes that the breaks need. `assigned` maps rebound state to the lines that rebind it."""
    base, *others = logs
    for find in (_visits, _flows, _changed_containers):
        found = [need for other in others for need in find(base, other, handed)]
        if found:
            return list(dict.fromkeys(found))
    found = [need for other in others for need in _operations(base, other, assigned)]
    found += [need for log in logs for need in (*_unhanded(log, handed), *_beside(log), *_kept(log, handed))]
    return list(dict.fromkeys(found))


def _visits(base: Log, other: Log, handed: Sequence[BreakValues]) -> Iterator[Need]:
    """Yield the needs of breaks that some steps do not reach, or reach through other calls. The line with the deciding
    branch has to run eagerly."""
    one, two = ([(visit.number, visit.frames) for visit in log.visits] for log in (base, other))
    for own, theirs in _apart(one, two):
        for number, frames in (*one[own], *two[theirs]):
            yield Need("around", "GS102", "some steps take another path", frames, number)


def _flows(base: Log, other: Log, handed: Sequence[BreakValues]) -> Iterator[Need]:
    """Yield the needs of variables that differ. Results come first: the inputs of the next break follow from them."""
    given = list(_left(base, other, handed))
    yield from given
    for one, two in () if given else zip(base.visits, other.visits, strict=True):
        for name, flow in one.entered.items():
            if name not in two.entered or flow.persistent or (name in one.taken and name in two.taken):
                continue
            if _differs(flow, two.entered[name]):
                yield Need("defined", "GS702", f"`{name}` changes", one.frames, one.number, name)


def _left(base: Log, other: Log, handed: Sequence[BreakValues]) -> Iterator[Need]:
    for one, two in zip(base.visits, other.visits, strict=True):
        for name, flow in one.left.items():
            later = two.left.get(name)
            if name == "return" and handed[one.number].returns:
                if not (one.received and two.received):
                    yield Need("caller", "GS702", "captured code uses its result", one.frames, one.number, name)
                continue
            if later is None or flow.persistent:
                continue
            kind: NeedKind = "caller" if name == "return" else "used"
            pairs = list(zip(flow.arguments, later.arguments, strict=False))
            if flow.hosts != later.hosts or any(left.size != right.size for left, right in pairs):
                yield Need(kind, "GS702", f"`{name}` changes", one.frames, one.number, name)
            elif any(_moved(left, right) or left.strides != right.strides for left, right in pairs):
                if name != "return" and name not in handed[one.number].private:
                    kind = "private"
                yield Need(kind, "GS703", f"`{name}` is other memory", one.frames, one.number, name)


def _differs(one: Flow, two: Flow) -> bool:
    if one.hosts != two.hosts or len(one.arguments) != len(two.arguments):
        return True
    return any(
        _changes(left, right) or left.values != right.values
        for left, right in zip(one.arguments, two.arguments, strict=True)
    )


def _moved(one: Argument, two: Argument) -> bool:
    """Return whether two tensors are in different memory, and at least one of them is older than its step."""
    if one.memory is None or two.memory is None:
        return False
    if one.memory.born is not None and two.memory.born is not None:
        return False
    return one.memory.address != two.memory.address or one.offset != two.offset


def _same_memory(one: Argument, two: Argument) -> bool:
    """Return whether two tensors may be in the same memory, or are both in memory that their own step allocated."""
    if one.memory is None or two.memory is None:
        return True
    return one.memory.address == two.memory.address


def _changes(one: Argument, two: Argument) -> bool:
    return one.layout != two.layout or one.offset != two.offset or _moved(one, two)


def _changed_containers(base: Log, other: Log, handed: Sequence[BreakValues]) -> Iterator[Need]:
    """Yield a need for each list or iterator of captured code that a break changes: all replays would share the one
    object of the capture."""
    for visit in base.visits:
        for name in set(visit.changed) - visit.taken:
            yield Need("defined", "GS702", f"`{name}` is changed", visit.frames, visit.number, name)


def _operations(base: Log, other: Log, assigned: Mapping[str, tuple[CallSite, ...]]) -> Iterator[Need]:
    """Yield the needs of those operations between breaks that differ in another step, or that have other arguments
    there."""
    one, two = ([op for op in log.ops if op.visit is None and op.on_device] for log in (base, other))
    keys = [[(op.name, op.frames) for op in ops] for ops in (one, two)]
    if keys[0] != keys[1]:
        ways = [{op.frames[:depth] for op in log.ops for depth in range(len(op.frames))} for log in (base, other)]
        for own, theirs in _apart(*keys):
            for op, there in (*((op, ways[1]) for op in one[own]), *((op, ways[0]) for op in two[theirs])):
                yield Need("block", "GS102", "some steps take another path", _first_apart(op.frames, there))
        return
    # Views of another part of memory come first. Once a break passes such a view to the next segment, the operations
    # that read it no longer differ.
    views = [
        before for before, after in zip(one, two, strict=True) if not before.launches and _other_view(before, after)
    ]
    for view in views:
        yield Need("statement", "GS702", "a Python value changes", view.frames)
    for before, after in () if views else zip(one, two, strict=True):
        if not before.launches:
            continue
        if before.scalars != after.scalars or len(before.arguments) != len(after.arguments):
            yield Need("statement", "GS702", "a Python value changes", before.frames)
            continue
        for left, right in zip(before.arguments, after.arguments, strict=True):
            if left.layout != right.layout:
                yield Need("statement", "GS201", "a size changes", before.frames)
            elif left.values != right.values or (left.offset != right.offset and _same_memory(left, right)):
                yield Need("statement", "GS702", "a Python value changes", before.frames)
            elif _moved(left, right):
                yield from _rebound(base, before, left, right, assigned)


def _first_apart(frames: tuple[CallSite, ...], there: Set[tuple[CallSite, ...]]) -> tuple[CallSite, ...]:
    """Return the frames up to and including the first call that the other step does not make. If there is no such call,
    return all frames."""
    return next((frames[:depth] for depth in range(1, len(frames)) if frames[:depth] not in there), frames)


def _other_view(one: Op, two: Op) -> bool:
    return one.scalars != two.scalars and [a.layout for a in one.arguments] == [a.layout for a in two.arguments]


def _rebound(
    log: Log, op: Op, left: Argument, right: Argument, assigned: Mapping[str, tuple[CallSite, ...]]
) -> Iterator[Need]:
    """Yield the needs of lines that rebind state to new memory: such lines have to run eagerly, and their results are
    copied into a fixed buffer."""
    path = next((one.memory.path for one in (left, right) if one.memory and one.memory.path), None)
    if path is None:
        yield Need("statement", "GS703", "it reads other memory in each step", op.frames)
        return
    reason = f"`{path}` is rebound to other memory"
    holder = next((key for key, held in log.paths.items() if held == path), None)
    born = None if holder is None or holder not in log.made_by else log.ops[log.made_by[holder]]
    frames = next((frames for name, frames in assigned.items() if is_within(path, name)), ())
    if born is not None and born.visit is not None:
        writer: Visit | None = log.visits[born.visit]
    else:
        writer = next((visit for visit in log.visits if frames and visit.frames[: len(frames)] == frames), None)
    if writer is not None:
        yield Need("slot", "GS703", reason, op.frames, writer.number, path)
        return
    places = [*([] if born is None else [born.frames]), *([frames] if frames else [])]
    for place in places or [op.frames]:
        yield Need("statement", "GS703", reason, place)


def _unhanded(log: Log, handed: Sequence[BreakValues]) -> Iterator[Need]:
    """Yield the needs of tensors that a break makes and a later operation reads, but that the break does not pass
    on."""
    given = {key for visit in log.visits for key in visit.handed}
    for op in log.ops:
        if op.visit is not None or not op.on_device:
            continue
        for key in op.reads:
            born = log.made_by.get(key)
            visit = None if born is None else log.ops[born].visit
            if visit is None or key in given:
                continue
            number, path = log.visits[visit].number, log.paths.get(key)
            if path is not None and path not in handed[number].slots:
                yield Need("slot", "GS703", f"`{path}` is rebound to other memory", op.frames, number, path)
            else:
                yield Need("statement", "GS703", "it reads the result of a break", op.frames)
    private = {key for visit in log.visits for key in visit.private}
    for op in log.ops:
        if op.visit is None and private.intersection(op.writes):
            yield Need("statement", "GS703", "it writes through a view that a break made", op.frames)


def _beside(log: Log) -> Iterator[Need]:
    """Yield the needs of work that a capture would miss: work on other GPUs, random numbers of the host, and writes on
    the host."""
    for op in log.ops:
        if op.visit is None and op.elsewhere:
            yield Need("statement", "GS604", "it runs on another device", op.frames)
        elif op.visit is None and not op.on_device and (op.random or any(key not in log.made_by for key in op.writes)):
            code = "GS504" if op.random else "GS702"
            yield Need("statement", code, "it runs on the host", op.frames)


def _kept(log: Log, handed: Sequence[BreakValues]) -> Iterator[Need]:
    """Yield a need for each operation whose gradient a backward pass in a break computes.

    The backward pass frees the autograd graph, and only an eager forward pass makes a new one in each step. The results
    of such an operation are passed from break to break, because a copy would have no autograd graph.
    """
    left: list[tuple[int, int | None]] = []
    left += [(key, op.visit) for op in log.ops if op.backward and op.visit is not None for key in op.reads]
    seen = set(left)
    for key, user in left:
        born = log.made_by.get(key)
        if born is None or not log.ops[born].recorded:
            continue
        reason, maker = "a backward pass in a break uses it", log.ops[born].visit
        if maker is None:
            yield Need("statement", "GS607", reason, log.ops[born].frames)
        elif maker != user:
            visit = log.visits[maker]
            for name, flow in visit.left.items():
                if not any(one.memory is not None and one.memory.born == born for one in flow.arguments):
                    continue
                if name != "return":
                    yield Need("used", "GS607", reason, visit.frames, visit.number, name)
                elif not handed[visit.number].returns:
                    yield Need("caller", "GS607", reason, visit.frames, visit.number, name)
        more = [(one, maker) for one in log.ops[born].reads if (one, maker) not in seen]
        left += more
        seen.update(more)


def _apart(one: Sequence[object], two: Sequence[object]) -> Iterator[tuple[slice, slice]]:
    """Yield the parts in which two sequences differ. difflib compares only the part between their common beginning and
    their common end."""
    own, theirs = unlike(one, two)
    head, left, right = own.start, [hash(one[at]) for at in own], [hash(two[at]) for at in theirs]
    for tag, begin, end, start, stop in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "equal":
            yield slice(begin + head, end + head), slice(start + head, stop + head)
