"""Finds arguments that only the first call of a function uses. The first call captures, and later calls only replay.

The capture is in `if self.graph is None: …`, in `if n not in self.graphs: …` or in `except KeyError: …`, or follows
`if self.graph is not None: self.graph.replay(); return self.out`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import (
    CaptureBlock,
    Function,
    Line,
    ancestors,
    called_name,
    calls_in,
    captures_in,
    head,
    is_plain_replay,
    own,
    own_nodes,
    parents_in,
    place,
    stored_names,
)
from graphsafe.scan.hazards.graph_tensors import CONSTRUCTORS, Tables, targets
from graphsafe.scan.hazards.keys.graph_keys import switched_attributes
from graphsafe.scan.hazards.keys.key_names import ALL, is_covered, names_in
from graphsafe.scan.hazards.keys.number_names import numbers_in
from graphsafe.scan.hazards.owners import Functions
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import matched, parameters

_First = tuple[ast.expr, Sequence[ast.stmt]]
"A test that only the first call of a function passes, and the statements that run after this test."


def lines(found: Tables) -> Iterator[Line]:
    functions = found.by_name
    for name, function in functions.items():
        blocks = captures_in(function) if function.name not in CONSTRUCTORS else []
        numbers = numbers_in(found.tree).parameters_of(function) if blocks else frozenset()
        for block in blocks if numbers else ():
            first = _first_call(block, parents_in(function))
            if first is not None:
                yield from _lacking(name, function, block, numbers, first)
                yield from _lacking_in_calls(name, functions, block, numbers, first)


def _lacking(name: str, function: Function, block: CaptureBlock, numbers: Set[str], first: _First) -> Iterator[Line]:
    """Yield tests for a missing graph. The capture under the test uses a number or an option that the first call
    passes, and no other code of the function reads this argument."""
    test, statements = first
    within = {id(node) for statement in statements for node in ast.walk(statement)}
    later = [node for _, node in own_nodes(function) if id(node) not in within]
    if any(map(is_plain_replay, later)):
        elsewhere = {node.id for node in later if isinstance(node, ast.Name)}
        read = {one.id for statement in block.body for one in inside(statement, ast.Name)}
        lacking = sorted((numbers & read) - elsewhere - stored_names(own(function, ast.Name)))
        if lacking:
            yield Line(name, "key-lacks", test, lacking[0])


def _lacking_in_calls(
    name: str, functions: Functions, block: CaptureBlock, numbers: Set[str], first: _First
) -> Iterator[Line]:
    """Yield assignments of graphs that a function captures when they are first needed, and then returns: `graph =
    self.graphs.get(n)`. The capture uses a number that is not in the graph's key, and a call computes this number from
    values that do not determine the key."""
    function = functions[name]
    for node in first[1]:
        entry = node.targets[0] if isinstance(node, ast.Assign) else None
        held = {one.id for item in block.items for one in inside(item, ast.Name)}
        kept = {one.id for one in inside(node, ast.Name) if isinstance(one.ctx, ast.Load)}
        if not isinstance(entry, ast.Subscript) or not held & kept:
            continue
        told = names_in(entry.slice, function, {})
        read = {one for used in inside(block, ast.Name) for one in names_in(used, function, {})}
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
    given_to_caller = {one.arg for one in parameters(caller)} - {"self", "cls"}
    for call in calls_in([caller]) if caller is not function else ():
        given = {one.arg: value for value, one in matched(call, function)} if called_name(call) == function.name else {}
        sources = {one.removesuffix(ALL) for one in names_in(given[number], caller, {})} if number in given else set()
        key = {one for name in given.keys() & told for one in names_in(given[name], caller, {})}
        if any(not is_covered(one, key) for one in sources if head(one) in given_to_caller or one in switched):
            return True
    return False


def _first_call(block: CaptureBlock, parents: dict[ast.AST, ast.AST]) -> _First | None:
    node: ast.AST = block
    for around in ancestors(block, parents):
        for branch in ("body", "orelse"):
            statements = getattr(around, branch, None)
            if not isinstance(statements, list) or node not in statements:
                continue
            for position, left in enumerate(statements[: statements.index(node)]):
                rest = statements[position + 1 :]
                returns = isinstance(left, ast.If) and isinstance(left.body[-1], ast.Return)
                if returns and _looks_for(left.test, rest, ast.IsNot, ast.In):
                    return left.test, rest
            if isinstance(around, ast.ExceptHandler):
                sought = [one for one in _tried(parents[around]) if place(one.value) in _entered(statements)]
                return (sought[0], statements) if sought else None
            missing = (ast.Is, ast.NotIn) if branch == "body" else (ast.IsNot, ast.In)
            if isinstance(around, ast.If) and _looks_for(around.test, statements, *missing):
                return around.test, statements
        node = around
    return None


def _tried(node: ast.AST) -> Sequence[ast.Subscript]:
    """Return the entries of tables that the body of a `try` statement uses: `try: return self.graphs[n]`."""
    body = node.body if isinstance(node, ast.Try) else []
    return [one for statement in body for one in inside(statement, ast.Subscript)]


def _entered(statements: Sequence[ast.stmt]) -> Set[str | None]:
    """Return the tables to whose entries these statements assign."""
    made = [target for statement in statements for node in ast.walk(statement) for target in targets(node)]
    return {place(one.value) for one in made if isinstance(one, ast.Subscript)} - {None}


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
