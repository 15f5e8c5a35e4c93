"""Finds host state that depends on the inputs, and the user's lines that change host state. To find these lines, the
state is compared after every line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from graphsafe.capture.child.session import REPLAYS, Session
from graphsafe.capture.child.state import held_at, reachable_state
from graphsafe.capture.plan.child.values import flat
from graphsafe.capture.shared.frames import is_user_file, user_frames
from graphsafe.capture.shared.places import is_within
from graphsafe.capture.shared.replaced import tracing
from graphsafe.report.model import CallSite


def following(session: Session) -> list[str]:
    """Run steps on new inputs. Return the paths of host state that differs afterwards. Paths in the arguments are left
    out."""
    seen = []
    for k in range(1, REPLAYS + 1):
        session.put_inputs(k)
        session.step()
        seen.append(reachable_state(session.subject).hosts)
    moving = [path for path, text in seen[0].items() if any(one.get(path) != text for one in seen[1:])]
    return [path for path in moving if not is_within(path, "args") and not is_within(path, "kwargs")]


def lines_that_change(session: Session, paths: Sequence[str]) -> Mapping[str, list[tuple[CallSite, ...]]]:
    """Run one step. Return, for each path, the user's frames that were running when its value changed."""
    reach = reachable_state(session.subject)
    held = {path: reach.owners[path] for path in paths if path in reach.owners}
    watch = _Lines(held)
    with tracing(watch.call):
        session.step()
    return watch.found


class _Lines:
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
