"""Finds lines after a capture that give a captured module other weights or other memory. The graph keeps using the old
weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from graphsafe.scan.domain.naming import BY_MODE
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    arguments_of,
    called_name,
    calls_in,
    is_host,
    is_plain_replay,
    moves_to_host,
    own,
    own_nodes,
    parents_in,
    place,
    runs_beside,
)
from graphsafe.scan.hazards.graph_tensors import CONSTRUCTORS, GraphTensors, Tables, bindings
from graphsafe.scan.hazards.owners import class_of, of_one_object
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted, elements

_CASTS = {"half": "float16", "bfloat16": "bfloat16", "double": "float64", "float": "float32"}
"Name of a module's method -> the data type to which the method converts the parameters."


def lines(found: Tables) -> Iterator[Line]:
    for table in found.all:
        yield from _other_weights(table)
        yield from _other_memory(found, table)
    yield from _of_graphed_callables(found)


def _other_weights(table: GraphTensors) -> Iterator[Line]:
    """Yield lines of later methods that assign a new tensor to a part of a module, if the captured block calls the
    module."""
    called = {
        text for call in table.captured_calls if (text := place(call.func)) is not None and text.startswith("self.")
    }
    for name, function in table.functions.items() if table.is_replayed else ():
        if name in table.preparing and name not in table.replaying:
            continue
        yield from _weights_put(name, function, called)


def _weights_put(name: str, function: Function, modules: Set[str]) -> Iterator[Line]:
    """Yield lines of a function that assign a new tensor to a part of one of these modules."""
    parts = turned_over(function)
    for _, node in own_nodes(function):
        changed = _weight_put(node) or ""
        changed = parts.get(changed.partition(".")[0], changed)
        if changed and any(_overlap(changed, module) for module in modules):
            assert isinstance(node, (ast.expr, ast.stmt))
            yield Line(name, "weights-rebound", node, ast.unparse(node))


def _overlap(changed: str, module: str) -> bool:
    """Return whether a change of an object's weights changes weights of a module: one of them is a part of the other.
    The graph uses `self.net[2]` of `self.net`."""
    return f"{changed}.".startswith(f"{module}.") or module.startswith((f"{changed}.", f"{changed}["))


def _other_memory(found: Tables, table: GraphTensors) -> Iterator[Line]:
    """Yield lines after a capture that change the memory or mode of captured objects. Such a line moves a captured
    module to the host, converts its parameters, loads the state of a captured optimizer, or switches a module's
    mode."""
    captured = table.captured_calls
    modules = {text for call in captured if (text := place(call.func)) is not None}
    optimizers = {(dotted(call.func) or "").removesuffix(".step") for call in captured if is_optimizer_step(call)}
    for name, function in table.functions.items() if table.replaying else ():
        for call in calls_in([function]) if function not in table.captured else ():
            holder, _, method = (dotted(call.func) or "").rpartition(".")
            is_moved = holder in modules and moves_to_host(call)
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
    replaying = {f"self.{one.rpartition('.')[2]}" for one in table.replaying}
    return (
        any(is_plain_replay(one) or dotted(one.func) in replaying for one in later)
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
    parts |= {name: module for name, value in made.items() if name and (module := _walked_module(_listed(value)))}
    return parts | {
        name.id: holder
        for loop in own(function, ast.For)
        for target, walked in _walks(loop.target, made.get(place(loop.iter) or "", loop.iter))
        if (holder := _walked_module(walked)) is not None
        for name in elements(target)
        if isinstance(name, ast.Name)
    }


def _walked_module(value: ast.expr) -> str | None:
    """Return the module whose parts a call yields: `self.net` for `self.net.named_parameters()`."""
    holder, _, walk = (dotted(value.func) or "").rpartition(".") if isinstance(value, ast.Call) else ("", "", "")
    return holder if walk.removeprefix("named_") in ("parameters", "buffers", "modules", "children") else None


def _listed(value: ast.expr) -> ast.expr:
    """Return what a container is made of: `x.named_parameters()` for `dict(x.named_parameters())`."""
    is_container = isinstance(value, ast.Call) and dotted(value.func) in ("dict", "list", "tuple")
    return value.args[0] if isinstance(value, ast.Call) and is_container and value.args else value


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
        return _holder(holder.value) if is_new and not is_host(value) else None
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


def _of_graphed_callables(found: Tables) -> Iterator[Line]:
    """Yield lines that assign a new tensor to a part of a module for which `torch.cuda.make_graphed_callables` has made
    graphs. The module may also be an attribute: `self.net = net` in the function with this call."""
    for name, function, _ in found.functions:
        calls = [call for call in own(function, ast.Call) if called_name(call) == "make_graphed_callables"]
        named = [word.value for call in calls for word in call.keywords if word.arg == "callables"]
        given = [*named, *(one for call in calls for one in call.args[:1])]
        graphed = {place(one) for value in given for one in elements(value)}
        pairs = [pair for made in own(function, ast.Assign) if graphed for pair in bindings(made)]
        graphed |= {place(target) for target, value in pairs if place(value) in graphed}
        modules = {text for text in graphed if text is not None and text.startswith("self.")}
        for other, method, _ in found.functions if modules else ():
            if other != name and class_of(found, other) == class_of(found, name):
                yield from _weights_put(other, method, modules)


def is_optimizer_step(call: ast.Call) -> bool:
    holder, _, name = (dotted(call.func) or "").rpartition(".")
    return name == "step" and holder.rpartition(".")[2].startswith("opt")
