"""Files in which statements are split into parts (`shared/parts.py`), and the mapping from their lines to the target's
lines.

The search, captures and emitted code use these files. The report of a plan has the target's own lines.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from graphsafe.capture.plan.child.causes import Cause
from graphsafe.capture.plan.child.rewrite import Uncuttable, living, put_in_place
from graphsafe.capture.plan.shared.parts import calls_on, edits, expression_at, holds, len_of
from graphsafe.capture.plan.shared.regions import Function, Region, function_of, function_with, functions_in
from graphsafe.capture.plan.shared.statements import own_stores, within
from graphsafe.capture.shared.classify import span_of
from graphsafe.capture.shared.places import location, shown
from graphsafe.report.model import CallSite, Location, Span
from graphsafe.report.source import file_lines

Frames = tuple[CallSite, ...]


def _blamed(function: Function, span: Span) -> Iterator[ast.expr]:
    """Yield the expression, and each use of a variable that is computed from the expression. These uses have to run
    eagerly too."""
    found = expression_at(function, span)
    marked = [] if found is None else [found]
    names: set[str] = set()
    for expression in marked:
        yield expression
        for statement in function.statements():
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and expression in within([statement]):
                new = own_stores(statement) - names
                names |= new
                names_read = (node for node in ast.walk(function.node) if isinstance(node, ast.Name))
                marked += [one for one in names_read if isinstance(one.ctx, ast.Load) and one.id in new]


def _asked(function: Function, cause: Cause) -> list[ast.expr]:
    """Return the operation whose result the line tests for truth. The operation can be captured; only the test has to
    be eager."""
    found = expression_at(function, cause.span) if cause.asked and cause.span is not None else None
    method = isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute)
    compared = isinstance(found, ast.Compare) and not isinstance(found.ops[0], (ast.In, ast.NotIn))
    return [found] if found is not None and (method or compared) else []


class Split:
    """The functions that lead to causes, with the affected statements split into parts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._origins: dict[str, tuple[str, tuple[Span, ...]]] = {}
        "Written file -> the file from which it was made, and the origin of each of its lines."
        self._written: dict[Function, Function] = {}

    def take_apart(self, causes: Iterable[Cause], running: Iterable[Frames], whole: Iterable[Frames]) -> None:
        """Split the statements of the causes, and other statements that call the same functions. `running` has the
        frames of a step's operations. Functions in `whole` are not changed, because a capture of their parts has
        failed."""
        marks: dict[Function, set[ast.expr]] = defaultdict(set)
        calls: dict[Function, set[ast.expr]] = defaultdict(set)
        for cause in causes:
            for frame in cause.frames:
                function = function_of(frame)
                if function is not None and frame is not cause.line:
                    calls[function].update(calls_on(function, frame.line))
                elif function is not None:
                    marks[function].update(() if cause.span is None else _blamed(function, cause.span))
                    calls[function].update(_asked(function, cause))
        broken = {*marks, *calls}
        for frame, inner in {pair for frames in set(running) for pair in itertools.pairwise(frames)}:
            function = function_of(frame)
            if function is not None and function_of(inner) in broken:
                calls[function].update(calls_on(function, frame.line))
        kept = {function_of(frame) for frames in whole for frame in frames}
        chosen = [function for function in dict.fromkeys((*marks, *calls)) if function not in kept]
        for path in dict.fromkeys(function.path for function in chosen):
            own = [function for function in chosen if function.path == path and living(function, *chosen)]
            self._write(path, {one: (marks[one], calls[one]) for one in own})

    def _write(self, path: str, marks: Mapping[Function, tuple[Set[ast.expr], Set[ast.expr]]]) -> None:
        """Rewrite a file. `marks` maps each function to its expressions that break, and to its calls that lead to such
        expressions elsewhere."""
        lines = list(file_lines(path) or ())
        changes = {function: edits(function, nodes, lines, calls) for function, (nodes, calls) in marks.items()}
        changes = {function: found for function, found in changes.items() if found}
        if not changes:
            return
        origins: list[Span] = [(at, 0, at, len(line.encode())) for at, line in enumerate(lines, 1)]
        for edit in sorted((one for found in changes.values() for one in found), key=lambda one: -one.first):
            lines[edit.first - 1 : edit.last] = [line.text for line in edit.lines]
            origins[edit.first - 1 : edit.last] = [line.origin for line in edit.lines]
        file = self._folder / f"split-{len(self._origins)}" / Path(path).name
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
        self._origins[str(file)] = path, tuple(origins)
        pairs = list(zip(functions_in(path), functions_in(str(file)), strict=False))
        for before, after in pairs:
            if before in changes and before.name == after.name:
                with suppress(Uncuttable):
                    put_in_place(before, after)
                    inner = f"{before.name}."  # functions that are defined inside it
                    self._written |= {one: two for one, two in pairs if one is before or one.name.startswith(inner)}

    def moved(self, causes: Iterable[Cause], running: Iterable[Frames]) -> list[Cause]:
        """Return the causes with their lines in the written files. `running` has frames of these files, which show the
        calls."""
        ways: dict[Frames, Frames] = {}
        for frames in running:
            for length in range(1, len(frames) + 1):
                ways.setdefault(self.original(frames[:length]), frames[:length])
        return [self._moved(cause, ways) for cause in causes]

    def _moved(self, cause: Cause, ways: Mapping[Frames, Frames]) -> Cause:
        above = cause.frames[:-1]
        way = ways.get(cause.frames)
        outer = ways.get(above, tuple(self._place(frame, None) for frame in above)) if way is None else way[:-1]
        return replace(cause, frames=(*outer, self._place(cause.line, cause.span, cause)), span=None)

    def _place(self, frame: CallSite, span: Span | None, cause: Cause | None = None) -> CallSite:
        function = function_of(frame)
        written = None if function is None else self._written.get(function)
        if function is None or written is None:
            return frame
        origins = self._origins[written.path][1]
        lines = range(written.line, (written.node.end_lineno or written.line) + 1)
        expression = None if span is None else expression_at(function, span)
        if expression is None:  # the rest of the statement comes after its parts
            inside = [line for line in lines if origins[line - 1][0] <= frame.line <= origins[line - 1][2]][-1:]
        else:
            inside = [line for line in lines if holds(origins[line - 1], span_of(expression))]
            if cause is not None and _asked(function, cause):  # the test comes after the operation
                own = [line for line in inside if origins[line - 1] == span_of(expression)]
                inside = own[1:] or [line for line in inside if line not in own] or own
        line = min(inside, key=lambda line: (len_of(origins[line - 1]), line), default=written.line)
        return CallSite(written.path, line, frame.function)

    def original(self, frames: Sequence[CallSite]) -> Frames:
        """Return the frames with the target's own lines."""
        return tuple(
            frame
            if frame.path not in self._origins
            else CallSite(self._origins[frame.path][0], self._origins[frame.path][1][frame.line - 1][0], frame.function)
            for frame in frames
        )

    def part(self, frame: CallSite, span: Span | None) -> Span | None:
        """Return the place of an expression in the target's file. If the line is a part of a statement, return the
        place of this part."""
        if frame.path not in self._origins:
            return span
        line, start, *end = self._origins[frame.path][1][frame.line - 1]
        if start:
            return line, start, end[0], end[1]
        return None if span is None else (line, span[1], line + span[2] - span[0], span[3])

    def path_of(self, path: str) -> str:
        return self._origins[path][0] if path in self._origins else path

    def location(self, region: Region) -> Location:
        """Return the place of a region (its statements, or the parts of one statement) in the target's file."""
        function = function_with(region)
        place = function.place(region)
        statements = [function.node] if place is None else place.statements
        first, start, last, end = span_of(statements[0])[:2] + span_of(statements[-1])[2:]
        if region.path in self._origins:
            path, origins = self._origins[region.path]
            spans = [origins[line - 1] for line in range(first, last + 1)]
            head, tail = min(spans)[:2], max(span[2:] for span in spans)
            text = (file_lines(path) or ("",))[head[0] - 1]
            start = head[1] or len(text) - len(text.lstrip())
            first, last, end = head[0], *tail
        site = CallSite(self.path_of(region.path), region.line, region.function)
        return location(site, (first, start, last, end))

    def in_words(self, text: str) -> str:
        """Return a message in which the target's lines replace those of the written files."""
        for file, (path, origins) in self._origins.items():
            for name in dict.fromkeys((file, shown(file))):
                head, *rest = re.split(rf"{re.escape(name)}:(\d+)", text)
                lines = (origins[int(number) - 1][0] for number in rest[::2])
                text = head + "".join(
                    f"{shown(path)}:{line}{after}" for line, after in zip(lines, rest[1::2], strict=True)
                )
        return text

    def named(self, function: Function, name: str) -> str:
        """Return a variable's name. If the variable is a part of a split statement, return the part's expression in the
        target's file."""
        if function.path not in self._origins:
            return name
        path, origins = self._origins[function.path]
        made = re.compile(rf"\s*{re.escape(name)} = ")
        lines = file_lines(function.path) or ()
        for number in range(function.line, (function.node.end_lineno or function.line) + 1):
            first, start, last, end = origins[number - 1]
            if made.match(lines[number - 1]) and name.startswith("part_") and first == last:
                return (file_lines(path) or ())[first - 1].encode()[start:end].decode()
        return name
