"""Findings about values that Python froze at capture. There are three kinds of proof: steps change state, captures
differ, or a later step takes another path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from graphsafe.capture.answers.probes import HostCall, Ran
from graphsafe.capture.parent.finding_table import FindingTable, place_of, what_departed, what_was_frozen
from graphsafe.capture.shared.classify import is_expression
from graphsafe.capture.shared.places import is_within, path_of
from graphsafe.files import from_here
from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite, Level, Span
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.state import Change
from graphsafe.report.probes.twin import Cause

CODES = {"grows": "GS402", "rebound": "GS703", "host": "GS702", "cached": "GS705"}
"Kind of a change -> the code of its rule."
_RATE = re.compile(r"\bparam_groups\[\d+\]\['lr'\]$")
_CODE_OF_KIND = {"tensor": "GS703", "input": "GS707"}
"The kind of a `Cause` -> the code of its rule."
_RARE_DRAWS = "rare random numbers on the host"
_OF_HOST_MEMORY = ("other inputs on the host", "other values in host memory")
_MAY_DECIDE = ("host", "grows", "opaque")
"The kinds of changing host state on which Python's decisions may depend."
_DECIDES = ("GS101", "GS102", "GS201", "GS202", "GS203")
"Codes for those reads of the device that may affect Python's decisions, or the sizes of later operations."


def add_change(table: FindingTable, code: str, change: Change, level: Level, is_harmless: bool) -> None:
    """Add a finding about a piece of state that steps change. `is_harmless` is true if no replay reads the tensor that
    was replaced."""
    name, frames = change.name, change.frames
    expr = None
    if not frames:  # a library that the user's code calls may have changed it
        outer = re.split(r"[.\[]", name)[0]
        expr = f"no line of the user's code is known to change the state in `{outer}`"
    elif change.how in ("rebound", "host") and is_expression(frames[-1].path, frames[-1].line):
        expr = name  # the line is a call, whose text does not name the state
    how = "pooled" if change.how == "rebound" and is_harmless else None
    if change.how == "host" and isinstance(change.before, str):  # a number, not the length of a container
        how = _how_of_number(name, frames)
    table.add(code, frames, level=level, expr=expr, value=f"`{name}`", how=how, data=_data_of(name, change))


def _how_of_number(path: str, frames: Sequence[CallSite]) -> str | None:
    """Return the `how` of GS702 for a number that each step changes. If the line of the user's code is only a call,
    either a library changes the number, or the call takes the next number of an iterator."""
    if _RATE.search(path):
        return "rate"
    return "by-call" if frames and is_expression(frames[-1].path, frames[-1].line) else None


def _data_of(path: str, one: Change | Cause) -> dict[str, Any]:
    values = {"before": one.before, "after": one.after}
    return {"attribute": path, **{name: value for name, value in values.items() if value is not None}}


def add_frozen_values(table: FindingTable) -> None:
    """Add a finding for each cause of captures that differ. Without known causes, add a finding for each likely reason,
    or else a finding at the operation."""
    twin, changed = table.seen.probes.twin, table.seen.probes.state.changed or ()
    if twin.status != "fail" or not twin.differences:
        return
    first = twin.differences[0]
    froze = {"what": first.what, "op": first.op, "before": first.before, "after": first.after, **place_of(first.frames)}
    here = what_was_frozen(first)
    # Earlier errors may explain the operation: draws on the host, or work outside the graph. The results of work
    # outside the graph are at another address in each capture.
    errors = {one.code for one in table.found.values() if one.level == "error"}
    changes = {change.name: change for change in changed}
    # A tensor that grows also gets other memory, as in GS703. But the repair of GS703, a write in place, is not
    # possible for such a tensor.
    grows = [change for change in changes.values() if change.how == "grows"]
    for cause in twin.changes:
        path = cause.path
        change = changes.get(path) or next((changes[name] for name in changes if is_within(path, name)), None)
        frames = cause.frames or (change and change.frames) or first.frames or table.entry
        code = "GS402" if any(one.name == path for one in grows) else _code_of(cause)
        how = _how_of_number(path, frames) if code == "GS702" else None
        if cause.kind == "tensor" and cause.after is not None:
            how = "swapped"
        data = {**_data_of(path, cause), "froze": froze}
        table.add(code, frames, expr=path, value=f"`{path}`", level="error", data=data, here=here, how=how)
    if twin.changes:
        return
    wanted, code = ("random", "GS504") if twin.elsewhere == "host-random" else ("clock", "GS702")
    calls = [call for call in table.seen.answers[Ran].host_calls if call.kind == wanted]
    for call in calls:
        table.add(code, call.frames, call.span, level="error", data={"call": call.function, "froze": froze}, here=here)
    # If no call of a clock is known, the clock may be in state that cannot be read.
    hidden = [change for change in changes.values() if change.how == "opaque" and change.frames]
    hidden = hidden if wanted == "clock" and not calls else []
    for change in hidden:
        data = {"attribute": change.name, "froze": froze}
        table.add(code, change.frames, level="error", data=data, here=here)
    # A line may keep a tensor of each step alive. The next step's tensor then has another address. If the line of the
    # differing operation is not known, any line that makes a tensor grow may be the cause of the difference.
    grown = [change for change in grows if not first.frames or _is_line(change.frames, first.frames)]
    for change in grown:
        data = {**_data_of(change.name, change), "froze": froze}
        table.add("GS402", change.frames, value=f"`{change.name}`", level="error", data=data)
    explains = "GS504" if wanted == "random" else "GS604" if first.what == "address" else ""
    if calls or hidden or grown or explains in errors:
        return
    if first.frames:
        table.add(code, first.frames, first.span, data={"froze": froze}, here=here, how="departed")
    else:
        expr = f"a value handed to {readable(first.op)}"
        table.add(code, table.entry, expr=expr, data={"froze": froze}, here=here)


def _is_line(one: Sequence[CallSite], other: Sequence[CallSite]) -> bool:
    """Return whether both places are the same line of the user's code."""
    return bool(one and other) and (one[-1].path, one[-1].line) == (other[-1].path, other[-1].line)


def _code_of(cause: Cause) -> str:
    if cause.kind in _CODE_OF_KIND:
        return _CODE_OF_KIND[cause.kind]
    grows = cause.kind == "length" and int(cause.after or 0) > int(cause.before or 0)
    return "GS402" if grows else "GS702"


def add_departure(table: FindingTable, departure: Departure) -> None:
    """Add a finding for a later step in which Python decides differently than at capture, unless other findings already
    name the cause. The finding is at the cause if there is a single possible cause, else at the operation."""
    host_calls, changed = table.seen.answers[Ran].host_calls, table.seen.probes.state.changed or ()
    code, cause, span, expr, data = _blamed(departure, host_calls, changed)
    frames = cause or departure.frames or table.entry
    if code == "GS402":
        is_known = (code, from_here(frames[-1].path), frames[-1].line) in table.found
    else:  # a decision that depends on a value of the device
        is_open = departure.under == "further steps" and not (cause or data.get("among") or data.get("attribute"))
        is_known = is_open and any(one.code in _DECIDES and one.level == "error" for one in table.found.values())
    if is_known:
        return
    data = {"departure": {key: getattr(departure, key) for key in ("step", "under", "what", "before", "after")}, **data}
    how = None if cause or expr else "departed"
    table.add(code, frames, span, expr=expr, level="error", data=data, here=what_departed(departure), how=how)


def _blamed(
    departure: Departure, host_calls: Sequence[HostCall], changed: Sequence[Change]
) -> tuple[str, Sequence[CallSite], Span | None, str | None, Mapping[str, Any]]:
    """Choose the cause among the host calls and the changes of state that the step probe saw. Return the finding's
    code, frames, span, expression and data. The frames are empty unless there is a single possible cause."""
    if departure.under in _OF_HOST_MEMORY:
        return "GS702", (), departure.span, None, {}
    by_clock, by_draw = departure.under == "clocks a day later", departure.under == _RARE_DRAWS
    calls = [call for call in host_calls if call.kind == ("clock" if by_clock else "random")]
    changes = [one for one in changed if one.how in _MAY_DECIDE and one.frames and not by_draw]
    if len(calls) == 1 and (by_clock or not changes):
        call = calls[0]
        return "GS702" if by_clock else "GS504", call.frames, call.span, None, {"call": call.function}
    if len(changes) == 1 and not calls:
        change = changes[0]
        code = "GS402" if change.how == "grows" else "GS702"
        return code, change.frames, None, change.name, {"attribute": change.name}
    path = rebound_by(departure)
    if path is not None and not calls and not changes:
        return "GS703", (), departure.span, path, {"attribute": path}
    among = [*(call.function for call in calls), *(change.name for change in changes)]
    return "GS702", (), departure.span, None, {"among": among}


def rebound_by(departure: Departure) -> str | None:
    """Return the path of a tensor that was replaced. A later step then reads another tensor. Return None for a view at
    another offset of the same tensor, because then only a Python number has changed."""
    if departure.what != "memory":
        return None
    before, after = path_of(departure.before), path_of(departure.after)
    return before if before != after else None
