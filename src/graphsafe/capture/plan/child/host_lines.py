"""Finds the lines that have to run eagerly because they change host state, or depend on it. To find a line that changes
host state, the state is compared after every line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from types import FrameType
from typing import Any

from graphsafe.capture.answers.probes import Ran
from graphsafe.capture.child.session import REPLAYS, Session
from graphsafe.capture.child.state import Snapshot, held_at, reachable_state
from graphsafe.capture.plan.child.causes import HOST_STATE, Cause, changed_state
from graphsafe.capture.plan.child.search import Unplannable
from graphsafe.capture.plan.child.values import flat
from graphsafe.capture.plan.shared.regions import function_of, functions_in
from graphsafe.capture.shared.answers import Answers
from graphsafe.capture.shared.classify import span_of
from graphsafe.capture.shared.frames import is_user_file, user_frames
from graphsafe.capture.shared.places import is_within
from graphsafe.capture.shared.replaced import tracing
from graphsafe.report.model import CallSite

Lines = Mapping[str, Sequence[tuple[CallSite, ...]]]
"Path of host state -> the user's frames of each line that changes it."


def host_causes(session: Session, answers: Answers) -> tuple[list[Cause], Snapshot]:
    """Run some steps. Return the lines that change host state (without those that the step child found) and the lines
    that read changing host state. Also return the state from which the search for breaks starts. Raises Unplannable and
    TargetError."""
    causes: list[Cause] = []
    changed = [change for change in changed_state(answers) if change.how in HOST_STATE]
    unknown = [change.name for change in changed if change.how in ("host", "changes") and not change.frames]
    if unknown:
        lines = _lines_that_change(session, unknown)
        lost = _unexplained(unknown, lines)
        if lost is not None:
            raise Unplannable(f"`{lost}` changes in every step, and the line that changes it is not known")
        causes += _causes_of(lines)
    begin = Snapshot(session.device, session.subject)
    known = [change.name for change in changed]
    following = [path for path in _following(session) if path not in known]
    causes += _causes_of(_lines_that_change(session, following)) if following else []
    begin.put_back()
    return causes + _readers(answers, [*known, *following]), begin


def _causes_of(lines: Lines) -> list[Cause]:
    places = [(path, frames) for path, found in lines.items() for frames in found if frames]
    return [Cause("GS702", f"`{path}` changes from step to step", frames) for path, frames in dict.fromkeys(places)]


def _unexplained(paths: Sequence[str], lines: Lines) -> str | None:
    """Return the first path without a known line. A known line for another path of the same object is enough."""
    known = {_object_of(path) for path, found in lines.items() if any(found)}
    return next((path for path in paths if not any(lines.get(path, ())) and _object_of(path) not in known), None)


def _object_of(path: str) -> str:
    return path.partition("[")[0].rpartition(".")[0]


def _readers(answers: Answers, paths: Iterable[str]) -> list[Cause]:
    """Return a cause for each line that ran and uses state at one of these paths. Such a line may make another decision
    in a later step."""
    words = ([word for word in re.findall(r"\w+", path) if not word.isdigit()] for path in paths)
    names = {part for found in words for part in found[-1:]}
    found: list[Cause] = []
    for path, lines in answers[Ran].lines.items():
        ran = set(lines)
        for function in functions_in(path):
            for node in ast.walk(function.node):
                if isinstance(node, ast.expr) and _uses(node, names) and node.lineno in ran:
                    site = CallSite(path, node.lineno, function.name)
                    if function_of(site) is function:
                        reason = "it uses state that changes from step to step"
                        found.append(Cause("GS702", reason, (site,), derived=True, span=span_of(node)))
    return list(dict.fromkeys(found))


def _uses(node: ast.AST, names: Set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in names
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in names
    return isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)


def _following(session: Session) -> list[str]:
    """Run steps on new inputs. Return the paths of host state that differs afterwards. Paths in the arguments are left
    out."""
    seen = []
    for k in range(1, REPLAYS + 1):
        session.put_inputs(k)
        session.step()
        seen.append(reachable_state(session.subject).hosts)
    moving = [path for path, text in seen[0].items() if any(one.get(path) != text for one in seen[1:])]
    return [path for path in moving if not is_within(path, "args") and not is_within(path, "kwargs")]


def _lines_that_change(session: Session, paths: Sequence[str]) -> Lines:
    """Run one step. Return, for each path, the user's frames that were running when its value changed."""
    reach = reachable_state(session.subject)
    held = {path: reach.owners[path] for path in paths if path in reach.owners}
    watch = _Watch(held)
    with tracing(watch.call):
        session.step()
    return watch.found


class _Watch:
    def __init__(self, held: Mapping[str, tuple[Any, Any]]) -> None:
        self._held = held
        self._values = {path: _value(*place) for path, place in held.items()}
        self._running: tuple[CallSite, ...] = ()
        self.found: dict[str, list[tuple[CallSite, ...]]] = {}

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.line if is_user_file(frame.f_code.co_filename) else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        for path, place in self._held.items():
            value = _value(*place)
            if value != self._values[path]:
                self._values[path] = value
                self.found.setdefault(path, []).append(self._running)
        # After a return, further changes belong to the line that called the function.
        self._running, _ = user_frames(frame.f_back if event == "return" else frame)
        return self.line


def _value(container: Any, key: Any) -> Any:
    return flat(held_at(container, key)).hosts
