"""Finds results that a program keeps as the previous result: `slope = eps - self.previous; self.previous = eps`.

The kept name refers to a graph's output (or to a view of it) when the graph is replayed again, and the replay
overwrites the output. If the same function then reads the name before it stores the new result there, it finds the new
result in place of the old one. This is no fault if nothing reads the name in between.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from graphsafe.capture.shared.frames import call_site
from graphsafe.run.child.names import Name, methods_of, names_in
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.results.overwritten import reads_in
from graphsafe.run.child.source import base_of, beside, innermost, lines_of, loop_around, parameters, tree_of_code
from graphsafe.run.facts import Calls, Overwritten

_ENOUGH = 2
"A read is reported if its name holds the output at this many replays."
_MOST_SEARCHES = 32
"At most this many searches for names are made in a process."


class Previous:
    """The names that hold results of earlier replays."""

    def __init__(self) -> None:
        self._held: Counter[tuple[int, str]] = Counter()
        "Graph and name -> the number of replays at which the name held the output."
        self._searches = 0

    def replaying(self, record: GraphRecord, frames: Sequence[FrameType], sites: Calls) -> bool:
        """Return whether a line reads an earlier result of the graph, which is about to be replayed."""
        if self._searches >= _MOST_SEARCHES:
            return False
        self._searches += 1
        for name in (one for same in names_in(frames).values() for one in same):
            tensor = name.tensor()
            if tensor is None or not record.contents.owns(tensor):
                continue
            for code, text, line in _places(name, frames):
                read = _read_before_kept(code, text, line)
                if read is not None:
                    self._held[record.number, text] += 1
                    if self._held[record.number, text] >= _ENOUGH:
                        record.overwritten = Overwritten(call_site(code, read), sites, record.number, kept=text)
                        return True
        return False


def _places(name: Name, frames: Sequence[FrameType]) -> Iterator[tuple[CodeType, str, int | None]]:
    """Yield each function that may store a value under a name, with the spelling of the name in this function and with
    the line that replays."""
    running = {frame.f_code: frame.f_lineno for frame in reversed(frames)}
    for frame in frames:
        if name.text.partition(".")[0] in (*frame.f_code.co_varnames, *frame.f_code.co_names):
            yield frame.f_code, name.text, frame.f_lineno
    if name.way and name.way[-1][0] == "attribute" and "." in name.text:
        attribute = name.way[-1][1]
        for code in (method.__code__ for method in methods_of(name.owner())):
            yield code, f"{(*code.co_varnames, '')[0]}.{attribute}", running.get(code)


def _read_before_kept(code: CodeType, text: str, replay: int | None) -> int | None:
    """Return the line of a function that reads `text` after a new result exists and before this result is stored under
    `text`. `replay` is the line of this function that led to the replay, if there is one.
    """
    function: Any = tree_of_code(code)
    kept = [one for one in _assignments(function) if text in map(ast.unparse, one.targets)]
    values = [one.value for one in kept if not (isinstance(one.value, ast.Constant) and one.value.value is None)]
    if len(values) != 1 or (replay is None and not isinstance(values[0], ast.Name)):
        return None
    line, result = values[0].lineno, ast.unparse(base_of(values[0]))
    made_by = [(one, [part for target in one.targets for part in ast.walk(target)]) for one in _assignments(function)]
    makers = [one for one, targets in made_by if result in map(ast.unparse, targets)]
    if any(text in ast.unparse(one.value) for one in makers):
        return None
    made = [(one.lineno, one.end_lineno or one.lineno) for one in makers]
    own = lines_of(code) - (set() if replay is None else _not_after(function, code.co_filename, replay))
    loop = loop_around(code.co_filename, line)
    lasts = not any(loop is None or loop[0] <= first <= loop[1] for first, _ in made)
    for read in sorted(at for name, at in reads_in(function) if name == text and at < line and at in own):
        if replay is None:
            is_new = result in parameters(code) or any(last < read for _, last in made)
        else:
            is_new = any(replay <= last < read for _, last in made) or (lasts and replay < read)
        if is_new:
            return read
    return None


def _not_after(function: Any, path: str, replay: int) -> set[int]:
    """Return the lines of the statement at `replay`, and the lines of the branches that do not run when this statement
    runs."""
    statement = innermost(path, replay, ast.stmt)
    inside = () if statement is None or hasattr(statement, "body") else ast.walk(statement)
    return {getattr(one, "lineno", 0) for one in (*beside(function, replay), *inside)}


def _assignments(function: Any) -> list[ast.Assign]:
    return [] if function is None else [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
