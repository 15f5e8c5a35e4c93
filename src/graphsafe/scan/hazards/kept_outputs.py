"""Finds callers that keep an output of a graph past the next replay.

A function gives an output if it returns the output itself (not a copy), alone or in a tuple. It also gives an output if
it returns the result of another function that gives one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    Function,
    Line,
    called_name,
    loop_around,
    own_nodes,
    parents_in,
    place,
    viewed,
    with_views,
)
from graphsafe.scan.hazards.graph_tensors import Tables, bindings
from graphsafe.scan.hazards.kept_graphs import results_of
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted, elements

_GRAPHED = "<graphed>."
"The prefix for names of callables whose graphs PyTorch captures."
_COMPILED = f"{_GRAPHED}<compiled>."
"The prefix for callables made by torch.compile. A call invalidates the last outputs before it copies inputs."
KEEPS = frozenset(("append", "appendleft", "add", "put", "insert"))
HANDS_OUT = frozenset(("set_result", "put_nowait"))
"Methods that pass a value to code which may read the value at any later time."
Parents = Mapping[ast.AST, ast.AST]


@dataclass(frozen=True, slots=True)
class _Given:
    """The outputs that a function returns."""

    value: ast.expr
    parts: frozenset[int] | None = None
    "The elements of the returned tuple that are outputs, or None if the whole value is an output."

    def names(self, target: ast.expr) -> frozenset[str]:
        """Return the names that hold outputs after a call's result is bound to a target or unpacked into it."""
        parts = enumerate(elements(target))
        whole = self.parts is None or isinstance(target, ast.Name)
        return frozenset(
            part.id for i, part in parts if isinstance(part, ast.Name) and (whole or i in (self.parts or ()))
        )


def lines(found: Tables) -> Iterator[Line]:
    """Yield lines that keep the output of a function of the same file, and the returns of replaying functions."""
    replaying = {
        name: given
        for table in found.all
        for name in sorted(table.replaying)
        if (given := _returned(table.functions[name], results_of(table, table.functions[name]))) is not None
    }
    graphed = {name: _Given(call) for name, call in _graphed(found)}
    if not replaying and not graphed:
        return
    giving = replaying | graphed
    names = _names(found, giving)
    for function, node, _ in found.functions:
        if function not in giving and (passed := _passed_on(node, giving, names)) is not None:
            giving[function] = passed
    names = _names(found, giving)
    kept: set[str] = set()
    for handed in _handed_on(found, giving, names):
        kept.add(handed.source)
        yield _line(handed.function, handed.node)
    for function, node, _ in found.functions:
        parents = parents_in(node)
        made = [inner for inner in parents if isinstance(inner, ast.Call) and called_name(inner) in names]
        for call in made:
            name = names[called_name(call)]
            result = with_views(call, parents) if giving[name].parts is None else call
            keeping = _keeps(result, giving[name], parents) or _fed_back(call, name, parents)
            holder = parents.get(result) if keeping is result else keeping
            if isinstance(holder, ast.Call) and found.only_copies(called_name(holder)):
                continue
            if keeping is not None or _read_after_next(call, giving[name], made, parents):
                kept.add(name)
                line = keeping or call
                yield Line(
                    function, "output-kept", line, ast.unparse(line.func if isinstance(line, ast.Call) else line)
                )
    for name in sorted(kept & replaying.keys()):
        yield _line(name, replaying[name].value)


def _line(function: str, node: ast.expr) -> Line:
    return Line(function, "output-kept", node, ast.unparse(node))


# functions that give outputs


def _returned(function: Function, outputs: Set[str]) -> _Given | None:
    """Return the outputs that a function returns without a copy."""
    for _, inner in own_nodes(function):
        value = inner.value if isinstance(inner, ast.Return) else None
        if value is None:
            continue
        if viewed(value) in outputs:
            return _Given(value)
        if isinstance(value, ast.Tuple):
            parts = frozenset(i for i, part in enumerate(value.elts) if viewed(part) in outputs)
            if parts:
                return _Given(value, parts)
    return None


def _passed_on(function: Function, giving: Mapping[str, _Given], names: Mapping[str, str]) -> _Given | None:
    """Return the outputs that a function receives from another function and returns."""
    held: set[str] = set()
    for _, inner in own_nodes(function):
        if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Call) and called_name(inner.value) in names:
            return _Given(inner.value, giving[names[called_name(inner.value)]].parts)
        if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Call) and called_name(inner.value) in names:
            held |= giving[names[called_name(inner.value)]].names(inner.targets[0])
    # A name that is assigned more than once may stand for another value when the function returns.
    stored = [inner.id for _, inner in own_nodes(function) if isinstance(inner, ast.Name) and _is_stored(inner)]
    return _returned(function, {name for name in held if stored.count(name) == 1})


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _names(found: Tables, giving: Mapping[str, _Given]) -> dict[str, str]:
    """Map the last part of a called name to the full name of the function that gives outputs."""
    names = {
        _end(name): name for name in giving if name.startswith(_GRAPHED) or found.functions_called(_end(name)) == 1
    }
    names.update(called_objects(found, giving))
    return names


def _returns_self(function: Function) -> bool:
    values = [inner.value for _, inner in own_nodes(function) if isinstance(inner, ast.Return)]
    return bool(values) and all(isinstance(value, ast.Name) and value.id == "self" for value in values)


def _class_made(call: ast.Call, chained: Set[str]) -> str | None:
    """Return the class of the object that a call makes: `Runner(model)`, or `Runner(model).build()` if `build` returns
    `self`."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        made = _class_made(function.value, chained)
        return made if f"{made}.{function.attr}" in chained else None
    return dotted(function)


def called_objects(found: Tables, functions: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of objects whose `__call__` is one of these functions, each with that function."""
    methods = {name.rpartition(".")[0]: name for name in functions if name.endswith(".__call__")}
    chained = {name for name, function, _ in found.functions if _returns_self(function)} if methods else set()
    for node in ast.walk(found.tree) if methods else ():
        if isinstance(node, ast.arg) and node.annotation is not None:
            method = methods.get(dotted(node.annotation) or "")
            if method is not None:
                yield node.arg, method
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            method = methods.get(_class_made(node.value, chained) or "")
            for target in node.targets if method is not None else ():
                yield (dotted(target) or "").rpartition(".")[2], method or ""


def _end(name: str) -> str:
    return name.rpartition(".")[2]


# graphs that PyTorch makes


def _graphed(found: Tables) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names of callables with graphs made by PyTorch: `torch.cuda.make_graphed_callables(model, (x,))`,
    `self.run = torch.compile(model, mode="reduce-overhead")`, a function with `@torch.compile(…)`."""
    for function, inner, _ in found.functions:
        for decorator in inner.decorator_list:
            if isinstance(decorator, ast.Call) and makes_graphs(decorator):
                yield f"{_COMPILED}{_end(function)}", decorator
    for node in inside(found.tree, ast.Assign):
        if not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        name = _end(place(node.targets[0]) or "")
        own = any(_end(function) == name for function, _, _ in found.functions)
        # After `step = torch.compile(step, …)`, calls by the function's name run the compiled function.
        if name and makes_graphs(node.value) and (not own or [place(one) for one in node.value.args[:1]] == [name]):
            compiled = dotted(node.value.func) == "torch.compile"
            yield f"{_COMPILED if compiled else _GRAPHED}{name}", node.value


def makes_graphs(call: ast.Call) -> bool:
    name = dotted(call.func) or ""
    if name.endswith("make_graphed_callables"):
        return True
    modes = [word.value for word in call.keywords if word.arg == "mode"]
    return name == "torch.compile" and any(
        isinstance(mode, ast.Constant) and mode.value in ("reduce-overhead", "max-autotune") for mode in modes
    )


# generators


class _Handed(NamedTuple):
    function: str
    node: ast.expr
    source: str
    "The function that gives the output."


def _handed_on(found: Tables, giving: Mapping[str, _Given], names: Mapping[str, str]) -> Iterator[_Handed]:
    """Yield the lines that collect the values of a generator: `kept = [*…]`, `list(runner.stream(frames))`."""
    outputs = set().union(*(table.overwritten for table in found.all))
    yielding: dict[str, tuple[str, int | None]] = {}
    for function, node, _ in found.functions:
        first = next(_yielded(function, node, outputs, names), None)
        if first is not None and found.functions_called(_end(function)) == 1:
            yielding[_end(function)] = first
    for function, node, _ in found.functions if yielding else ():
        parents = parents_in(node)
        for call in [inner for inner in parents if isinstance(inner, ast.Call) and called_name(inner) in yielding]:
            source, part = yielding[called_name(call)]
            if _collects(call, part, parents):
                yield _Handed(function, call, source)


def _yielded(
    function: str, node: Function, outputs: Set[str], names: Mapping[str, str]
) -> Iterator[tuple[str, int | None]]:
    """Yield the function whose output a generator yields without a copy, and the output's index in a tuple."""
    for _, inner in own_nodes(node):
        if isinstance(inner, ast.Yield) and inner.value is not None:
            is_tuple = isinstance(inner.value, ast.Tuple)
            for i, value in enumerate(elements(inner.value)):
                if viewed(value) in outputs:
                    yield function, i if is_tuple else None
                elif isinstance(value, ast.Call) and called_name(value) in names:
                    yield names[called_name(value)], i if is_tuple else None


def _collects(call: ast.Call, part: int | None, parents: Parents) -> bool:
    parent = parents.get(call)
    if isinstance(parent, (ast.Starred, ast.Call)):
        return isinstance(parent, ast.Starred) or (dotted(parent.func) in ("list", "tuple", "dict", "sorted", "deque"))
    around = parents.get(parent) if isinstance(parent, ast.comprehension) else parent
    if isinstance(around, (ast.ListComp, ast.SetComp)) and isinstance(parent, ast.comprehension):
        return any(viewed(value) in _bound(parent.target, part) for value in elements(around.elt))
    return False


def _bound(target: ast.expr, part: int | None) -> set[str]:
    """Return the loop variables that hold the items or, given `part`, only that element of each item."""
    named = elements(target)
    if part is None or isinstance(target, ast.Name):
        return {one.id for one in named if isinstance(one, ast.Name)} if len(named) == 1 else set()
    one = named[part] if part < len(named) else None
    return {one.id} if isinstance(one, ast.Name) else set()


# callers that keep outputs


def _keeps(call: ast.expr, given: _Given, parents: Parents) -> ast.expr | ast.Assign | None:
    """Return the expression that keeps a call's result, or a part of it, while further calls follow."""
    parent = parents.get(call)
    if isinstance(parent, (ast.ListComp, ast.SetComp)):
        return call if parent.elt is call else None
    if isinstance(parent, ast.Assign):
        names = given.names(parent.targets[0])
        if names:
            return _keeps_name(parent, names, parents) or _carries(parent, names, parents)
    _, held = put(parent) if parent is not None else (None, ())
    return call if call in held and loop_around(call, parents) is not None else None


def _fed_back(call: ast.Call, name: str, parents: Parents) -> ast.Assign | None:
    """Return the line that feeds a compiled callable its last output: `self.state = self.run(x, self.state)`."""
    made = parents.get(call)
    if not name.startswith(_COMPILED) or not isinstance(made, ast.Assign):
        return None
    given = set(map(place, (*call.args, *(word.value for word in call.keywords)))) - {None}
    around = loop_around(call, parents)
    again = [node for node in (parents if around is None else ast.walk(around)) if isinstance(node, ast.Assign)]
    for text in (place(part) for target in made.targets for part in elements(target)):
        others = [node for node in again if node is not made and text in map(place, node.targets)]
        if text in given and (around is not None or (text or "").startswith("self.")) and not others:
            return made
    return None


def _keeps_name(made: ast.Assign, names: Set[str], parents: Parents) -> ast.Call | ast.Assign | None:
    """Return the line that puts a result, without a copy, into a container that outlives the iteration or the call:
    `y = run(x); kept.append(y)`."""
    is_looped = loop_around(made, parents) is not None
    for inner in (inner for statement in _following(made, parents) for inner in ast.walk(statement)):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names = names - {inner.id}
        holder, held = put(inner)
        outlives = is_looped or (holder is not None and (place(holder) or "").startswith("self."))
        if outlives and any(shown(part, parents) in names for value in held for part in elements(value)):
            assert isinstance(inner, (ast.Call, ast.Assign))
            return inner
    return None


def put(node: ast.AST, methods: Set[str] = KEEPS) -> tuple[ast.expr | None, Sequence[ast.expr]]:
    """Return the container into which a line puts values, and the values: `kept.append(y)`, `kept[key] = y`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
        return node.func.value, node.args
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Tuple)):
        assert isinstance(node, ast.Assign)
        return target.value, [node.value]
    return None, ()


def _carries(made: ast.Assign, names: Set[str], parents: Parents) -> ast.Assign | None:
    """Return the line with which a loop keeps a result, if the next iteration reads the result after its own call:
    `y = run(x); change = y - last; last = y`."""
    loop = parents.get(made)
    if not isinstance(loop, LOOPS):
        return None
    between: list[ast.stmt] = []
    for statement in _following(made, parents):
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name)
            and target.id not in names
            and viewed(value) in names
            and _reads_first(between, target.id)
            for target, value in bindings(statement)
        ):
            return statement
        between.append(statement)
    return None


def _reads_first(statements: Sequence[ast.stmt], name: str) -> bool:
    """Return whether statements read a name before they reassign it."""
    for statement in statements:
        uses = [node for node in inside(statement, ast.Name) if node.id == name]
        if uses:
            return any(isinstance(node.ctx, ast.Load) for node in uses)
    return False


def _following(statement: ast.stmt, parents: Parents) -> Sequence[ast.stmt]:
    """Return the statements after a statement, in the same block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parents.get(statement), name, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return ()


def shown(value: ast.expr, parents: Parents) -> str | None:
    """Return the name whose memory an expression shares: `y` for `y[0]`, and for `y[i]` if a loop counts in `i`."""
    if isinstance(value, ast.Subscript):
        index = value.slice
        if isinstance(index, ast.Constant) or (isinstance(index, ast.Name) and _counts(index.id, parents)):
            value = value.value
    return viewed(value)


def _counts(name: str, parents: Parents) -> bool:
    for node in parents:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            maker = dotted(node.iter.func)
            first = elements(node.target)[0] if maker == "enumerate" else node.target
            if maker in ("enumerate", "range") and isinstance(first, ast.Name) and first.id == name:
                return True
    return False


def _read_after_next(call: ast.Call, given: _Given, made: Sequence[ast.Call], parents: Parents) -> bool:
    """Return whether a name that holds the result is read after the next call: `a = run(x); b = run(y); a - b`."""
    parent = parents.get(call)
    if not isinstance(parent, ast.Assign):
        return False
    names = given.names(parent.targets[0])
    again = False
    for statement in _following(parent, parents) if names else ():
        inner = [*ast.walk(statement)]
        reads = any(isinstance(node, ast.Name) and node.id in names and not _is_stored(node) for node in inner)
        if reads and again:
            return True
        names = names - {node.id for node in inner if isinstance(node, ast.Name) and _is_stored(node)}
        later = [other for other in made if other is not call and other in inner]
        again = again or any(ast.unparse(other.func) == ast.unparse(call.func) for other in later)
    return False
