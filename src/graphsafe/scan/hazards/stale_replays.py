"""Finds lines that make a replay use stale values, from a table of the tensors that captures use.

A graph reads and writes the memory that its capture used. This module finds three faults. A line assigns another tensor
to an input's name after the capture. A value is computed from an input before the capture. A line uses an output before
a replay has computed it, or after the next replay has overwritten it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    CaptureBlock,
    Function,
    Line,
    ancestors,
    called_name,
    calls_in,
    following,
    is_host,
    is_plain_replay,
    loop_around,
    makes_tensor,
    own,
    own_nodes,
    parents_in,
    place,
    viewed,
    written,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, targets
from graphsafe.scan.hazards.inputs import not_refreshed
from graphsafe.scan.hazards.keys import bucket_inputs
from graphsafe.scan.hazards.outputs import awaited, fed_back, kept_again, kept_outputs
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import matched
from graphsafe.scan.symbols.index import dotted, elements

VIEWS = frozenset(
    "view view_as reshape flatten squeeze unsqueeze transpose permute t T mT expand expand_as narrow select detach"
    " chunk split unbind size shape dtype device numel dim stride data_ptr is_contiguous clone copy_ fill_ zero_"
    " contiguous element_size ndim nelement get_device new_empty new_zeros new_ones new_full new_tensor"
    " to type cuda".split()
)
"Methods and attributes that share their tensor's memory, read only its shape or type, or copy it for a warm-up."
EVALUATES = frozenset(
    "argmax argmin argsort topk multinomial softmax log_softmax mean sum cumsum item tolist cpu numpy".split()
)
FORM_ALONE = frozenset("empty_like zeros_like ones_like full_like rand_like randn_like isinstance len type id".split())


def lines(found: Tables) -> Iterator[Line]:
    around = {name: known for name, _, known in found.functions}
    makers = {name: node for name, node, _ in found.functions if "." not in name}
    keys = bucket_inputs.refilled(found)
    for table in found.all:
        yield from _bound_later(table)
        for name in sorted(table.capturing):
            refreshed = bucket_inputs.names(table, table.functions[name], keys)
            yield from _derived_before(table, name, around[name], makers, refreshed)
        yield from _read_before_replay(table)
        yield from not_refreshed.lines(found, table)
        yield from _copied_once(table)
        yield from fed_back.lines(table)
    yield from not_refreshed.copies_left_out(found)
    yield from kept_outputs.lines(found)
    yield from awaited.lines(found)
    yield from kept_again.lines(found)


def _bound_later(table: GraphTensors) -> Iterator[Line]:
    """Yield assignments to an input's name after the capture. Such a line is in a function that does not replay, or it
    comes after a replay."""
    if not table.is_replayed:
        return
    for name in sorted(table.inputs):
        # A name that no line fills and that is not an attribute may stand for a module, a number or a configuration,
        # unless another function makes a tensor for an entry of a shared dict: `state["h"] = torch.zeros(n)`.
        known = table.is_refreshed(name) or name.startswith("self.")
        for function, made in table.bound.get(name, ()):
            if not known and not ("[" in name and makes_tensor(made.value)):
                continue
            apart = function not in table.preparing and function not in table.replaying
            if (apart or _is_for_the_next(table, function, made)) and not is_host(made.value):
                # A function that fills an input in place certainly provides the graph's inputs.
                fills = any(function == filling for one in table.inputs for filling, _ in table.filled.get(one, ()))
                certain = table.is_refreshed(name) or fills or _makes_tensors(made.value, table)
                yield Line(function, "input-rebound", made, name, "likely" if certain else "possible")


def _makes_tensors(value: ast.expr, table: GraphTensors) -> bool:
    """Return whether an expression makes a new tensor, or calls a method that returns only new tensors."""
    if makes_tensor(value):
        return True
    name = dotted(value.func) or "" if isinstance(value, ast.Call) else ""
    method = next((node for one, node in table.functions.items() if name == f"self.{one.rpartition('.')[2]}"), None)
    results = [node.value for node in own(method, ast.Return) if node.value is not None] if method is not None else []
    return bool(results) and all(map(_holds_new_tensors, results))


def _holds_new_tensors(value: ast.expr) -> bool:
    """Return whether an expression is a new tensor, or a list, tuple or dict of new tensors."""
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return _holds_new_tensors(value.elt)
    if isinstance(value, ast.DictComp):
        return _holds_new_tensors(value.value)
    if isinstance(value, ast.Call) and dotted(value.func) in ("tuple", "list") and value.args:
        return _holds_new_tensors(value.args[0])
    parts = value.values if isinstance(value, ast.Dict) else elements(value)
    return makes_tensor(value) or (parts != [value] and bool(parts) and all(map(_holds_new_tensors, parts)))


def _is_for_the_next(table: GraphTensors, function: str, made: ast.Assign) -> bool:
    """Return whether a method assigns an attribute after its last replay. The next call then replays on the old
    tensor."""
    if function in table.capturing or function not in table.replaying:
        return False
    parents = parents_in(table.functions[function])
    replays = filter(is_plain_replay, own(table.functions[function], ast.Call))
    return (
        isinstance(parents.get(made), (ast.FunctionDef, ast.AsyncFunctionDef, ast.With))
        and all(replay.lineno < made.lineno for replay in replays)
        and loop_around(made, parents) is None
    )


def _derived_before(
    table: GraphTensors,
    function: str,
    known: Sequence[GraphTensors],
    makers: Mapping[str, Function],
    in_buckets: Set[str],
) -> Iterator[Line]:
    """Yield values that a capture reads, if they were computed before the capture from a tensor that is refilled later.

    `known` are the tables of all names that are visible in the function, because a local name may be computed from an
    attribute. `in_buckets` are the inputs that a replaying function refills under a key or an attribute.
    """
    refreshed = {name for seen in known for name in seen.filled if seen.is_refreshed(name)} | in_buckets
    for name in sorted(table.inputs - refreshed):
        # `e = Entry()` binds `e.half` too, before `e.half = e.lens // 2`.
        bound = [one for one in table.bound.get(name, ()) if name in map(place, targets(one[1]))]
        if len(bound) != 1 or bound[0][0] != function or name in table.filled:
            continue
        if in_buckets and bucket_inputs.is_kept(table.functions[function], name):
            continue  # another method may refresh this value
        _, made = bound[0]
        precedes = any(made.lineno < block.lineno for block in table.blocks)
        if precedes and any(_computes_from(made.value, text, makers) for text in refreshed):
            yield Line(function, "derived", made, name)


def _computes_from(value: ast.expr, text: str, makers: Mapping[str, Function]) -> bool:
    """Return whether an expression computes with a tensor's values. The result then has its own memory.

    `makers` are the functions of the file; a call of one of them may compute too.
    """
    parents = {child: parent for parent in ast.walk(value) for child in ast.iter_child_nodes(parent)}
    for inner in ast.walk(value):
        if (
            not isinstance(inner, ast.expr)
            or place(inner) != text
            or not isinstance(getattr(inner, "ctx", None), ast.Load)
        ):
            continue
        node: ast.AST = inner
        while node in parents:
            parent = parents[node]
            if isinstance(parent, (ast.BinOp, ast.Compare, ast.UnaryOp)):
                return True
            if isinstance(parent, ast.Attribute):
                if parent.attr in VIEWS:
                    break
                if isinstance(parents.get(parent), ast.Call):
                    return True
                break
            if isinstance(parent, ast.Call):
                name = dotted(parent.func) or ""
                if name in makers:
                    return _returns_computed(makers[name], parent, node)
                return name.startswith("torch.") and name.rpartition(".")[2] not in FORM_ALONE | VIEWS
            node = parent
    return False


def _returns_computed(maker: Function, call: ast.Call, given: ast.AST) -> bool:
    """Return whether each result of a function is computed from the parameter that receives the argument `given`."""
    parameter = next((one.arg for value, one in matched(call, maker) if value is given), None)
    if parameter is None:
        return False
    bound = {place(node.targets[0]): node.value for node in own(maker, ast.Assign)}
    results = [node.value for node in own(maker, ast.Return)]
    computed = {name for name, value in bound.items() if name is not None and _computes_from(value, parameter, {})}
    return bool(results) and all(
        value is not None and any(_computes_from(value, name, {}) for name in (parameter, *sorted(computed)))
        for value in results
    )


def _copied_once(table: GraphTensors) -> Iterator[Line]:
    """Yield the lines in a replaying loop that compute the next value of a name, although only the value from before
    the loop was copied into an input: `self.place.copy_(place)`, and then `place = place + 1` after each replay."""
    methods = {name.rpartition(".")[2] for name in table.functions}
    for function in sorted(table.replaying):
        parents = parents_in(table.functions[function])
        loaded = [name for name in own(table.functions[function], ast.Name) if isinstance(name.ctx, ast.Load)]
        calls = own(table.functions[function], ast.Call)
        copies = [call for call in calls if called_name(call) == "copy_" and call.args]
        for loop in [node for node in parents if isinstance(node, LOOPS)]:
            within = [*ast.walk(loop)]
            calls = calls_in([loop])
            if not any(map(is_plain_replay, calls)) or any(called_name(call) in methods for call in calls):
                continue
            used = {place(node) for node in within if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))}
            given: dict[str | None, str] = {}
            for call in copies:
                text = place(call.func.value) if isinstance(call.func, ast.Attribute) else None
                if text is not None and text in table.inputs - table.overwritten - used and call.lineno < loop.lineno:
                    given[place(call.args[0])] = text
            for step in [node for node in within if isinstance(node, (ast.Assign, ast.AugAssign))]:
                name = next((one.id for one in targets(step) if isinstance(one, ast.Name)), None)
                read = {one for one in loaded if one.id == name and one.lineno >= loop.lineno}
                used_here = {one for one in inside(step.value, ast.Name) if one.id == name}
                if name in given and read == used_here and (used_here or isinstance(step, ast.AugAssign)):
                    yield Line(function, "copied-once", step, given[name])


def _read_before_replay(table: GraphTensors) -> Iterator[Line]:
    """Yield uses of an output between its capture and the first replay."""
    ends = {name.rpartition(".")[2] for name in table.replaying}
    for function in sorted(table.capturing):
        parents = parents_in(table.functions[function])
        replays = function in table.replaying
        for block in [block for block in table.blocks if block in parents]:
            is_first = replays and _takes_arguments(table, table.functions[function], block)
            outputs = set(table.outputs)
            for statement in _all_following(block, parents):
                inner = [*ast.walk(statement)]
                may_replay = _may_replay(inner, table, block, ends)
                if any(map(is_plain_replay, inner)) or (may_replay and not replays):
                    break
                is_first = is_first and not may_replay
                read = (_used if replays else _evaluated)(statement, outputs)
                if read is None and is_first and isinstance(statement, ast.Return):
                    parts = elements(statement.value) if statement.value is not None else ()
                    read = next((part for part in parts if viewed(part) in outputs), None)
                if read is not None:
                    yield Line(function, "not-replayed", read, ast.unparse(read))
                    break
                if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                    break
                outputs -= {place(part) or "" for node in inner for part in targets(node)}  # now other tensors
                filled = [written(node) for node in inner if isinstance(node, ast.Call)]
                outputs -= {viewed(one) or "" for one in filled if one is not None}


def _takes_arguments(table: GraphTensors, function: Function, block: CaptureBlock) -> bool:
    """Return whether the inputs of a capture are the arguments of the function's first call. If so, the first call must
    return a result."""
    given = {one.arg for one in inside(function.args, ast.arg)} - {"self"}
    writes = [(node, target) for _, node in own_nodes(function) if (target := written(node)) is not None]
    filling = [node for node, target in writes if target.lineno <= block.lineno and viewed(target) in table.inputs]
    return any(name.id in given for node in filling for name in inside(node, ast.Name))


def _may_replay(nodes: Sequence[ast.AST], table: GraphTensors, block: CaptureBlock, replaying: set[str]) -> bool:
    """Return whether a statement captures once more, or calls a function that replays or receives the graph."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    around = [item.context_expr for item in block.items]
    graphs = {place(one.args[0]) for one in around if isinstance(one, ast.Call) and one.args} - {None}
    return (
        any(node in table.blocks for node in nodes)
        or any("replay" in (name := called_name(call)) or name in replaying for call in calls)
        or any(place(one) in graphs for call in calls for one in call.args)
    )


def _all_following(block: ast.stmt, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.stmt]:
    """Yield the statements that run after a block, first those in the same branch and then those after the branch."""
    for child in (block, *ancestors(block, parents)):
        yield from following(child, parents)
        if isinstance(parents.get(child), LOOPS):
            return


def _evaluated(statement: ast.stmt, outputs: set[str]) -> ast.expr | None:
    """Return the call of an output's method in a statement, if only tensors have such a method."""
    for call in inside(statement, ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in EVALUATES and place(function.value) in outputs:
            return call
    return None


def _used(statement: ast.stmt, outputs: set[str]) -> ast.expr | None:
    """Return the expression of a statement that computes with an output."""
    for inner in ast.walk(statement):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and place(inner.func.value) in outputs:
            if inner.func.attr not in VIEWS - {"clone", "to"}:
                return inner
        elif isinstance(inner, ast.BinOp) and {place(inner.left), place(inner.right)} & outputs:
            return inner
    return None
