"""Writes the part of emitted code that handles variables whose value differs from step to step. Eager statements store
such a variable in an object, and read it from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from graphsafe.capture.plan.shared.regions import Function, Region
from graphsafe.capture.plan.shared.statements import begin, stores_in


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """An edit of source lines. `lines` replace the lines from `first` to `last`. If `last` is the line before `first`,
    `lines` are inserted before `first`."""

    first: int
    last: int
    lines: tuple[str, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    passing: Mapping[Region, Sequence[str]]
    "For each break, the variables that it reads from another break or passes to one."
    bound: Set[tuple[str, int]]
    "Variables that captured code binds to the value of a break, each with the line that binds it."

    @property
    def returned(self) -> set[str]:
        return {name for name, _ in self.bound}

    @property
    def names(self) -> list[str]:
        return sorted(self.returned.union(*self.passing.values()))

    def edits(self, source: Function) -> Iterator[Edit]:
        """Yield the line that makes the object. For each statement that binds the value of a break, yield a line to
        insert after the statement. This line notes which break returned the value."""
        if not self.names:
            return
        head = source.body[1 if ast.get_docstring(source.node) is not None else 0]
        empty = ", ".join(f"{name}=None" for name in self.names)
        yield _before(begin(head), f"{' ' * head.col_offset}{self.name} = SimpleNamespace({empty})")
        for name, line in self.bound:
            statement = source.node_at(line) or head
            note = f"{' ' * statement.col_offset}{self.name}.{name} = returned({name})"
            yield _before((statement.end_lineno or line) + 1, note)

    def around(self, body: str, source: Function, region: Region, returned: Sequence[str]) -> str:
        """Return the eager statements, with lines before them that read variables from the object, and lines after
        them that store variables in it."""
        place = source.place(region)
        stored = stores_in(place.statements) if place is not None and not source.ends(place) else set()
        passing = self.passing[region]
        taken = [f"    {name} = {self.name}.{name}\n" for name in passing if source.reads(region, name)]
        taken += [f"    {name} = {self.name}.{name}.result\n" for name in returned]
        given = [f"\n    {self.name}.{name} = {name}" for name in passing if name in stored]
        return "".join([*taken, body, *given])


def unused(name: str, source: Function) -> str:
    taken = {node.id for node in ast.walk(source.node) if isinstance(node, ast.Name)}
    return name if name not in taken else unused(f"{name}_", source)


def _before(line: int, text: str) -> Edit:
    return Edit(line, line - 1, (text,))
