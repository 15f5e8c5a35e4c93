"""The names from which an expression is computed, through local names and functions of the same file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import Function, head, own, place
from graphsafe.scan.hazards.graph_tensors import targets
from graphsafe.scan.hazards.owners import Functions
from graphsafe.scan.symbols.blocks import matched, parameters
from graphsafe.scan.symbols.index import dotted

ALL = ".*"
"The suffix of an object's name if an expression may depend on all attributes of the object."


def names_in(
    value: ast.expr, function: Function, functions: Functions, outer: frozenset[str] = frozenset()
) -> set[str]:
    """Return the names, attributes and entries from which a function computes a value.

    If the value is the result of another function of the file, the `return` statement of that function shows on which
    arguments the value depends. The result of any other call, such as `pack(batch)`, may depend on all attributes of
    its arguments. `outer` contains the functions that are already being read.
    """
    found: set[str] = set()
    waiting: list[ast.AST] = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Call):
            name = dotted(inner.func) or ""
            called = functions.get(name.removeprefix("self.")) if name not in outer else None
            if called is not None:
                found |= _through(inner, function, called, functions, outer | {name})
                continue
            if not hasattr(builtins, name):
                found |= {one.id + ALL for one in inner.args if isinstance(one, ast.Name)}
                found |= {
                    one.value.id + ALL for one in inner.keywords if one.arg is None and isinstance(one.value, ast.Name)
                }
        waiting += ast.iter_child_nodes(inner)
        text = place(inner) if isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)) else None
        if text is not None and "key" in text:
            found.add(head(text) + ALL)
        if text is not None and text not in found:
            found.add(text)
            waiting += _bound_to(text, function)
    return found


def is_covered(name: str, names: set[str]) -> bool:
    """Return whether `names` contains this name, an attribute of it, or an object that contains it. For example,
    `batch.ids` covers `batch.ids.shape`."""
    if name in names or head(name) + ALL in names:
        return True
    whole = [one for one in names if one != head(one)] if name != head(name) else []
    return any(f"{one}.".startswith(f"{name}.") or name.startswith((f"{one}.", f"{one}[")) for one in whole)


def _bound_to(text: str, function: Function) -> Iterator[ast.expr]:
    made: list[ast.Assign | ast.AugAssign] = [*own(function, ast.Assign), *own(function, ast.AugAssign)]
    yield from (node.value for node in made if text in map(place, targets(node)))


def _through(
    call: ast.Call, function: Function, called: Function, functions: Functions, outer: frozenset[str]
) -> set[str]:
    """Return the parts of a call's arguments that the called function uses, by their names in the caller."""
    returned = [node.value for node in own(called, ast.Return) if node.value is not None]
    inside = {name for one in returned for name in names_in(one, called, functions, outer)}
    inside |= {text for node in own(called, ast.expr) if (text := place(node)) is not None}
    given = {parameter.arg: value for value, parameter in matched(call, called)}
    spread = next((place(word.value) for word in call.keywords if word.arg is None), None)
    options = called.args.kwarg.arg if called.args.kwarg is not None else None
    found: set[str] = set()
    for name in inside:
        first, rest = head(name), name[len(head(name)) :]
        if first in given:
            text = place(given[first])
            found |= {text + rest} if text is not None else names_in(given[first], function, functions, outer)
        elif spread is not None and first == options:
            found.add(spread + (rest or ALL))
        elif spread is not None and any(one.arg == first for one in parameters(called)):
            found.add(f"{spread}[{first!r}]{rest}")
    return found
