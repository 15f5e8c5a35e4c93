"""Attributes that the graphs of a class read and write, and the uses of these attributes in code outside the class.

`runner.ids = ids` gives an object a tensor that its graph does not read. `kept.append(runner.step())` keeps a tensor
that the next replay overwrites. The abstract values show which object and attribute a line of any file refers to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.values import Instance, Sequence, Tensor, Value, as_tensor, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_tensors import GraphTensors, captured_names, class_table, note_captured
from graphsafe.scan.hazards.outputs.kept_values import KEEPS
from graphsafe.scan.hazards.same_objects import spelled_out
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.project import Project

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp)
_HANDS_OUT = KEEPS - {"update"} | {"set_result", "put_nowait", "send", "extend"}
"Methods that store a value beyond the current iteration of a loop, or pass it to other code."


@dataclass(frozen=True, slots=True)
class GraphAttributes:
    """The attributes that a class's captures read (inputs) and bind (outputs), without `self.`."""

    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()


_NONE = GraphAttributes()


def rebound(frame: Frame, owner: Instance, name: str, holder: str, value: Value, node: ast.AST) -> None:
    """Emit an event if the graph input of another object is bound to a different tensor: `runner.ids = ids`."""
    # In the file that defines the class, stale_replays.py checks such lines, because it has a table of all methods.
    if not frame.hot or holder == "self" or owner.made:
        return
    known = of_class(frame, owner.ref)
    tensor = as_tensor(value)[0]
    if name not in known.inputs or tensor is None or tensor.attr == frame.attributes.key(owner.ref, name):
        return
    frame.emit("AttrWrite", "input-rebound", node, value=f"`{holder}.{name}`")


def kept(frame: Frame, node: ast.Call, receiver: Value, arguments: Arguments) -> None:
    """Emit an event if a graph's output is stored where it outlives the next replay: `kept.append(runner.step())`."""
    if not frame.hot or not isinstance(node.func, ast.Attribute) or node.func.attr not in _HANDS_OUT:
        return
    if any(type(one) is Instance and frame.project.find_method(one.ref, node.func.attr) for one in options(receiver)):
        return  # the object's own method decides whether the value is stored or copied
    is_local = type(receiver) is Sequence and receiver.held_by is None
    if is_local and (frame.node is None or id(node) not in _in_loops(frame.node)):
        return
    for option in (option for value in _parts(arguments.positional) for option in options(value)):
        if type(option) is Tensor and option.attr is not None and not option.fresh:
            ref, _, name = option.attr.rpartition(".")
            if name in of_class(frame, ref).outputs:
                frame.emit("AttrWrite", "output-kept", node, value=f"`{option.name or '…'}`")
                return


def _parts(values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        if type(value) is Sequence and value.kind in ("tuple", "list"):
            yield from value.items or ()
        yield value


@memoize_on_node
def _in_loops(function: ast.AST) -> frozenset[int]:
    """Return the ids of the calls that are in loops of a function."""
    loops = [loop for kind in _LOOPS for loop in inside(function, kind)]
    return frozenset(id(call) for loop in loops for call in inside(loop, ast.Call))


def of_class(frame: Frame, ref: str) -> GraphAttributes:
    """Return the attributes of `self` that the captures of a class and of its bases use."""
    return frame.engine.queries.ask(("graph-attributes", ref), lambda: _of_class(frame.project, ref), lambda: _NONE)


def _of_class(project: Project, ref: str) -> GraphAttributes:
    inputs: set[str] = set()
    outputs: set[str] = set()
    for base in project.mro(ref):
        table = _table(project, base)
        if table is not None:
            _add_inherited(project, ref, table)
            inputs |= table.inputs
            outputs |= table.outputs
    return GraphAttributes(_attributes(inputs), _attributes(outputs))


def _table(project: Project, ref: str) -> GraphTensors | None:
    """Return the table of a class, or None if the class is not in the project or captures nothing."""
    path, _, name = ref.partition("::")
    facts = project.class_facts(ref) if name else None
    methods = [project.function_facts(f"{path}::{method}") for method in facts.methods.values()] if facts else []
    if not any(method is not None and method.captures for method in methods):
        return None
    return class_table(spelled_out(parse(project.files.source(path).text)), name)


def _add_inherited(project: Project, ref: str, table: GraphTensors) -> None:
    """Add the code of inherited methods that a captured block calls on `self`."""
    own = {name.rpartition(".")[2] for name in table.functions}
    waiting = [name for code in table.captured_code for name in captured_names(code) if name not in own]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        node = project.method_node(ref, name) if name not in seen else None
        seen.add(name)
        if node is not None:
            note_captured(table, node)
            waiting += captured_names(node)


def _attributes(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.removeprefix("self.") for name in names if name.startswith("self.") and name.count(".") == 1)
