"""Finds modules that are freed although a graph reads their weights: a constructor captures its argument without
keeping it, and callers pass a module that nothing else keeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import Function, Line, called_name, captures_in, functions_in, own_nodes
from graphsafe.scan.hazards.inputs.handed_tensors import Helpers
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.blocks import matched, parameters
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.project import Project

_NO_GRADIENTS = re.compile(r"no_grad|inference_mode|requires_grad_\(False\)")
_MAX_CALLS = 3
"The largest number of constructors through which a module is passed."


def lines(project: Project, tree: ast.Module, helpers: Helpers) -> Iterator[Line]:
    for cls in inside(tree, ast.ClassDef):
        for function in [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]:
            for parameter in parameters(function)[1:]:
                call = _captured_alone(function, parameter.arg, helpers)
                if call is not None and _is_dropped(project, cls.name, function, parameter.arg, _MAX_CALLS):
                    yield Line(f"{cls.name}.__init__", "freed", call, parameter.arg)


def _captured_alone(function: Function, name: str, helpers: Helpers) -> ast.Call | None:
    """Return the captured call of a parameter, if the function only calls the parameter and does not keep it."""
    handed = [
        value
        for call in inside(function, ast.Call)
        if (dotted(call.func) or "") in helpers
        for value in call.args
        if isinstance(value, ast.Lambda)
    ]
    captured = [call for part in (*captures_in(function), *handed) for call in inside(part, ast.Call)]
    calls = [call for call in inside(function, ast.Call) if isinstance(call.func, ast.Name) and call.func.id == name]
    uses = [node for node in inside(function, ast.Name) if node.id == name]
    stored = [node for _, node in own_nodes(function) if isinstance(node, ast.Assign) and node.value in handed]
    if len(calls) != len(uses) or stored:
        return None
    return next((call for call in captured if call in calls), None)


def _is_dropped(project: Project, cls: str, function: Function, name: str, depth: int) -> bool:
    """Return whether a call of a constructor passes a new module that nothing else keeps: `Runner(Net().cuda())`."""
    for path in project.files.names if depth else ():
        if f"{cls}(".encode() not in (project.files.data(path) or b""):
            continue
        text = project.files.source(path).text
        tree = parse(text)
        calls = [(one, node) for one in functions_in(tree) for _, node in own_nodes(one) if isinstance(node, ast.Call)]
        for caller, call in calls:
            for value, one in matched(call, function) if called_name(call) == cls else ():
                # With gradients, the results of the module may keep its weights.
                is_free = _is_new(value) and _NO_GRADIENTS.search(text) is not None
                if one.arg == name and (is_free or _is_passed_on(project, tree, caller, value, depth)):
                    return True
    return False


def _is_new(value: ast.expr) -> bool:
    """Return whether an expression makes an object of a class and keeps it nowhere: `Net().cuda().eval()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and dotted(value.func) is None:
        value = value.func.value
    name = (dotted(value.func) or "").rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return name[:1].isupper() and not name.isupper()


def _is_passed_on(project: Project, tree: ast.Module, caller: Function, value: ast.expr, depth: int) -> bool:
    """Return whether a constructor only passes on its own argument, which its callers drop."""
    owner = next((cls.name for cls in inside(tree, ast.ClassDef) if caller in cls.body), None)
    if owner is None or caller.name != "__init__" or not isinstance(value, ast.Name):
        return False
    uses = [node for node in inside(caller, ast.Name) if node.id == value.id]
    return uses == [value] and _is_dropped(project, owner, caller, value.id, depth - 1)
