"""Why something has to run eagerly, and what the children before have told of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.classify import code_of
from graphsafe.capture.lines.places import is_within
from graphsafe.capture.plan.regions import function_of, functions_in
from graphsafe.optable import OpTable
from graphsafe.report.model import CallSite

Result = Mapping[str, Any]

_BREAKING = ("GS1", "GS2", "GS3", "GS5", "GS6")
_HOST_STATE = ("host", "changes", "grows", "opaque")


@dataclass(frozen=True, slots=True)
class Cause:
    code: str
    reason: str
    frames: tuple[CallSite, ...]
    "The user's calls, outermost first, to the line that is to blame."
    derived: bool = False
    "It is there because of another one: it uses what a break gives."
    guarded: bool = False
    "Not every step comes to the line: what decides it runs eagerly with it."

    @property
    def line(self) -> CallSite:
        return self.frames[-1]


def known_causes(step: Result, reference: Result, capture: Result, diagnose: Result, ops: OpTable) -> list[Cause]:
    """What the step child saw, what the first step fills in for all later ones, and what broke the plain capture."""
    found = [*_events(step, ops), *_host_state(step), *_filled(step, reference), *_failure(capture, diagnose, ops)]
    return list(dict.fromkeys(found))


def _events(step: Result, ops: OpTable) -> Iterator[Cause]:
    for event in (step.get("step") or {}).get("events") or ():
        code = None if event["first_only"] else code_of(event, ops)
        if code is None or not code.startswith(_BREAKING) or not event["frames"]:
            continue
        yield Cause(code, f"{event['via'] or event['op']}", _sites(event["frames"]))


def _host_state(step: Result) -> Iterator[Cause]:
    for change in (step.get("state") or {}).get("changed") or ():
        if change["how"] in _HOST_STATE and change["frames"]:
            code = "GS402" if change["how"] == "grows" else "GS702"
            yield Cause(code, f"`{change['name']}` changes in every step", _sites(change["frames"]))


def _filled(step: Result, reference: Result) -> Iterator[Cause]:
    changed = (step.get("state") or {}).get("changed") or ()
    growing = [change["name"] for change in changed if change["how"] == "grows"]
    # The first element of a list that every step adds to is born in the first step, and fills nothing in.
    lazy = [path for path in reference.get("lazy") or () if not any(is_within(path, name) for name in growing)]
    for change in changed:
        name = change["name"]
        if change["how"] == "born" and change["frames"] and any(is_within(path, name) for path in lazy):
            yield Cause("GS701", f"`{name}` is filled in by the first step", _sites(change["frames"]), guarded=True)


def without_line(step: Result) -> list[str]:
    """Host state that changes in every step, by a line that is not known."""
    changed = (step.get("state") or {}).get("changed") or ()
    return [change["name"] for change in changed if change["how"] in ("host", "changes") and not change["frames"]]


def unexplained(paths: Sequence[str], lines: Mapping[str, tuple[CallSite, ...]]) -> str | None:
    """The first of these whose line is not known, nor that of anything else of the same object."""
    known = {_object_of(path) for path, frames in lines.items() if frames}
    return next((path for path in paths if not lines.get(path) and _object_of(path) not in known), None)


def _object_of(path: str) -> str:
    return path.partition("[")[0].rpartition(".")[0]


def host_causes(lines: Mapping[str, tuple[CallSite, ...]]) -> list[Cause]:
    return [Cause("GS702", f"`{path}` changes in every step", frames) for path, frames in lines.items() if frames]


def readers(step: Result, paths: Iterable[str]) -> list[Cause]:
    """Every line that ran and reads state of these names: what it decides may be another thing in some later step,
    though it was the same in all steps that were looked at."""
    names = {part for path in paths for part in re.findall(r"\w+", path)[-1:]}
    found: list[Cause] = []
    for path, lines in (step.get("lines") or {}).items():
        ran = set(lines)
        for function in functions_in(path):
            for node in ast.walk(function.node):
                if _reads(node, names) and getattr(node, "lineno", 0) in ran:
                    site = CallSite(path, node.lineno, function.name)  # type: ignore[attr-defined]
                    if function_of(site) is function:
                        found.append(Cause("GS702", "it reads what changes in every step", (site,), derived=True))
    return list(dict.fromkeys(found))


def _reads(node: ast.AST, names: Set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in names and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in names and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)


def changing(step: Result) -> list[str]:
    """Host state that every step changes, by whatever line."""
    changed = (step.get("state") or {}).get("changed") or ()
    return [change["name"] for change in changed if change["how"] in _HOST_STATE]


def rebindings(step: Result) -> dict[str, tuple[CallSite, ...]]:
    """State that every step binds to a new tensor -> the lines that do."""
    changed = (step.get("state") or {}).get("changed") or ()
    return {change["name"]: _sites(change["frames"]) for change in changed if change["how"] == "rebound"}


def _failure(capture: Result, diagnose: Result, ops: OpTable) -> Iterator[Cause]:
    error = (capture.get("capture") or {}).get("first_error") or {}
    diagnosis = diagnose.get("diagnosis") or {}
    event = diagnosis.get("event") or error.get("event")
    if event and event["frames"]:
        code = {"unjoined-stream": "GS603", "foreign-stream": "GS604"}.get(diagnosis.get("cause", ""))
        reason = error.get("message") or event["op"]
        yield Cause(code or code_of(event, ops) or "GS607", reason, _sites(event["frames"]))
    elif error.get("frames"):
        yield Cause("GS607", error["message"], _sites(error["frames"]))
    for escaped in capture.get("escaped") or ():
        if escaped["frames"]:
            yield Cause("GS604", f"{escaped['op']} runs beside the capture", _sites(escaped["frames"]))


def _sites(frames: Sequence[Mapping[str, Any]]) -> tuple[CallSite, ...]:
    return tuple(CallSite(frame["path"], frame["line"], frame["function"]) for frame in frames)
