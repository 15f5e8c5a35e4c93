"""Finds graphs whose key lacks a value that the capture froze.

`if n not in self.graphs: self.graphs[n] = self._capture(n, batch.greedy)` uses the first batch's `greedy` for all later
batches of that size.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    arguments_of,
    called_name,
    calls_in,
    captures_in,
    head,
    is_number,
    known_to,
    own,
    own_nodes,
    parents_in,
    place,
)
from graphsafe.scan.hazards.graph_tensors import CONSTRUCTORS, GraphTensors, Tables, bindings, targets
from graphsafe.scan.hazards.keys.key_names import is_covered, names_in
from graphsafe.scan.hazards.keys.number_names import NumberNames, as_bounds, names_number, numbers_in
from graphsafe.scan.hazards.owners import Functions, with_captures
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import matched, parameters
from graphsafe.scan.symbols.index import dotted, elements

_ASKS_FOR_GRAPH = re.compile(r"^not [\w.]*(captured|graph|ready|init)\w*$|graph\w* is None", re.I)
"Matches a test that is true only for the first call. This is the call that captures."


def lines(found: Tables) -> Iterator[Line]:
    functions = found.by_name
    callers = [*with_captures(found)]
    if not callers:
        return
    numbers = numbers_in(found.tree)
    numbers = replace(numbers, fields=numbers.fields | found.number_fields)
    for name, function, capturing in callers:
        yield from _lacking(name, function, capturing, functions, numbers)
        yield from _lacking_where_stored(name, function, capturing, functions, numbers)
        yield from _without_key(name, function, capturing, functions, numbers)
    for table in found.all:
        yield from _other_numbers(table)


# keys


def _lacking(
    name: str, function: Function, capturing: Functions, functions: Functions, numbers: NumberNames
) -> Iterator[Line]:
    """Yield assignments of graphs that are captured when they are first needed, if the key lacks a number or an option
    of the capture."""
    parents = parents_in(function)
    unique = _by_last_name(functions)
    for node in own(function, ast.Assign):
        entry = next((one for one in node.targets if isinstance(one, ast.Subscript)), None)
        if entry is None:
            continue
        first = _first_statements(node, ast.unparse(entry.value), parents)
        captures = [*_captures_for(node, first, capturing, functions)]
        if not captures:
            continue
        switched = switched_attributes(name, place(entry.value), functions)
        told = names_in(entry.slice, function, unique)
        # If the key contains some attributes of an options object, the other attributes of the object count as inputs.
        told |= {head(one) for one in told if "[" in one}
        frozen: dict[str, Set[str]] = {}
        for call, made in captures:
            frozen.update(_frozen(call, function, made, switched, numbers, unique))
        lacking = [
            text
            for text, sources in frozen.items()
            if text not in told and not all(is_covered(one, told) for one in sources)
        ]
        if lacking:
            origins = {head(one) for one in (min(lacking), *frozen[min(lacking)])}
            maker = _made_by(entry.slice, origins, function, functions)
            yield Line(*(maker or (name, "key-lacks", node)), min(lacking))


def _first_statements(node: ast.Assign, table: str, parents: Mapping[ast.AST, ast.AST]) -> Sequence[ast.stmt]:
    """Return the statements that run only if a table has no entry yet: the branch of an `if` around the assignment, or
    the statements after `if key in self.graphs: return self.graphs[key]`."""
    around = parents.get(node)
    if isinstance(around, ast.If):
        return around.body
    body = around.body if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    for position, statement in enumerate(body[: body.index(node)] if node in body else []):
        leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return)
        if isinstance(statement, ast.If) and leaves and table in map(ast.unparse, ast.walk(statement.test)):
            return body[position + 1 :]
    return ()


def _lacking_where_stored(
    name: str, function: Function, capturing: Functions, functions: Functions, numbers: NumberNames
) -> Iterator[Line]:
    """Yield calls of a function that captures and stores the graph itself: `if n not in self.graphs: self.capture(n,
    scale)`. The graph's key lacks a number or an option that the captured block reads."""
    unique = _by_last_name(functions)
    for branch in own(function, ast.If):
        for call in [one.value for one in branch.body if isinstance(one, ast.Expr)]:
            made = capturing.get(called_name(call)) if isinstance(call, ast.Call) else None
            if made is None or not isinstance(call, ast.Call) or not captures_in(made):
                continue
            given = {parameter.arg: value for value, parameter in matched(call, made)}
            names = [name for block in captures_in(made) for name in inside(block, ast.Name)]
            read = {one for name in names for one in names_in(name, made, unique)}
            used = {place(given[one]) for one in given.keys() & read}
            for entry in _entries(made, ast.unparse(branch.test)):
                told = names_in(branch.test, function, unique)
                for one in names_in(entry.slice, made, unique):
                    told |= names_in(given[head(one)], function, unique) if head(one) in given else {one}
                switched = switched_attributes(name, place(entry.value), functions)
                frozen = _frozen(call, function, made, switched, numbers, unique)
                lacking = [
                    text
                    for text, sources in frozen.items()
                    if text in used and not (text in told or all(is_covered(one, told) for one in sources))
                ]
                if lacking:
                    yield Line(name, "key-lacks", call, min(lacking))


def _entries(function: Function, test: str) -> Iterator[ast.Subscript]:
    """Yield the assignments of a function to entries of a table, if the test mentions the table."""
    for target in (target for node in own(function, ast.Assign) for target in node.targets):
        if isinstance(target, ast.Subscript) and (place(target.value) or "?") in test:
            yield target


def _without_key(
    name: str, function: Function, capturing: Functions, functions: Functions, numbers: NumberNames
) -> Iterator[Line]:
    """Yield tests for the single graph that a function keeps: `if self.graph is None: self._capture(x, limit)`. The
    capture uses a number or an option of the first call, and neither the test nor the code around the capture reads
    this value."""
    if function.name in CONSTRUCTORS:
        return
    unique = _by_last_name(functions)
    for branch in own(function, ast.If):
        made = [one.value for one in branch.body if isinstance(one, (ast.Expr, ast.Assign)) and not _fills_entry(one)]
        calls = [value for value in made if isinstance(value, ast.Call) and called_name(value) in capturing]
        if not calls or not _ASKS_FOR_GRAPH.search(ast.unparse(branch.test)):
            continue
        # Assignments such as `self.limit = limit` are left out: they neither test the number nor write it to an input.
        renamed = [one for one in own(function, ast.Assign) if isinstance(one.value, ast.Name)]
        kept = [one for one in renamed if isinstance(one.targets[0], ast.Attribute)]
        within = {id(inner) for one in (*branch.body, *kept) for inner in ast.walk(one)}
        names = {one.id for one in own(function, ast.Name) if id(one) not in within}
        frozen = _frozen(calls[0], function, capturing[called_name(calls[0])], frozenset(), numbers, unique)
        given = [text for text in sorted(frozen) if text in numbers.parameters_of(function) - names]
        if given:
            yield Line(name, "key-lacks", branch.test, given[0])


def _fills_entry(node: ast.Expr | ast.Assign) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(one, ast.Subscript) for one in node.targets)


def _by_last_name(functions: Functions) -> Functions:
    """Return the functions by the last part of their names. A part that is not unique in the file is left out."""
    count = Counter(name.rpartition(".")[2] for name in functions)
    return {last: node for name, node in functions.items() if count[last := name.rpartition(".")[2]] == 1}


def _captures_for(
    node: ast.Assign, statements: Sequence[ast.stmt], capturing: Functions, functions: Functions
) -> Iterator[tuple[ast.Call, Function]]:
    """Yield the calls that make an entry, with the functions that they run: `graphs[n] = capture(n)`, `graph, y =
    capture(n); graphs[n] = graph, y`, or `runner = Runner(n); runner.capture(x); graphs[n] = runner`."""
    if isinstance(node.value, ast.Call) and called_name(node.value) in capturing:
        yield node.value, capturing[called_name(node.value)]
    elif isinstance(node.value, (ast.Tuple, ast.Call)):
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else arguments_of(node.value)
        stored = {*map(place, parts)} - {None}
        for one in [one for one in statements if isinstance(one, ast.Assign)]:
            is_stored = not stored.isdisjoint(map(place, elements(one.targets[0])))
            if is_stored and isinstance(one.value, ast.Call) and called_name(one.value) in capturing:
                yield one.value, capturing[called_name(one.value)]
    if not isinstance(node.value, ast.Name):
        return
    held = node.value.id
    methods = [call for call in calls_in(statements) if called_name(call) in capturing]
    run = [call for call in methods if dotted(call.func) == f"{held}.{called_name(call)}"]
    yield from ((call, capturing[called_name(call)]) for call in run)
    for made in statements if run else ():
        if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call) and [*map(place, made.targets)] == [held]:
            constructor = functions.get(f"{dotted(made.value.func)}.__init__")
            if constructor is not None:
                yield made.value, constructor


def _made_by(
    key: ast.expr, origins: Set[str], function: Function, functions: Functions
) -> tuple[str, str, ast.expr | ast.stmt] | None:
    """Return the `return` statement of the function that makes a key. For `key = self.key_of(batch)`, this function is
    `key_of`. Return None unless the function is in the file and the call passes to it the object from which the missing
    value comes."""
    for node in own(function, ast.Assign) if isinstance(key, ast.Name) else ():
        call = node.value if [*map(place, node.targets)] == [place(key)] else None
        if isinstance(call, ast.Call) and any(place(one) in origins for one in known_to(call)):
            makers = [one for one in functions if one.rpartition(".")[2] == called_name(call)]
            returns = [(maker, inner) for maker in makers for inner in own(functions[maker], ast.Return)]
            return (returns[0][0], "key-lacks", returns[0][1]) if len(returns) == 1 else None
    return None


def switched_attributes(name: str, table: str | None, functions: Functions) -> Set[str]:
    """Return the attributes that methods assign. Constructors, and methods that drop the graphs, are left out."""
    owner = name.rpartition(".")[0]
    methods = [node for other, node in functions.items() if owner and other.rpartition(".")[0] == owner]
    return {
        text
        for node in methods
        if node.name not in CONSTRUCTORS and table is not None and table not in ast.unparse(node)
        for _, inner in own_nodes(node)
        for target in targets(inner)
        if isinstance(target, ast.Attribute) and (text := place(target)) is not None
    }


def _frozen(
    call: ast.Call, function: Function, made: Function, switched: Set[str], numbers: NumberNames, unique: Functions
) -> Mapping[str, Set[str]]:
    """Return the numbers and options that a call passes to the capture. Each comes with the arguments and the
    attributes from which it is computed."""
    given = {argument.arg for argument in parameters(function)} - {"self", "cls"}
    options = {function.args.kwarg.arg} if function.args.kwarg is not None else set()
    given |= options
    names = (inner.id for inner in inside(call, ast.Name))
    found: dict[str, Set[str]] = {name: {name} for name in names if name in numbers.parameters_of(function) | options}
    taken = numbers.parameters_of(made) | _used_as_numbers(made)
    for value, parameter in matched(call, made):
        option = value.slice if isinstance(value, ast.Subscript) and place(value.value) in numbers.tables else None
        text = place(option or value)
        if text is None:
            continue
        # If the parameter has no annotation, other code may declare its name, or the name of the passed attribute, as a
        # number.
        is_field = parameter.arg in numbers.fields or (
            isinstance(value, ast.Attribute) and value.attr in numbers.fields
        )
        if option is not None or parameter.arg in taken or (parameter.annotation is None and is_field):
            sources = {one for one in names_in(value, function, unique) if head(one) in given or one in switched}
            # The key must contain `request.size` itself; `request` alone is not enough.
            found[text] = {
                one for one in sources if not any(other.startswith((f"{one}.", f"{one}[")) for other in sources)
            }
        elif text in given:
            found.update(
                (f"{text}.{name}", {f"{text}.{name}"}) for name in _read_of(parameter.arg, made) & numbers.fields
            )
    return {text: sources for text, sources in found.items() if sources}


def _used_as_numbers(function: Function) -> Set[str]:
    """Return the names that a captured block uses as ends of slices or as numbers of iterations. Such names are numbers
    even without an annotation: `y[:, :length]`, `range(rounds)`."""
    blocks = captures_in(function)
    counts = [value for call in calls_in(blocks) if dotted(call.func) == "range" for value in call.args]
    slices = [one for block in blocks for one in inside(block, ast.Slice)]
    return as_bounds(slices) | {part.id for part in counts if isinstance(part, ast.Name)}


def _read_of(parameter: str, made: Function) -> set[str]:
    """Return the attributes of a parameter that the captured block of a function reads, directly or through a tuple of
    arguments."""
    blocks = captures_in(made)
    names = {inner.id for block in blocks for inner in inside(block, ast.Name)}
    packed = [node for node in own(made, ast.Assign) if isinstance(node.value, (ast.Tuple, ast.List))]
    tuples = [node.value for node in packed if not names.isdisjoint(map(place, node.targets))]
    attributes = [inner for part in (*blocks, *tuples) for inner in inside(part, ast.Attribute)]
    return {inner.attr for inner in attributes if place(inner.value) == parameter}


# numbers in attributes


def _other_numbers(table: GraphTensors) -> Iterator[Line]:
    """Yield assignments to numbers that captured code reads. These assignments are in methods that run between
    replays."""
    read = _read_by_captures(table) & _numbers(table) if table.replaying else set()
    # If the number is an argument of the capture, each graph may have its own number.
    captures = {name.rpartition(".")[2] for name in table.capturing}
    others = [table.functions[name] for name in table.capturing if name.rpartition(".")[2] not in CONSTRUCTORS]
    read -= {place(target) for one in others for _, inner in own_nodes(one) for target in targets(inner)}
    for name, function in table.functions.items() if read else ():
        if name in table.capturing or name in table.preparing - table.replaying:
            continue
        if any(called_name(call) in captures for call in calls_in([function])):
            continue
        for _, node in own_nodes(function):
            for target in targets(node):
                if isinstance(target, ast.Attribute) and (text := place(target)) in read:
                    assert isinstance(node, ast.stmt) and text is not None
                    yield Line(name, "number-changed", node, text)


def _read_by_captures(table: GraphTensors) -> set[str]:
    """Return the attributes that captured code reads. Lambdas in capturing functions count as captured code."""
    lambdas = [one for name in table.capturing for one in inside(table.functions[name], ast.Lambda)]
    return {
        f"self.{inner.attr}"
        for body in (*table.captured_code, *lambdas)
        for inner in inside(body, ast.Attribute)
        if isinstance(inner.ctx, ast.Load) and place(inner.value) == "self"
    }


def _numbers(table: GraphTensors) -> set[str]:
    """Return the attributes that hold numbers: `self.span = 8` in a constructor, or `self.span = min(self.span + 1, 8)`
    in any method."""
    found: set[str] = set()
    for node in table.scope.body if isinstance(table.scope, ast.ClassDef) else ():
        if isinstance(node, ast.FunctionDef):
            is_first = node.name in CONSTRUCTORS
            given = {one.arg for one in inside(node.args, ast.arg) if names_number(one.annotation)}
            for target, value in (pair for inner in inside(node, ast.Assign) for pair in bindings(inner)):
                if _limits_number(value) or (is_first and _gives_number(value, given)):
                    found.update(filter(None, [place(target)]))
    return found


def _gives_number(value: ast.expr, given: Set[str]) -> bool:
    return is_number(value) or (isinstance(value, ast.Name) and value.id in given)


def _limits_number(value: ast.expr) -> bool:
    """Return whether an expression is the smaller or larger one of a number and a constant: `min(self.span + 1, 8)`."""
    if not isinstance(value, ast.Call) or dotted(value.func) not in ("min", "max") or len(value.args) < 2:
        return False
    return any(_gives_number(one, set()) for one in value.args)
