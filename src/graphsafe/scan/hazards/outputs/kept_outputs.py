"""Finds callers that keep an output of a graph past the next replay. outputs/givers.py finds the functions that return
outputs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    Function,
    Line,
    ancestors,
    arguments_of,
    called_name,
    following,
    is_plain_replay,
    loop_around,
    own,
    parents_in,
    place,
    run_together,
    shared_loop,
    stored_names,
    viewed,
    with_views,
)
from graphsafe.scan.hazards.graph_tensors import Tables, bindings
from graphsafe.scan.hazards.kept_graphs import landings
from graphsafe.scan.hazards.outputs.for_next_call import kept_for_next
from graphsafe.scan.hazards.outputs.givers import (
    COMPILED,
    Given,
    end_of,
    graphed_callables,
    is_stored,
    names_of,
    outputs_by_graph,
    outputs_of_other,
    passed_on,
    replaying,
    source_of,
)
from graphsafe.scan.hazards.outputs.kept_values import Parents, only_reads, put, shown
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import matched
from graphsafe.scan.symbols.index import dotted, elements

HANDS_OUT = frozenset(("set_result", "put_nowait"))
"Methods that pass a value to other code, which may read the value at any later time."


def lines(found: Tables) -> Iterator[Line]:
    """Yield lines that keep an output of a graph. A function of the same file, or a method of an imported class,
    returns this output. If a function of the file replays the graph itself, the expression that it returns is also
    yielded."""
    replayed = replaying(found)
    graphed = {name: Given(call) for name, call in graphed_callables(found)}
    imported = {name: Given(ast.Name(name), parts) for name, parts in found.imported.items()}
    giving = imported | replayed | graphed
    names = names_of(found, giving)
    for function, node, _ in found.functions:
        if function not in giving and (passed := passed_on(node, giving, names)) is not None:
            giving[function] = passed
    names = names_of(found, giving)
    kept: set[str] = set()
    for source, line in _handed_on(found, names):
        kept.add(source)
        yield line
    for function, node, _ in found.functions:
        parents = parents_in(node)
        made = [call for call in own(node, ast.Call) if source_of(call, names) is not None]
        for call in made:
            name = source_of(call, names) or ""
            result = with_views(call, parents) if giving[name].parts is None else call
            keeping = (
                _keeps(result, giving[name], made, parents)
                or _fed_back(call, name, parents)
                or _for_next_call(call, giving[name], node)
            )
            holder = parents.get(result) if keeping is result else keeping
            if isinstance(holder, ast.Call) and only_reads(found, called_name(holder)):
                continue
            if keeping is not None or _read_after_next(call, giving[name], made, parents):
                kept.add(name)
                at = keeping or call
                yield Line(function, "output-kept", at, ast.unparse(at.func if isinstance(at, ast.Call) else at))
    for name in sorted(kept & replayed.keys()):
        yield _line(name, replayed[name].value)
    yield from _kept_by_methods(found)
    yield from _kept_around(found)
    yield from _landings_kept(found)


def _line(function: str, node: ast.expr) -> Line:
    return Line(function, "output-kept", node, ast.unparse(node))


def _kept_by_methods(found: Tables) -> Iterator[Line]:
    """Yield the lines in which a method keeps an output that a replaying function passes to it: `self.held.append(y)`
    for `callback.on_step(self.y)`."""
    methods = [(name, node) for name, node, _ in found.functions if "." in name]
    for table in found.all:
        for function in sorted(table.replaying):
            calls = own(table.functions[function], ast.Call)
            first = min(call.lineno for call in calls if is_plain_replay(call))
            for call in [one for one in calls if one.lineno > first]:
                for name, method in methods if isinstance(call.func, ast.Attribute) else ():
                    if end_of(name) == called_name(call):
                        given = [one.arg for value, one in matched(call, method) if viewed(value) in table.overwritten]
                        yield from (_line(name, line) for line in _kept_of(method, {*given}, found))


def _landings_kept(found: Tables) -> Iterator[Line]:
    """Yield the lines that put a buffer for outputs, without a copy, into a container of the object:
    `self.results.append(self.host)`."""
    for table in found.all:
        buffers = {*landings(table)}
        for name, function in table.functions.items() if buffers else ():
            yield from (_line(name, line) for line in _kept_of(function, buffers, found))


def _kept_around(found: Tables) -> Iterator[Line]:
    """Yield the lines of loops that replay an object's graph from outside and keep the object's output:
    `runner.graph.replay(); kept.append(runner.y)`."""
    outputs = outputs_by_graph(found)
    for function, node, _ in found.functions if outputs else ():
        parents = parents_in(node)
        stored = _of_several_objects(parents)
        for replay in filter(is_plain_replay, own(node, ast.Call)):
            names = _of_one_object(replay, outputs, stored)
            for line in [inner for inner in parents if isinstance(inner, (ast.Call, ast.Assign))]:
                holder, held = put(line)
                if (
                    (holder is not None and place(holder) not in names)
                    and any(shown(part, parents) in names for value in held for part in elements(value))
                    and (shared_loop(line, replay, parents) is not None or _outlives(holder, line, replay))
                    and run_together(replay, line, parents)
                    and not found.functions_called(called_name(line) if isinstance(line, ast.Call) else "")
                ):
                    yield Line(function, "output-kept", line, ast.unparse(held[-1]))


def _outlives(holder: ast.expr, line: ast.AST, replay: ast.Call) -> bool:
    """Return whether a line after a replay puts an output into a container of the object, which the next call uses
    too."""
    is_own = (place(holder) or "").startswith("self.")
    return is_own and isinstance(line, (ast.expr, ast.stmt)) and line.lineno > replay.lineno


def _of_one_object(replay: ast.Call, outputs: Mapping[str, Sequence[Set[str]]], stored: Set[str]) -> set[str]:
    """Return the outputs of another object whose graph a call replays. A name that the function binds several times, or
    in a loop, may stand for several objects, so the `stored` names are left out."""
    return {text for text in outputs_of_other(replay, outputs) if text.partition(".")[0] not in stored}


def _of_several_objects(parents: Parents) -> set[str]:
    """Return the local names that may stand for several objects: a function binds them more than once, or in a loop."""
    bound = [node for node in parents if isinstance(node, ast.Name) and is_stored(node)]
    several = [name for name, count in Counter(node.id for node in bound).items() if count > 1]
    return {*several, *(node.id for node in bound if loop_around(node, parents) is not None)}


def _kept_of(method: Function, given: Set[str], found: Tables) -> Iterator[ast.Call]:
    """Yield the lines that put one of the given values, without a copy, into a container of the method's object."""
    parents = parents_in(method)
    for call in own(method, ast.Call) if given else ():
        holder, held = put(call)
        if holder is None or not (place(holder) or "").startswith("self.") or found.functions_called(called_name(call)):
            continue
        if any(shown(part, parents) in given - stored_names(parents) for value in held for part in elements(value)):
            yield call


# generators


def _handed_on(found: Tables, names: Mapping[str, str]) -> Iterator[tuple[str, Line]]:
    """Yield the lines that collect the values of a generator (`kept = [*…]`, `list(runner.stream(frames))`), each with
    the name of the function that returns the output."""
    outputs = set().union(*(table.overwritten for table in found.all))
    by_graph = outputs_by_graph(found)
    yielding: dict[str, tuple[str, int | None]] = {}
    for function, node, _ in found.functions:
        first = next(_yielded(function, node, outputs.union(_replayed_beside_yields(node, by_graph)), names), None)
        if first is not None and found.functions_called(end_of(function)) == 1:
            yielding[end_of(function)] = first
    for function, node, _ in found.functions if yielding else ():
        parents = parents_in(node)
        for call in [one for one in own(node, ast.Call) if called_name(one) in yielding]:
            source, part = yielding[called_name(call)]
            if _collects(call, part, parents):
                yield source, _line(function, call)


def _yielded(
    function: str, node: Function, outputs: Set[str], names: Mapping[str, str]
) -> Iterator[tuple[str, int | None]]:
    """Yield the function whose output a generator yields without a copy, and the output's index in a yielded tuple, if
    any."""
    for given in [inner.value for inner in own(node, ast.Yield) if inner.value is not None]:
        for i, value in enumerate(elements(given)):
            part = i if isinstance(given, ast.Tuple) else None
            if viewed(value) in outputs:
                yield function, part
            elif isinstance(value, ast.Call) and (source := source_of(value, names)) is not None:
                yield source, part


def _replayed_beside_yields(generator: Function, outputs: Mapping[str, Sequence[Set[str]]]) -> Iterator[str]:
    """Yield the outputs of other objects whose graphs a generator replays in a loop around a `yield`."""
    parents = parents_in(generator)
    yields = own(generator, ast.Yield) if outputs else []
    for replay in filter(is_plain_replay, own(generator, ast.Call)) if yields else ():
        if any(shared_loop(node, replay, parents) is not None for node in yields):
            yield from _of_one_object(replay, outputs, _of_several_objects(parents))


def _collects(call: ast.Call, part: int | None, parents: Parents) -> bool:
    parent = parents.get(call)
    if isinstance(parent, (ast.Starred, ast.Call)):
        return isinstance(parent, ast.Starred) or (dotted(parent.func) in ("list", "tuple", "dict", "sorted", "deque"))
    around = parents.get(parent) if isinstance(parent, ast.comprehension) else parent
    if isinstance(around, (ast.ListComp, ast.SetComp)) and isinstance(parent, ast.comprehension):
        return any(viewed(value) in _bound(parent.target, part) for value in elements(around.elt))
    return False


def _bound(target: ast.expr, part: int | None) -> set[str]:
    """Return the loop variables that hold the items or, if `part` is given, only this element of each item."""
    named = elements(target)
    if part is None or isinstance(target, ast.Name):
        return {one.id for one in named if isinstance(one, ast.Name)} if len(named) == 1 else set()
    one = named[part] if part < len(named) else None
    return {one.id} if isinstance(one, ast.Name) else set()


# callers that keep outputs


def _keeps(call: ast.expr, given: Given, made: Sequence[ast.Call], parents: Parents) -> ast.expr | ast.Assign | None:
    """Return the expression or line that keeps a call's result, or a part of the result, until after a later call."""
    parent = parents.get(call)
    if isinstance(parent, (ast.ListComp, ast.SetComp)):
        return call if parent.elt is call else None
    line = parents.get(parent) if isinstance(parent, ast.Tuple) else parent
    if isinstance(line, ast.Assign):
        pairs = (*bindings(line), (line.targets[0], line.value))
        names = next((given.names(target) for target, value in pairs if value is call), None)
        if names:
            return _keeps_name(line, names, made, parents) or carries(line, names, parents)
    holder, held = put(parent) if parent is not None else (None, ())
    outlives = loop_around(call, parents) is not None or (holder is not None and _is_of_object(holder, call, parents))
    return call if call in held and outlives else None


def _for_next_call(call: ast.Call, given: Given, function: Function) -> ast.Assign | None:
    """Return the line that keeps a result in an attribute which the next call reads after its replay: `y = run(x);
    change = y - self.last; self.last = y`."""
    made = parents_in(function).get(call)
    if not isinstance(made, ast.Assign) or function.name == "__init__":
        return None
    names = given.names(made.targets[0])
    return next(kept_for_next(function, made.lineno, names), None) if names else None


def _fed_back(call: ast.Call, name: str, parents: Parents) -> ast.Assign | None:
    """Return the line, if any, that passes the last output of a compiled callable to the same callable: `self.state =
    self.run(x, self.state)`."""
    made = parents.get(call)
    if not name.startswith(COMPILED) or not isinstance(made, ast.Assign):
        return None
    given = set(map(place, arguments_of(call))) - {None}
    around = loop_around(call, parents)
    again = [node for node in (parents if around is None else ast.walk(around)) if isinstance(node, ast.Assign)]
    for text in (place(part) for target in made.targets for part in elements(target)):
        others = [node for node in again if node is not made and text in map(place, node.targets)]
        if text in given and (around is not None or (text or "").startswith("self.")) and not others:
            return made
    return None


def _keeps_name(
    line: ast.Assign, names: Set[str], made: Sequence[ast.Call], parents: Parents
) -> ast.Call | ast.Assign | None:
    """Return the line that puts a result, without a copy, into a container that outlives the iteration or the call:
    `y = run(x); kept.append(y)`. A container that does not outlive the call is enough if the function calls `run` again
    afterwards."""
    is_looped = loop_around(line, parents) is not None
    again = [call.lineno for call in made if _is_same_call(call, line.value)]
    for inner in (inner for statement in following(line, parents) for inner in ast.walk(statement)):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names = names - {inner.id}
        if not isinstance(inner, (ast.Call, ast.Assign)):
            continue
        holder, held = put(inner)
        is_own = holder is not None and _is_of_object(holder, inner, parents)
        outlives = is_looped or is_own or (holder is not None and any(one > inner.lineno for one in again))
        if outlives and any(shown(part, parents) in names for value in held for part in elements(value)):
            return inner
    return None


def _is_of_object(holder: ast.expr, line: ast.AST, parents: Parents) -> bool:
    """Return whether a container belongs to the method's object, or to one of the objects that this object holds: `for
    request in self.running: request.scores.append(y)`."""
    text = place(holder) or ""
    owner = text.partition(".")[0]
    loops = [one for one in ancestors(line, parents) if isinstance(one, ast.For)]
    visited = (loop.iter for loop in loops if owner in stored_names(inside(loop.target, ast.Name)))
    # `batch = self.running` before `for request in batch:`
    made = [node for node in parents if isinstance(node, ast.Assign) and (place(node.value) or "").startswith("self.")]
    own_names = {"self", *stored_names(one for node in made for one in node.targets)}
    is_held = any(name.id in own_names for part in visited for name in inside(part, ast.Name))
    return text.startswith("self.") or ("." in text and is_held)


def _is_same_call(call: ast.Call, made: ast.expr) -> bool:
    return call is not made and any(
        isinstance(one, ast.Call) and ast.unparse(one.func) == ast.unparse(call.func) for one in ast.walk(made)
    )


def carries(made: ast.stmt, names: Set[str], parents: Parents) -> ast.Assign | None:
    """Return the line by which a loop keeps a result of the statement `made` for the next iteration: `last = y` in `y =
    run(x); change = y - last; last = y`. Such a line is returned only if the next iteration runs `made` again before it
    reads the kept result."""
    loop = parents.get(made)
    if not isinstance(loop, LOOPS):
        return None
    between: list[ast.stmt] = []
    for statement in following(made, parents):
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


def _read_after_next(call: ast.Call, given: Given, made: Sequence[ast.Call], parents: Parents) -> bool:
    """Return whether a name that is bound to the result is read after the next call: `a = run(x); b = run(y); a -
    b`."""
    parent = parents.get(call)
    if not isinstance(parent, ast.Assign):
        return False
    names = given.names(parent.targets[0])
    again = False
    for statement in following(parent, parents) if names else ():
        inner = [*ast.walk(statement)]
        reads = any(isinstance(node, ast.Name) and node.id in names and not is_stored(node) for node in inner)
        if reads and again:
            return True
        names = names - {node.id for node in inner if isinstance(node, ast.Name) and is_stored(node)}
        later = [other for other in made if other is not call and other in inner]
        again = again or any(ast.unparse(other.func) == ast.unparse(call.func) for other in later)
    return False
