"""What an eager step does that a graph cannot: every wait, copy, data-dependent extent and allocation, by line, in one
run, without stopping the step; and what becomes of the state that it can reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.lines.executed import Executed, lines_traced
from graphsafe.capture.lines.host_calls import HostCall, host_calls_watched
from graphsafe.capture.memory_use import memory_held
from graphsafe.capture.own_graphs.marks import eager_marks
from graphsafe.capture.probes.state import changes
from graphsafe.capture.session import FIRST_SEED, Session, opened
from graphsafe.capture.state import Reach, reach_of
from graphsafe.capture.targets import TargetError, users_code

if TYPE_CHECKING:
    from graphsafe.capture.device.protocol import StepEvent
    from graphsafe.capture.job import Channel, Job

_SYNCS = frozenset({"read", "wait", "query", "extent", "hidden-sync"})
_COPIES = frozenset({"copy-to-host", "copy-to-device"})


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        session.load_sets()
        ran = Executed()
        census = [_reached(session)]
        channel.phase("step 1, watched")
        session.seed(FIRST_SEED)
        first = _watched(session, ran)
        census.append(_reached(session))
        calls: list[HostCall] = []
        for k in (1, 2):
            channel.phase(f"step {k + 1}")
            session.seed(FIRST_SEED + k)
            with lines_traced(ran), host_calls_watched(calls.append):
                session.step()
            census.append(_reached(session))
        session.warm_up(done=3)
        changed = changes(census, ran)
        del census
        channel.phase("a warm step, watched")
        session.put_inputs(1)
        session.ranks.issued.never_waited()
        warm = _watched(session, Executed())
        never_waited = session.ranks.issued.never_waited()
        events = _aggregated(warm, first)
        counts = {
            "syncs": _count(warm, _SYNCS),
            "copies": _count(warm, _COPIES),
            "allocations": _count(warm, {"allocation"}),
        }
        channel.tell(
            step={
                "status": "fail" if counts["syncs"] or counts["copies"] else "pass",
                "ran": True,
                **counts,
                "events": events,
                "unknown_operations": list(session.device.unknown_operations()),
            },
            state={"status": "fail" if changed else "pass", "changed": changed},
            lines={file: sorted(lines) for file, lines in ran.lines.items()},
            host_calls=[asdict(call) for call in dict.fromkeys(calls)],
            marks=_marks(ran),
            never_waited=never_waited,
        )
        channel.phase("a warm step, its memory watched")
        channel.tell(held=_held(session))


def _held(session: Session) -> dict[str, Any]:
    """What a step takes of the device's memory, by line. Where there is no graph's pool to look into, what a step along
    the path of captures takes stands for it."""
    reported: dict[str, Any] = {}
    for name in ("step", "pool") if session.device.evidence == "predicted" else ("step",):
        session.capture_path = name == "pool"
        try:
            session.put_inputs(1)
            with session.device.watch_memory() as events:
                outputs = session.path_step()
                if name == "step":
                    del outputs  # a graph's pool holds them as long as it lives
        except TargetError as error:
            return {**reported, "failed": error.line}
        reported[name] = memory_held(events)
    return reported


def _marks(ran: Executed) -> list[dict[str, Any]]:
    """Functions that ran and that the target marks to run eagerly between graphs."""
    inside = [(mark, set(range(mark.line + 1, mark.last + 1))) for mark in eager_marks()]
    return [asdict(mark) for mark, lines in inside if lines & ran.lines.get(mark.path, set())]


def _reached(session: Session) -> Reach:
    """What the step reaches now. Views stay with the memory that tensors have now, also where a tensor is given other
    memory later (`.data =`)."""
    reach = reach_of(session.subject)
    with outside_modes():
        reach.tensors = {path: tensor.detach() for path, tensor in reach.tensors.items()}
    return reach


def _watched(session: Session, ran: Executed) -> list[StepEvent]:
    events: list[StepEvent] = []
    with users_code("step", "the step failed"), session.device.watch(events.append), lines_traced(ran):
        session.subject()
    with users_code("step", "the step failed"):
        session.device.synchronize()
    return events


def _count(events: Iterable[StepEvent], kinds: Iterable[str]) -> int:
    return sum(event.kind in kinds for event in events)


def _aggregated(warm: list[StepEvent], first: list[StepEvent]) -> list[dict[str, Any]]:
    """One entry a kind, operation and place, with how often; what only step 1 did is marked so."""
    found: dict[Any, dict[str, Any]] = {}
    for events, only_first in ((warm, False), (first, True)):
        for event in events:
            key = (event.kind, event.op, event.via, event.frames[-1:], event.span)
            if key not in found:
                found[key] = {
                    **asdict(replace(event, nbytes=None)),
                    "count": 0,
                    "nbytes": None,
                    "first_only": only_first,
                }
            entry = found[key]
            if entry["first_only"] == only_first:
                entry["count"] += 1
                if event.nbytes is not None:
                    entry["nbytes"] = (entry["nbytes"] or 0) + event.nbytes
    return list(found.values())
