"""Tables of the values that assignments and constructor calls give to the fields of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from graphsafe.scan.domain.summary import Field
from graphsafe.scan.domain.values import Instance, Value


def add(found: dict[Field, list[Value]], field: Field, value: Value) -> None:
    values = found.setdefault(field, [])
    if value not in values:
        values.append(value)


def add_all(
    found: dict[Field, list[Value]], added: Mapping[Field, Sequence[Value]], owner: str = "", ref: str = ""
) -> None:
    """Add the values of another table. Its values for the class `owner` become values for the class `ref`."""
    for (of, name), values in added.items():
        for value in values:
            add(found, (ref if of == owner else of, name), value)


def objects_passed(
    maker: str, constructed: Mapping[Field, Sequence[Value]], is_module: Callable[[str], bool]
) -> Iterator[tuple[Field, Instance]]:
    """Yield the objects that a constructor of the class `maker` passes to constructors of other classes, each with the
    field that holds it. Modules are left out."""
    for (ref, name), values in constructed.items():
        # Names in parentheses stand for parameters of constructors.
        if ref != maker and not name.startswith("(") and not is_module(ref):
            yield from (((ref, name), value) for value in values if type(value) is Instance)
