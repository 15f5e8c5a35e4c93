"""Finds arguments that only the first call of a function uses. The first call captures, and later calls only replay.

The capture is in `if self.graph is None: …` or `if n not in self.graphs: …`, or follows `if self.graph is not None:
self.graph.replay(); return self.out`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from graphsafe.scan.hazards.graph_syntax import (
    CaptureBlock,
    Function,
    Line,
    called_name,
    calls_in,
    captures_in,
    head,
    is_plain_replay,
    parents_in,
    place,
)
from graphsafe.scan.hazards.graph_tensors import CONSTRUCTORS, Tables, targets
from graphsafe.scan.hazards.keys.graph_keys import number_parameters, switched_attributes
from graphsafe.scan.hazards.keys.key_names import ALL, is_covered, names_in
from graphsafe.scan.hazards.owners import Functions
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import matched, parameters


class _First(NamedTuple):
    """The statements that only the first call of a function runs, and the test that guards them."""

    test: ast.expr
    statements: Sequence[ast.stmt]


def lines(found: Tables) -> Iterator[Line]:
    functions = found.by_name
    for name, function in functions.items():
        if function.name not in CONSTRUCTORS:
            yield from _lacking(name, function)
            yield from _lacking_in_calls(name, function, functions)


def _lacking(name: str, function: Function) -> Iterator[Line]:
    """Yield tests for a missing graph. The capture under the test uses a number or an option that the first call
    passes, and no other code of the function reads this argument."""
    blocks = captures_in(function)
    numbers = number_parameters(function) if blocks else frozenset()
    parents = parents_in(function) if numbers else {}
    for block in blocks if numbers else ():
        first = _first_call(block, parents)
        within = {id(node) for statement in first.statements for node in ast.walk(statement)} if first else set()
        later = [node for node in parents if id(node) not in within]
        if first is None or not any(map(is_plain_replay, later)):
            continue
        elsewhere = {node.id for node in later if isinstance(node, ast.Name)}
        read = {one.id for statement in block.body for one in inside(statement, ast.Name)}
        stored = {node.id for node in parents if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        lacking = sorted((numbers & read) - elsewhere - stored)
        if lacking:
            yield Line(name, "key-lacks", first.test, lacking[0])


def _lacking_in_calls(name: str, function: Function, functions: Functions) -> Iterator[Line]:
    """Yield assignments of graphs that a function captures on demand and returns: `graph = self.graphs.get(n)`. The
    capture uses another number, and a call computes this number from values that do not determine the key."""
    blocks = captures_in(function)
    numbers = number_parameters(function) if blocks else frozenset()
    parents = parents_in(function) if numbers else {}
    for block in blocks if numbers else ():
        first = _first_call(block, parents)
        for node in first.statements if first is not None else ():
            entry = node.targets[0] if isinstance(node, ast.Assign) else None
            held = {one.id for item in block.items for one in inside(item, ast.Name)}
            kept = {one.id for one in inside(node, ast.Name) if isinstance(one.ctx, ast.Load)}
            if not isinstance(entry, ast.Subscript) or not held & kept:
                continue
            told = names_in(entry.slice, function, {})
            read = {name for one in inside(block, ast.Name) for name in names_in(one, function, {})}
            switched = switched_attributes(name, place(entry.value), functions)
            lacking = sorted(
                one
                for one in (numbers & read) - told
                if any(_is_free(one, told, function, caller, switched) for caller in functions.values())
            )
            if lacking:
                yield Line(name, "key-lacks", node, lacking[0])


def _is_free(number: str, told: Set[str], function: Function, caller: Function, switched: Set[str]) -> bool:
    """Return whether a call by `caller` computes an argument from values that may change while the arguments `told`
    stay the same. These values are the caller's parameters, and attributes that are `switched`."""
    own = {one.arg for one in parameters(caller)} - {"self", "cls"}
    for call in calls_in([caller]) if caller is not function else ():
        given = {one.arg: value for value, one in matched(call, function)} if called_name(call) == function.name else {}
        sources = {one.removesuffix(ALL) for one in names_in(given[number], caller, {})} if number in given else set()
        key = {one for name in given.keys() & told for one in names_in(given[name], caller, {})}
        if any(not is_covered(one, key) for one in sources if head(one) in own or one in switched):
            return True
    return False


def _first_call(block: CaptureBlock, parents: dict[ast.AST, ast.AST]) -> _First | None:
    node: ast.AST = block
    while node in parents:
        around = parents[node]
        for branch in ("body", "orelse"):
            statements = getattr(around, branch, None)
            if not isinstance(statements, list) or node not in statements:
                continue
            for position, left in enumerate(statements[: statements.index(node)]):
                rest = statements[position + 1 :]
                returns = isinstance(left, ast.If) and isinstance(left.body[-1], ast.Return)
                if returns and _looks_for(left.test, rest, ast.IsNot, ast.In):
                    return _First(left.test, rest)
            missing = (ast.Is, ast.NotIn) if branch == "body" else (ast.IsNot, ast.In)
            if isinstance(around, ast.If) and _looks_for(around.test, statements, *missing):
                return _First(around.test, statements)
        node = around
    return None


def _looks_for(test: ast.expr, statements: Sequence[ast.stmt], *operators: type[ast.cmpop]) -> bool:
    """Return whether a test looks for an object that these statements make: `self.graph is None`,
    `n not in self.graphs`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], operators):
        return False
    asked = place(test.comparators[0] if isinstance(test.ops[0], (ast.In, ast.NotIn)) else test.left)
    made = [target for statement in statements for node in ast.walk(statement) for target in targets(node)]
    return asked is not None and any(
        asked == place(one.value if isinstance(one, ast.Subscript) and place(one) is None else one) for one in made
    )
