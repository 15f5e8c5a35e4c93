"""Displays, comprehensions and formatted strings: expressions that build a value from other values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from typing import Any

from graphsafe.scan.domain.joins import element_of, join, join_all, sequence
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.values import (
    STR,
    UNKNOWN,
    DeviceValue,
    Dict,
    Sequence,
    SequenceKind,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    of_elements,
)
from graphsafe.scan.domain.widening import MAX_ITEMS
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.assignments import assign
from graphsafe.scan.interpreter.conditions import guards
from graphsafe.scan.interpreter.conditions.truth import truth
from graphsafe.scan.models import formatting, protocols


def sequence_display(kind: SequenceKind) -> Callable[[Frame, Any], Value]:
    def handler(frame: Frame, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items, further = evaluated(frame, node.elts)
        return of_elements(kind, join_all(items)) if further is not None else sequence(kind, items)

    return handler


def evaluated(frame: Frame, nodes: Iterable[ast.expr]) -> tuple[Seq[Value], Value | None]:
    """Return the values of several expressions. If an unpacked expression (`*rest`) stands for an unknown number of
    values, also return the value of each further one. Otherwise, return None in its place."""
    items: list[Value] = []
    further: Value | None = None
    for node in nodes:
        value = frame.evaluate(node)
        if not isinstance(node, ast.Starred):
            items.append(value)
            further = further and UNKNOWN  # the values from here on have unknown positions
        elif type(value) is Sequence and value.items is not None:
            items.extend(value.items)
        else:
            items.append(element_of(value))
            further = UNKNOWN if further is not None else items[-1]
    return items, further


def dict_display(frame: Frame, node: ast.Dict) -> Value:
    items: dict[Any, Value] = {}
    elem: Value | None = None
    for key, part in zip(node.keys, node.values, strict=True):
        value = frame.evaluate(part)
        if key is None:
            if type(value) is Dict:
                items.update(value.items)
                value = value.elem
            else:
                value = Unknown(depends_on_step(value), holds_device(value))
        else:
            named = frame.evaluate(key)
            protocols.hashed(frame, key, named)
            name = const_of(named)
            if isinstance(name, (str, int, float, bool)):
                items[name] = value
        elem = value if elem is None else join(elem, value)
    return Dict(tuple(items.items())[:64], UNKNOWN if elem is None else elem)


def comprehension(kind: SequenceKind) -> Callable[[Frame, Any], Value]:
    def handler(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        before = frame.env
        frame.env = dict(before)
        known = _generators(frame, node.generators)
        if known is not None:
            items = []
            for item in known:
                assign(frame, node.generators[0].target, item, node.generators[0].target)
                items.append(frame.evaluate(node.elt))
            result: Value = sequence(kind, items)
        else:
            result = of_elements(kind, frame.evaluate(node.elt))
        frame.env = before
        return result

    return handler


def _generators(frame: Frame, generators: list[ast.comprehension]) -> tuple[Value, ...] | None:
    """Bind the targets of the loops. If there is only one loop, without conditions and over a few known items, return
    these items. Otherwise return None."""
    items: tuple[Value, ...] | None = None
    for generator in generators:
        iterable = protocols.iterated(frame, generator.iter, frame.evaluate(generator.iter))
        known = iterable.items if type(iterable) is Sequence and len(generators) == 1 and not generator.ifs else None
        items = known if known and len(known) <= MAX_ITEMS else items
        assign(frame, generator.target, element_of(iterable), generator.target)
        for condition in generator.ifs:
            truth(frame, condition, "if", condition)
            guards.narrow(frame, frame.env, condition, True)
    return items


def dict_comprehension(frame: Frame, node: ast.DictComp) -> Value:
    before = frame.env
    frame.env = dict(before)
    _generators(frame, node.generators)
    frame.evaluate(node.key)
    result = Dict((), frame.evaluate(node.value))
    frame.env = before
    return result


def joined_string(frame: Frame, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            formatting.format_item(frame, node, frame.evaluate(part.value))
            if part.format_spec is not None:
                frame.evaluate(part.format_spec)
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and str(first.value).startswith("cuda"):
        return DeviceValue("device")
    return STR
