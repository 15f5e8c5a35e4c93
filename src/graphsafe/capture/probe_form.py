"""The probes as a report has them: places instead of frames, and no path of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphsafe.capture.lines.places import shown

Probe = dict[str, Any]


def reported(probes: Mapping[str, Mapping[str, Any]]) -> dict[str, Probe]:
    """The probes as a report has them: places instead of frames, and no path of this machine."""
    reported = {name: dict(probe) for name, probe in probes.items()}
    step = reported.get("step", {})
    events = step.pop("events", None)
    if events is not None:
        by_line: dict[str, dict[str, int]] = {}
        for event in events:
            if event["frames"] and not event["first_only"]:
                kinds = by_line.setdefault(_place(event["frames"][-1]), {})
                kinds[event["kind"]] = kinds.get(event["kind"], 0) + event["count"]
        step["by_line"] = [{"place": place, "kinds": kinds} for place, kinds in sorted(by_line.items())]
    if step.get("compiled"):
        step["compiled"] = {**step["compiled"], "left": [_left(left) for left in step["compiled"]["left"]]}
    construct = reported.get("construct", {})
    construct["captures"] = [_attempt(attempt) for attempt in construct.get("captures") or ()]
    state = reported.get("state", {})
    if "changed" in state:
        state["changed"] = [_change(change) for change in state["changed"]]
    for name in ("capture", "twin"):
        if reported.get(name, {}).get("first_error"):
            reported[name]["first_error"] = _error(reported[name]["first_error"])
    twin = reported.get("twin", {})
    if "differences" in twin:
        twin["differences"] = [_frozen(difference) for difference in twin["differences"]]
        twin["causes"] = [cause["path"] for cause in twin.get("causes") or ()]
    memory = reported.get("memory", {})
    for name in ("step", "pool"):
        if memory.get(name):
            memory[name] = held_by_place(memory[name])
    growth = memory.get("growth")
    if growth:
        memory["growth"] = {**growth, "keeping": [_keeping(line) for line in growth["keeping"]]}
    return reported


def _keeping(line: Mapping[str, Any]) -> dict[str, Any]:
    return {"place": _place(line["frame"]) if line["frame"] else None, "bytes": line["bytes"]}


def held_by_place(held: Mapping[str, Any]) -> dict[str, Any]:
    """What lines hold of memory, by their places."""
    return {**held, "lines": [_held(line) for line in held["lines"]]}


def _held(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "place": _place(line["frame"]) if line["frame"] else None,
        **{key: line[key] for key in ("bytes", "allocated", "count", "kept")},
    }


def _left(left: Mapping[str, Any]) -> dict[str, Any]:
    place = _place(left["frames"][-1]) if left["frames"] else None
    return {"part": left["part"], "reason": left["reason"], "place": place}


def _frozen(difference: Mapping[str, Any]) -> dict[str, Any]:
    frames = difference["frames"]
    return {
        **{key: difference[key] for key in ("node", "what", "op", "before", "after")},
        "place": _place(frames[-1]) if frames else None,
    }


def _attempt(attempt: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "device": attempt["device"],
        "place": _place(attempt["frames"][-1]) if attempt["frames"] else None,
        "nodes": attempt["nodes"],
        "first_error": _error(attempt["failure"]) if attempt["failure"] else None,
    }


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    frames = change["frames"]
    return {
        **{key: change[key] for key in ("name", "how", "before", "after")},
        "place": _place(frames[-1]) if frames else None,
    }


def _error(error: Mapping[str, Any]) -> dict[str, Any]:
    frames = error.get("frames")
    return {
        "type": error.get("error_type"),
        "message": error["message"],
        "chain": list(error.get("chain") or ()),
        "place": _place(frames[-1]) if frames else None,
    }


def _place(frame: Mapping[str, Any]) -> str:
    return f"{shown(frame['path'])}:{frame['line']}"
