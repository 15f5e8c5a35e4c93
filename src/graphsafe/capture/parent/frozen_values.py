"""Findings for values that Python froze at capture. Captures that differ prove this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

from graphsafe.capture.answers.probes import HostCall
from graphsafe.capture.parent.changed_state import how_of_number, known
from graphsafe.capture.parent.finding_table import place_of, what_was_frozen
from graphsafe.capture.shared.places import is_within
from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite
from graphsafe.report.probes.state import Change
from graphsafe.report.probes.twin import Cause, Twin

FrozenFinding = tuple[str, Sequence[CallSite], dict[str, Any]]
"The rule's code, the frames, and the other arguments of a finding."
_CODE_OF_KIND = {"tensor": "GS703", "input": "GS707"}
"The kind of a `Cause` -> the code of its rule."


class FrozenValues:
    """The findings from captures that differ. `entry` is the place of findings whose line is not known."""

    def __init__(
        self, twin: Twin, changed: Sequence[Change], host_calls: Sequence[HostCall], entry: Sequence[CallSite]
    ) -> None:
        assert twin.differences
        self._twin = twin
        self._first = twin.differences[0]
        self._changes = {change.name: change for change in changed}
        # A tensor that grows also gets other memory, as in GS703. But the repair of GS703, a write in place, is not
        # possible for such a tensor.
        self._growing = {change.name for change in changed if change.how == "grows"}
        self._calls = host_calls
        self._entry = entry
        first = self._first
        self._froze = {"what": first.what, "op": first.op, "before": first.before, "after": first.after}
        self._froze |= place_of(first.frames)
        self._here = what_was_frozen(first)

    def findings(self, found: Set[str]) -> Iterator[FrozenFinding]:
        """Yield a finding for each cause. Without known causes, yield a finding for each likely reason, or else a
        finding at the operation. `found` has the codes of earlier errors, which may explain the operation: draws on the
        host, or work outside the graph. The results of work outside the graph are at another address in each
        capture."""
        if self._twin.changes:
            yield from map(self._of_cause, self._twin.changes)
            return
        likely = [*self._of_calls(), *self._of_growth()]
        yield from likely
        explains = "GS504" if self._wanted == "random" else "GS604" if self._first.what == "address" else ""
        if not likely and explains not in found:
            yield self._of_operation()

    @property
    def _wanted(self) -> str:
        return "random" if self._twin.elsewhere == "host-random" else "clock"

    def _of_cause(self, cause: Cause) -> FrozenFinding:
        path, changes = cause.path, self._changes
        change = changes.get(path) or next((changes[name] for name in changes if is_within(path, name)), None)
        frames = cause.frames or (change and change.frames) or self._first.frames or self._entry
        data = {"attribute": path, **known(before=cause.before, after=cause.after), "froze": self._froze}
        words: dict[str, Any] = {"value": f"`{path}`", "expr": path, "level": "error", "data": data, "here": self._here}
        code = "GS402" if path in self._growing else _code_of(cause)
        if cause.kind == "tensor" and cause.after is not None:
            words["how"] = "swapped"
        elif code == "GS702":
            words["how"] = how_of_number(path, frames)
        return code, frames, words

    def _of_calls(self) -> Iterator[FrozenFinding]:
        """Yield findings for the calls whose value differs each time. If the cause is a clock and no call is known,
        yield findings for changes of state that cannot be read."""
        calls = [call for call in self._calls if call.kind == self._wanted]
        code = "GS504" if self._wanted == "random" else "GS702"
        for call in calls:
            data = {"call": call.function, "froze": self._froze}
            yield code, call.frames, {"span": call.span, "level": "error", "data": data, "here": self._here}
        hidden = [change for change in self._changes.values() if change.how == "opaque" and change.frames]
        for change in hidden if not calls and self._wanted == "clock" else ():
            data = {"attribute": change.name, "froze": self._froze}
            yield "GS702", change.frames, {"level": "error", "data": data, "here": self._here}

    def _of_growth(self) -> Iterator[FrozenFinding]:
        """Yield findings for lines that keep a tensor of each step alive. The next step's tensor then has another
        address. If the line of the differing operation is not known, each line that makes a tensor grow may be its
        cause."""
        for change in self._changes.values():
            if change.how == "grows" and (not self._first.frames or _is_line(change.frames, self._first.frames)):
                data = {"attribute": change.name, **known(before=change.before, after=change.after)}
                words = {"value": f"`{change.name}`", "level": "error", "data": {**data, "froze": self._froze}}
                yield "GS402", change.frames, words

    def _of_operation(self) -> FrozenFinding:
        first = self._first
        code = "GS504" if self._wanted == "random" else "GS702"
        words: dict[str, Any] = {"data": {"froze": self._froze}, "here": self._here}
        if first.frames:
            return code, first.frames, {**words, "span": first.span, "how": "departed"}
        return code, self._entry, {**words, "expr": f"a value handed to {readable(first.op)}"}


def _is_line(one: Sequence[CallSite], other: Sequence[CallSite]) -> bool:
    """Return whether both places are the same line of the user's code."""
    return bool(one and other) and (one[-1].path, one[-1].line) == (other[-1].path, other[-1].line)


def _code_of(cause: Cause) -> str:
    if cause.kind in _CODE_OF_KIND:
        return _CODE_OF_KIND[cause.kind]
    grows = cause.kind == "length" and int(cause.after or 0) > int(cause.before or 0)
    return "GS402" if grows else "GS702"
