"""Finds changes after a capture that the graph does not see: new weights and new learning rates. Also finds captures
that may fail unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from graphsafe.scan.domain.held import FROZEN_OPTIONS
from graphsafe.scan.domain.naming import BY_MODE
from graphsafe.scan.hazards.failure_handlers import Called, catches, swallows
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    arguments_of,
    called_name,
    calls_in,
    captures_in,
    is_host,
    is_plain_replay,
    own,
    own_nodes,
    parents_in,
    place,
    runs_beside,
)
from graphsafe.scan.hazards.graph_tensors import CONSTRUCTORS, GraphTensors, Tables, targets
from graphsafe.scan.hazards.outputs.givers import called_objects
from graphsafe.scan.hazards.owners import class_of, meant_in, of_one_object
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted, elements

_CASTS = {"half": "float16", "bfloat16": "bfloat16", "double": "float64", "float": "float32"}
"Name of a module's method -> the data type to which the method converts the parameters."
Owned = tuple[str, str]
"""The owner of a name, and the name. For an attribute of `self`, the owner is the class. For any other name, the owner
is an empty string."""


def lines(found: Tables) -> Iterator[Line]:
    for table in found.all:
        yield from _other_weights(table)
        yield from _other_memory(found, table)
        yield from _dropped_gradients(found, table)
    capturing = {name: node for name, node in found.by_name.items() if captures_in(node)}
    if any(_steps_optimizer(found, name, node) for name, node in capturing.items()):
        yield from _other_rates(found, set(capturing))
    yield from _swallowed(found, capturing)


# weights


def _other_weights(table: GraphTensors) -> Iterator[Line]:
    """Yield lines of later methods that assign a new tensor to a part of a module, if the captured block calls the
    module."""
    called = {
        text for call in table.captured_calls if (text := place(call.func)) is not None and text.startswith("self.")
    }
    for name, function in table.functions.items() if table.replaying else ():
        if name in table.preparing and name not in table.replaying:
            continue
        inside = turned_over(function)
        for _, node in own_nodes(function):
            changed = _weight_put(node)
            variable = changed.partition(".")[0] if changed is not None else ""
            changed = inside.get(variable, changed)
            if changed is not None and any(f"{changed}.".startswith(f"{module}.") for module in called):
                assert isinstance(node, (ast.expr, ast.stmt))
                yield Line(name, "weights-rebound", node, ast.unparse(node))


def _other_memory(found: Tables, table: GraphTensors) -> Iterator[Line]:
    """Yield lines after a capture that change the memory or mode of captured objects. Such a line moves a captured
    module to the host, converts its parameters, loads the state of a captured optimizer, or switches a module's
    mode."""
    captured = table.captured_calls
    modules = {text for call in captured if (text := place(call.func)) is not None}
    optimizers = {(dotted(call.func) or "").removesuffix(".step") for call in captured if _is_optimizer_step(call)}
    for name, function in table.functions.items() if table.replaying else ():
        for call in calls_in([function]) if function not in table.captured else ():
            holder, _, method = (dotted(call.func) or "").rpartition(".")
            is_moved = holder in modules and (
                method == "cpu" or (method == "to" and "'cpu'" in map(ast.unparse, call.args))
            )
            is_loaded = holder in optimizers and method == "load_state_dict" and _keeps_state(table, holder)
            is_switched = holder in modules and method == "eval" and _depends_on_mode(found.tree)
            cast = _cast(call) if holder in modules else None
            if not (is_moved or is_loaded or is_switched or cast) or not _is_later(found, table, name, call):
                continue
            if not is_switched:
                # A module that already has the data type keeps its memory.
                is_doubtful = cast is not None and (cast == "float32" or _names_before(found, table, cast))
                yield Line(name, "weights-rebound", call, ast.unparse(call), "possible" if is_doubtful else "likely")
            elif _switches(table, name, call):
                yield Line(name, "number-changed", call, f"{holder}.training")


def _cast(call: ast.Call) -> str | None:
    """Return the data type to which a call converts a module, or None: `net.half()`, `net.to(torch.float16)`."""
    method = called_name(call)
    if method in _CASTS:
        return _CASTS[method]
    given = arguments_of(call) if method == "to" else []
    names = [name.removeprefix("torch.") for one in given if (name := dotted(one) or "").startswith("torch.")]
    return next((_CASTS.get(name, name) for name in names if {name, _CASTS.get(name)} & {*_CASTS.values()}), None)


def _names_before(found: Tables, table: GraphTensors, cast: str) -> bool:
    """Return whether code that may run before the capture names a data type."""
    later = [node for name, node in table.functions.items() if name not in table.preparing]
    after = {id(node) for function in later for node in ast.walk(function)}
    words = {cast, *(name for name, meant in _CASTS.items() if meant == cast)}
    attributes = (node.attr for node in inside(found.tree, ast.Attribute) if id(node) not in after)
    strings = (node.value for node in inside(found.tree, ast.Constant) if id(node) not in after)
    return any(word in words for word in (*attributes, *strings))


def _keeps_state(table: GraphTensors, optimizer: str) -> bool:
    """Return whether an optimizer may keep tensors as its state. SGD without momentum keeps none."""
    assigned = [node for function in table.functions.values() for node in own(function, ast.Assign)]
    made = [node.value for node in assigned if optimizer in map(place, node.targets)]
    plain = [one for one in calls_in(made) if called_name(one) == "SGD" and len(one.args) < 3]
    return not any(all(keyword.arg not in ("momentum", None) for keyword in one.keywords) for one in plain)


def _is_later(found: Tables, table: GraphTensors, name: str, line: ast.expr) -> bool:
    """Return whether a line certainly runs between the capture and a replay, with no other capture after the line."""
    made = [*table.blocks, *table.handing]
    holding = {one: [node for node in made if node in parents_in(node_of)] for one, node_of in table.functions.items()}
    if holding[name]:
        return name in table.replaying and all(node.lineno < line.lineno for node in holding[name])
    last = name.rpartition(".")[2]
    classes = of_one_object(found, class_of(found, name))
    same = [one for one, _, _ in found.functions if one.rpartition(".")[2] == last]
    overridden = sum(class_of(found, one) in classes for one in same) > 1
    if (name in table.preparing and name not in table.replaying) or overridden:
        return False
    capturing = {one.rpartition(".")[2] for one, nodes in holding.items() if nodes}
    calling = {
        one.rpartition(".")[2]
        for one, function in table.functions.items()
        if holding[one] or any(called_name(call) in capturing for call in calls_in([function]))
    }
    if not calling <= capturing | CONSTRUCTORS:
        return False  # another method captures again
    replaying = {one.rpartition(".")[2] for one in table.replaying}
    if name in table.replaying or calling & CONSTRUCTORS:
        return True
    return len(same) == 1 and runs_beside(found.tree, last, replaying)


@memoize_on_node
def _depends_on_mode(tree: ast.Module) -> bool:
    """Return whether a file names a layer that behaves differently in training mode."""
    names = [*(node.attr for node in inside(tree, ast.Attribute)), *(node.id for node in inside(tree, ast.Name))]
    return any(map(BY_MODE.search, names))


def _switches(table: GraphTensors, name: str, call: ast.Call) -> bool:
    """Return whether a module was captured in training mode, and replays follow the call that switches it to evaluation
    mode."""
    module = (dotted(call.func) or "").removesuffix(".eval")
    later = [one for one in calls_in([table.functions[name]]) if one.lineno >= call.lineno]
    functions = [table.functions[other] for other in {name, *table.preparing}]
    assigned = [node for function in functions for node in own(function, ast.Assign)]
    made = [node.value for node in assigned if module in map(place, node.targets)]
    switched = any(called_name(one) == "eval" for one in calls_in(made)) or any(
        dotted(one.func) in (f"{module}.eval", f"{module}.train") and one not in later
        for function in functions
        for one in own(function, ast.Call)
    )
    return (
        any(map(is_plain_replay, later))
        and not switched
        and not any(dotted(one.func) == module for one in later)
        and (not module.startswith("self.") or any(dotted(one.func) == f"{module}.train" for one in later))
    )


@memoize_on_node
def turned_over(function: Function) -> Mapping[str, str]:
    """Map variables to modules. The variables stand for parameters, buffers or parts of these modules. `for p in
    self.net.parameters():` maps `p` to `self.net`, and `layer = self.layers[n]` maps `layer` to `self.layers`."""
    made = {place(node.targets[0]): node.value for node in own(function, ast.Assign)}
    parts = {
        name: text
        for name, value in made.items()
        if name is not None and "." not in name and (text := _holder(value)).startswith("self.")
    }
    return parts | {
        name.id: holder
        for loop in own(function, ast.For)
        for target, walked in _walks(loop.target, made.get(place(loop.iter) or "", loop.iter))
        for holder, _, walk in [(dotted(walked.func) or "").rpartition(".")]
        if walk.removeprefix("named_") in ("parameters", "buffers", "modules", "children")
        for name in elements(target)
        if isinstance(name, ast.Name)
    }


def _holder(value: ast.expr) -> str:
    """Return the object of which an expression is a part: `self.net.layers` for `self.net.layers[n]`, and `self.net`
    for `self.net.head`."""
    while isinstance(value, ast.Subscript):
        value = value.value
    return dotted(value) or ""


def _walks(target: ast.expr, walked: ast.expr) -> Iterator[tuple[ast.expr, ast.Call]]:
    """Yield each loop variable with the call that provides its values, also inside `zip(…)` and `enumerate(…)`."""
    if not isinstance(walked, ast.Call):
        return
    parts = elements(target)
    if dotted(walked.func) == "zip" and len(parts) == len(walked.args):
        for part, one in zip(parts, walked.args, strict=True):
            yield from _walks(part, one)
    elif dotted(walked.func) == "enumerate" and len(parts) == 2 and walked.args:
        yield from _walks(parts[1], walked.args[0])
    else:
        yield target, walked


def _weight_put(node: ast.AST) -> str | None:
    """Return the module or parameter to which a line assigns another tensor, or None: `net.w = Parameter(…)`,
    `setattr(net, …)`."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        holder, value = node.targets[0], node.value
        is_new = holder.attr == "data" or _makes_parameter(value)
        return dotted(holder.value) if is_new and not is_host(value) else None
    if not isinstance(node, ast.Call):
        return None
    if dotted(node.func) == "setattr" and len(node.args) == 3 and _makes_parameter(node.args[2]):
        return dotted(node.args[0])
    if isinstance(node.func, ast.Attribute) and node.func.attr == "load_state_dict":
        for keyword in node.keywords:
            if keyword.arg == "assign" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                return dotted(node.func.value)
    return None


def _makes_parameter(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and (dotted(value.func) or "").endswith("Parameter")


def _dropped_gradients(found: Tables, table: GraphTensors) -> Iterator[Line]:
    """Yield calls of `opt.zero_grad()` near a replay that computes gradients, if the optimizer steps outside the graph.
    The replay is in the same function, or in a method that this function calls.
    """
    inside = table.captured_calls
    if not any(called_name(call) == "backward" for call in inside) or any(map(_is_optimizer_step, inside)):
        return
    beside = {name: table.functions[name] for name in sorted(table.replaying - table.capturing)}
    names = {name.rpartition(".")[2] for name in beside} | {name for name, _ in called_objects(found, beside)}
    names = {name for name in names if name != "__call__" and found.functions_called(name) <= 1}
    for name, function, _ in found.functions if names else ():
        if name not in table.functions and any(called_name(call) in names for call in calls_in(function.body)):
            beside[name] = function
    for name, function in beside.items():
        calls = calls_in(function.body)
        for call in calls if any(map(_is_optimizer_step, calls)) else ():
            given = [word.value for word in call.keywords if word.arg == "set_to_none"] or call.args
            drops = all(isinstance(one, ast.Constant) and one.value is True for one in given)
            if called_name(call) == "zero_grad" and drops:
                yield Line(name, "grads-dropped", call, ast.unparse(call))


# learning rates


def _steps_optimizer(found: Tables, name: str, function: Function) -> bool:
    """Return whether the captured block of a function steps an optimizer, itself or through a function of the file."""
    by_name = {
        **{name.rpartition(".")[2]: node for name, node, _ in found.functions},
        **meant_in(found, class_of(found, name)),
    }
    for block in captures_in(function):
        calls = calls_in(block.body)
        called = [by_name[last] for call in calls if (last := called_name(call)) in by_name]
        if any(map(_is_optimizer_step, (*calls, *(call for other in called for call in calls_in(other.body))))):
            return True
    return False


def _is_optimizer_step(call: ast.Call) -> bool:
    holder, _, name = (dotted(call.func) or "").rpartition(".")
    return name == "step" and holder.rpartition(".")[2].startswith("opt")


def _other_rates(found: Tables, capturing: set[str]) -> Iterator[Line]:
    """Yield lines that change the learning rate of an optimizer's groups:
    `for group in opt.param_groups: group["lr"] = rate`."""
    schedules = {*_schedules(found)}
    for name, function, _ in found.functions:
        if name in capturing:
            continue
        for call in own(function, ast.Call):
            holder, _, method = (dotted(call.func) or "").rpartition(".")
            if method == "step" and not schedules.isdisjoint(_owned(found, name, holder)):
                yield Line(name, "rate-changed", call, ast.unparse(call.func))
        groups = {place(loop.target) for loop in own(function, ast.For) if _is_groups(loop.iter)} - {None}
        for _, node in own_nodes(function):
            target = next(iter(targets(node)), None)
            if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
                continue
            is_group = place(target.value) in groups or (
                isinstance(target.value, ast.Subscript) and _is_groups(target.value.value)
            )
            if is_group and target.slice.value in FROZEN_OPTIONS:
                assert isinstance(node, ast.stmt)
                yield Line(name, "rate-changed", node, ast.unparse(target))


def _schedules(found: Tables) -> Iterator[Owned]:
    """Yield the names of schedulers for an optimizer whose learning rate is not a tensor: `decay = ExponentialLR(opt,
    0.9)`."""
    made: dict[Owned, ast.Call] = {}
    for function, body in [("", found.tree), *((name, node) for name, node, _ in found.functions)]:
        for node in own(body, ast.Assign):
            text = place(node.targets[0])
            if text is not None and isinstance(node.value, ast.Call):
                made[_owned(found, function, text)[0]] = node.value
    for (cls, name), call in made.items():
        text = place(call.args[0]) if call.args else None
        optimizer = next((made[one] for one in _owned(found, cls, text or "") if one in made), None)
        if optimizer is None or ".lr_scheduler." not in f".{dotted(call.func)}":
            continue
        if not any(word.arg == "lr" and "ensor" in ast.unparse(word.value) for word in optimizer.keywords):
            yield cls, name


def _owned(found: Tables, function: str, name: str) -> Sequence[Owned]:
    """Return the possible owners of a name in a function, each with the name. An attribute of `self` may belong to
    several classes; the function's own class comes first."""
    if not name.startswith("self."):
        return [("", name)]
    return [(cls, name) for cls in of_one_object(found, class_of(found, function))]


def _is_groups(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "param_groups"


# failures


def _swallowed(found: Tables, capturing: dict[str, Function]) -> Iterator[Line]:
    """Yield the handlers that swallow a capture's failure because the capturing function is called inside `try` or
    `suppress`."""
    names = {name.rpartition(".")[2] for name in capturing}
    unique = {name for name in names if found.functions_called(name) == 1}
    for name, function, _ in found.functions if capturing else ():
        owner = name.rpartition(".")[0]
        methods = meant_in(found, class_of(found, name))
        captures = {f"self.{last}" for last in names if methods.get(last) in capturing.values()}
        for _, node in own_nodes(function) if name not in capturing else ():
            if not isinstance(node, (ast.Try, ast.With)):
                continue
            calls = (one for one in calls_in(node.body) if called_name(one) in unique or dotted(one.func) in captures)
            call = next(calls, None)
            ends = _ends(node, call, function, partial(_own, found.by_name, owner)) if call is not None else iter(())
            end = next(ends, None)
            if call is not None and end is not None:
                yield Line(name, "swallowed", end, ast.unparse(call))


def _own(functions: Mapping[str, Function], owner: str, call: ast.Call) -> Function | None:
    """Return the function of the file that a call runs: `fail(error)`, or `self.fail(error)` in a method of `owner`."""
    text = dotted(call.func) or ""
    return functions.get(f"{owner}.{text.removeprefix('self.')}" if text.startswith("self.") else text)


def _ends(node: ast.Try | ast.With, call: ast.expr, function: Function, called: Called) -> Iterator[ast.expr]:
    """Yield the places that swallow the failure of a capture: the exception type of a handler, or the surrounding
    `suppress(…)`."""
    if isinstance(node, ast.Try):
        yield from (one.type or call for one in node.handlers if catches(one.type) and swallows(one, function, called))
        return
    for item in node.items:
        around = item.context_expr
        if isinstance(around, ast.Call) and called_name(around) == "suppress" and any(map(catches, around.args)):
            yield around
