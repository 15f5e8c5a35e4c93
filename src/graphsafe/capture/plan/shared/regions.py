"""Ranges of statements that can be cut out of a function to run eagerly, in the way that a person would choose them.

A region is one or several whole statements of one block. A region can only grow: to the statement around it, and at
most to the whole body of its function.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from graphsafe.capture.plan.shared.statements import (
    LOOPS,
    begin,
    blocks_of,
    covers,
    declared,
    jumps,
    loads_of,
    own_loads,
    own_stores,
    stores_in,
    within,
)
from graphsafe.capture.shared.classify import functions_of
from graphsafe.report.model import CallSite

_UNCUTTABLE = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_INLINED = (".<listcomp>", ".<genexpr>", ".<dictcomp>", ".<setcomp>")


@dataclass(frozen=True, slots=True, order=True)
class Region:
    path: str
    function: str
    "The function's qualified name, without `<locals>`."
    line: int
    "The line at which the function begins, including its decorators, as in its code object."
    first: int
    "The first line of the first statement."
    last: int
    "The first line of the last statement."


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a region in the syntax tree of its file."""

    block: list[ast.stmt]
    start: int
    stop: int

    @property
    def statements(self) -> list[ast.stmt]:
        return self.block[self.start : self.stop]


class Function:
    """A function in a source file."""

    def __init__(self, path: str, name: str, node: ast.FunctionDef, owner: str | None) -> None:
        self.path = path
        self.name = name
        self.node = node
        self.body = node.body
        self.owner = owner
        "The name of the class around the function, or None."
        self.line = begin(node)
        self.place: Callable[[Region], Place | None] = functools.cache(self._place)
        self.legal: Callable[[Region], Region | None] = functools.cache(self._legal)
        "Returns the region, grown until no jump leaves it. Returns None if no region that contains it can be cut out."
        self.reads: Callable[[Region, str], bool] = functools.cache(self._reads)
        "Returns whether the region may read the variable before it assigns the variable."

    @functools.cached_property
    def _blocks(self) -> list[tuple[list[ast.stmt], ast.stmt | None]]:
        """All blocks, outermost first, each with the statement around it."""
        found: list[tuple[list[ast.stmt], ast.stmt | None]] = [(self.body, None)]
        for block, _ in found:
            found += [(inner, statement) for statement in block for inner in blocks_of(statement)]
        return found

    @functools.cached_property
    def _outer(self) -> dict[int, tuple[list[ast.stmt], int, ast.stmt | None]]:
        """`id` of a statement -> its block, its index there, and the statement around that block."""
        places = ((block, index, around) for block, around in self._blocks for index in range(len(block)))
        return {id(block[index]): (block, index, around) for block, index, around in places}

    @functools.cached_property
    def nonlocals(self) -> frozenset[str]:
        """Variables of the enclosing function that this function assigns. A break reaches these variables through its
        closure."""
        return declared(self.node, ast.Nonlocal)

    @functools.cached_property
    def globals(self) -> frozenset[str]:
        """The global variables that this function assigns."""
        return declared(self.node, ast.Global)

    @functools.cached_property
    def first_argument(self) -> str | None:
        arguments = [*self.node.args.posonlyargs, *self.node.args.args]
        return arguments[0].arg if arguments else None

    def whole(self) -> Region:
        return self._region(Place(self.body, 0, len(self.body)))

    def _region(self, place: Place) -> Region:
        chosen = place.statements
        return Region(self.path, self.name, self.line, begin(chosen[0]), begin(chosen[-1]))

    def _place(self, region: Region) -> Place | None:
        for block, _ in self._blocks:
            starts = [begin(statement) for statement in block]
            if region.first in starts and region.last in starts:
                return Place(block, starts.index(region.first), len(starts) - starts[::-1].index(region.last))
        return None

    def statements(self) -> Iterator[ast.stmt]:
        return (statement for block, _ in self._blocks for statement in block)

    def region_at(self, statement: ast.stmt) -> Region:
        block, index, _ = self._outer[id(statement)]
        return self._region(Place(block, index, index + 1))

    def node_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that runs this line. If the line is in the head of an `if` or a loop, return
        the whole statement."""
        block, found = self.body, None
        while block:
            held = next((s for s in block if begin(s) <= line <= (s.end_lineno or s.lineno)), None)
            if held is None:
                break
            found = held
            block = next((inner for inner in blocks_of(held) if covers(inner, line)), [])
        return found

    def statement_at(self, line: int) -> Region | None:
        node = self.node_at(line)
        return None if node is None else self.region_at(node)

    def around(self, region: Region) -> Region | None:
        """Return the statement around the region's block. For a block of the function itself, return the whole body.
        For the whole body, return None."""
        place = self.place(region)
        if place is None or region == self.whole():
            return None
        around = self._outer[id(place.statements[0])][2]
        return self.whole() if around is None else self.region_at(around)

    def hull(self, one: Region, other: Region) -> Region:
        """Return the smallest range of one block that contains both regions."""
        ways = [self._way(region) for region in (one, other)]
        for block, start, stop in ways[0]:
            for second, head, end in ways[1]:
                if second is block:
                    return self._region(Place(block, min(start, head), max(stop, end)))
        return self.whole()

    def _way(self, region: Region) -> list[tuple[list[ast.stmt], int, int]]:
        place = self.place(region)
        if place is None:
            return [(self.body, 0, len(self.body))]
        way = [(place.block, place.start, place.stop)]
        around = self._outer[id(place.statements[0])][2]
        while around is not None:
            block, index, outer = self._outer[id(around)]
            way.append((block, index, index + 1))
            around = outer
        return way

    def _legal(self, region: Region) -> Region | None:
        while True:
            place = self.place(region)
            if place is None:
                return None
            inside = list(within(place.statements))
            if any(isinstance(node, _UNCUTTABLE) for node in inside):
                return None
            if jumps(place.statements):
                wider = self.around(region)
            elif any(isinstance(node, ast.Return) for node in inside) and not self.ends(place):
                at_top = place.block is self.body
                wider = self._region(Place(self.body, place.start, len(self.body))) if at_top else self.around(region)
            else:
                return region
            if wider is None:
                return None
            region = wider

    def ends(self, place: Place) -> bool:
        """Return whether the function ends with this range."""
        return place.block is self.body and place.stop == len(self.body)

    def grown(self, region: Region, name: str, to: Literal["defined", "used"]) -> Region | None:
        """Return a larger region, which reaches back to the last statement that assigns `name`, or forward to the last
        statement that reads `name`. If there is no such statement on that side, the region reaches to the last such
        statement anywhere else. Return None if there is no such statement at all, as for an argument."""
        place = self.place(region)
        if place is None:
            return None
        inside = {id(node) for node in within(place.statements)}
        names_of = own_stores if to == "defined" else own_loads
        found = [one for one in self.statements() if id(one) not in inside and name in names_of(one)]
        near = [one for one in found if (begin(one) < region.first if to == "defined" else begin(one) > region.last)]
        return self.hull(region, self.region_at(max(near or found, key=begin))) if found else None

    def _reads(self, region: Region, name: str) -> bool:
        place = self.place(region)
        for statement in () if place is None else place.statements:
            first: list[ast.AST] = [statement]
            if isinstance(statement, LOOPS) and not isinstance(statement, ast.While):
                first = [statement.iter]
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                first = [statement.value]
            if name in loads_of(node for part in first for node in ast.walk(part)):
                return True
            if isinstance(statement, (ast.For, ast.Assign, ast.AnnAssign)) and name in own_stores(statement):
                return False
        return True

    def outputs(self, place: Place) -> tuple[str, ...]:
        """Return the variables that the region assigns, and that are read outside or in a loop's next iteration."""
        inside = {id(node): node for node in within(place.statements)}
        read = loads_of(node for node in ast.walk(self.node) if id(node) not in inside)
        around: ast.stmt | None = self._outer[id(place.statements[0])][2]
        while around is not None:
            read |= loads_of(inside.values()) if isinstance(around, LOOPS) else set()
            around = self._outer[id(around)][2]
        return tuple(sorted(stores_in(place.statements) & read))


@functools.cache
def function_of(frame: CallSite) -> Function | None:
    """Return the function that a frame runs. Return None for lambdas, module level, and code without source."""
    name = frame.function or ""
    while name.endswith(_INLINED):
        name = name.rpartition(".")[0]
    held = [
        function
        for function in functions_in(frame.path)
        if function.line <= frame.line <= (function.node.end_lineno or 0)
        and (function.name == name or function.node.name == name)
    ]
    return max(held, key=lambda function: function.line, default=None)


@functools.cache
def function_with(region: Region) -> Function:
    return next(
        function
        for function in functions_in(region.path)
        if (function.line, function.name) == (region.line, region.function)
    )


def grouped(regions: Mapping[int, Region]) -> dict[Function, dict[int, Region]]:
    found: dict[Function, dict[int, Region]] = {}
    for number, region in regions.items():
        found.setdefault(function_with(region), {})[number] = region
    return found


def region_of(frames: Sequence[CallSite], closed: Set[Function]) -> Region | None:
    """Find the innermost function from which the running statement can be cut out, and return this statement. Functions
    in `closed` are skipped. Return None if there is no such function."""
    for frame in reversed(frames):
        function = function_of(frame)
        if function is None or function in closed:
            continue
        statement = function.statement_at(frame.line)
        region = None if statement is None else function.legal(statement)
        if region is not None:
            return region
    return None


def merged(regions: Sequence[Region]) -> tuple[Region, ...]:
    """Join regions of one function that overlap."""
    found: list[Region] = []
    left = list(dict.fromkeys(regions))
    while left:
        region = left.pop()
        function = function_with(region)
        other = next((one for one in found if function_with(one) is function and _overlap(one, region)), None)
        if other is None:
            found.append(region)
            continue
        found.remove(other)
        hull = function.legal(function.hull(region, other))
        left.append(function.whole() if hull is None else hull)
    return tuple(sorted(found))


@functools.cache
def lines_of(region: Region) -> range:
    place = function_with(region).place(region)
    last = region.last if place is None else place.statements[-1].end_lineno or region.last
    return range(region.first, last + 1)


def _overlap(one: Region, other: Region) -> bool:
    first, second = lines_of(one), lines_of(other)
    return first.start < second.stop and second.start < first.stop


@functools.cache
def functions_in(path: str) -> tuple[Function, ...]:
    named = [(one.name, one.node, one.owner) for one in functions_of(path)]
    return tuple(Function(path, name, node, owner) for name, node, owner in named if isinstance(node, ast.FunctionDef))
