"""The tensors that captures use, with the lines that make, rebind, fill and read each of them.

One table holds the names of one owner: the attributes of a class, or the local names of a function and its inner
functions. A table is made from the syntax alone, since functions around graphs are seldom hot.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from graphsafe.scan.hazards.graph_syntax import (
    CaptureBlock,
    Function,
    arguments_of,
    calls_in,
    captures,
    constructed,
    entry,
    functions_in,
    graphs_of,
    head,
    is_number,
    is_plain_replay,
    is_view_of,
    moves_to_host,
    own,
    own_names,
    own_nodes,
    place,
    viewed,
    with_statements,
    written,
)
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted, elements, takes_slice

Code = CaptureBlock | Function | ast.Lambda
CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "setup", "build"))


@dataclass(slots=True)
class GraphTensors:
    """The tensors that the captures of one owner use, by their names in the code: `x`, `self.x`,
    `self.inputs['ids']`."""

    scope: Function | ast.ClassDef | None = None
    inputs: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    updated: set[str] = field(default_factory=set)
    "Tensors that captures write in place. Every replay changes them."
    parts: set[str] = field(default_factory=set)
    "Inputs of which captures read parts of variable size: `self.ids[:n]`."
    spread: set[str] = field(default_factory=set)
    "Inputs that calls in captures unpack: `model(*self.inputs)`."
    blocks: list[CaptureBlock] = field(default_factory=list)
    handing: list[ast.Call] = field(default_factory=list)
    "Calls of helpers that capture their arguments."
    captured: list[Function] = field(default_factory=list)
    "The methods that captured blocks call, directly or through other methods."
    functions: dict[str, Function] = field(default_factory=dict)
    "The functions that share these names, by qualified name."
    bound: dict[str, list[tuple[str, ast.Assign]]] = field(default_factory=dict)
    "Name -> the assignments to it outside captures, each with its function, in the order of the code."
    filled: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    "Name -> the functions and the lines that write into the tensor outside captures."
    capturing: set[str] = field(default_factory=set)
    "The functions that contain a capture."
    replaying: set[str] = field(default_factory=set)
    preparing: set[str] = field(default_factory=set)
    """Constructors, and the functions that constructors and capturing functions call. All of these run before the first
    replay."""

    @property
    def captured_code(self) -> Sequence[CaptureBlock | Function]:
        """The captured blocks, and the methods that they call."""
        return (*self.blocks, *self.captured)

    @property
    def captured_calls(self) -> list[ast.Call]:
        return [call for code in self.captured_code for call in calls_in(code.body)]

    @property
    def is_replayed(self) -> bool:
        """Whether a function of the owner replays, or other code may do so because an attribute keeps a graph."""
        return bool(self.replaying) or any(name.startswith("self.") for one in self.blocks for name in graphs_of(one))

    @property
    def overwritten(self) -> Set[str]:
        """The tensors that every replay overwrites."""
        return self.outputs | self.updated

    @property
    def is_of_module(self) -> bool:
        """Whether this is the table of the module's global names (module_tensors.py)."""
        return isinstance(self.scope, ast.FunctionDef) and not self.scope.name

    @property
    def numbers(self) -> Set[str]:
        """The names that some line outside captures binds to a number."""
        return {name for name, lines in self.bound.items() if any(is_number(made.value) for _, made in lines)}

    def is_display(self, name: str) -> bool:
        """Return whether a name is bound to a list or a dict. A line may then replace a single tensor in it."""
        kinds = (ast.List, ast.ListComp, ast.Dict, ast.DictComp)
        return any(isinstance(made.value, kinds) for _, made in self.bound.get(name, ()))

    def is_refreshed(self, name: str) -> bool:
        """Return whether some function writes new values into an input in place."""
        return any(function not in self.preparing - self.replaying for function, _ in self.filled.get(name, ()))


@dataclass(slots=True)
class Tables:
    """The tables of a file."""

    all: list[GraphTensors] = field(default_factory=list)
    "The tables of owners that capture."
    functions: list[tuple[str, Function, list[GraphTensors]]] = field(default_factory=list)
    "Every function by its qualified name, with the tables of the names that are visible in it."
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    imported: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    "The methods of imported classes that return a graph's outputs (outputs/givers.py)."
    number_fields: Set[str] = frozenset()
    "Fields of the project's classes that are always numbers (keys/number_names.py)."

    @property
    def by_name(self) -> dict[str, Function]:
        """The functions by their qualified names."""
        return {name: node for name, node, _ in self.functions}

    def functions_called(self, name: str) -> int:
        """Return the number of functions with this name in the file, in any class."""
        return sum(qualified.rpartition(".")[2] == name for qualified, _, _ in self.functions)


def class_table(tree: ast.Module, name: str) -> GraphTensors | None:
    """Return the table of a class by its qualified name, or None if the class captures nothing."""
    body: Iterable[ast.stmt] = tree.body
    scope: Function | ast.ClassDef | None = None
    for part in name.split("."):
        scope = next((node for node in _definitions(body) if node.name == part), None)
        body = scope.body if scope is not None else ()
    table = _table(scope, name) if isinstance(scope, ast.ClassDef) else None
    return table if table is not None and table.blocks else None


def note_tables(body: Iterable[ast.stmt], prefix: str, shared: list[GraphTensors], found: Tables) -> None:
    """Add the tables of the classes and functions that a body defines. `shared` are the tables of the names around the
    body."""
    for node in _definitions(body):
        table = _table(node, f"{prefix}{node.name}")
        if table.blocks and (table.inputs or table.outputs):
            found.all.append(table)
        visible = [table] if isinstance(node, ast.ClassDef) else [table, *shared]
        if not isinstance(node, ast.ClassDef):
            found.functions.append((f"{prefix}{node.name}", node, visible))
        note_tables(node.body, f"{prefix}{node.name}.", visible, found)


def _definitions(body: Iterable[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Yield the functions and classes that a body defines, including conditional ones but not nested ones."""
    stack = list(body)
    while stack:
        node = stack.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
        else:
            stack = [*(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)), *stack]


def _table(scope: Function | ast.ClassDef, name: str) -> GraphTensors:
    found = GraphTensors(scope)
    is_class = isinstance(scope, ast.ClassDef)
    found.blocks += filter(captures, with_statements(scope))
    note_code(found, scope, found.blocks)
    if is_class:
        found.outputs.update(_returned_by_captures(scope, found.blocks))
        found.outputs.intersection_update([name for name in found.outputs if name.startswith("self.")])
    if found.inputs or found.outputs:
        note_uses(found, scope, name)
    return found


def note_uses(found: GraphTensors, scope: Function | ast.ClassDef, name: str) -> None:
    """Add the functions of a table's owner, and the lines of these functions that use the table's tensors."""
    is_class = isinstance(scope, ast.ClassDef)
    found.functions.update(_functions(scope, name))
    filled = {text for node in found.functions.values() for text in _filled(node)}
    known = found.inputs | found.outputs | {text for text in filled if text.startswith("self.") is is_class}
    for qualified, function in found.functions.items():
        if function not in found.captured:
            _note_touches(found, qualified, function, known)
    _note_preparing(found, is_class)


def note_code(found: GraphTensors, scope: Function | ast.ClassDef, parts: Sequence[Code]) -> None:
    """Add the functions that captured code calls. Also add the owner's names that these functions and the captured code
    itself read and bind."""
    found.captured += _called_functions(scope, parts)
    for part in (*parts, *found.captured):
        note_captured(found, part)
    is_class = isinstance(scope, ast.ClassDef)
    for names in (found.inputs, found.outputs, found.updated):
        names.intersection_update([name for name in names if name.startswith("self.") is is_class])


def _called_functions(scope: Function | ast.ClassDef, parts: Sequence[ast.AST]) -> Iterator[Function]:
    """Yield the methods and inner functions that captured code calls. The graph contains their work."""
    known = {node.name: node for node in inside(scope, ast.FunctionDef) if node is not scope} if parts else {}
    methods = [node.name for node in _definitions(scope.body)] if isinstance(scope, ast.ClassDef) else []
    known.update({f"self.{name}": known.pop(name) for name in methods if name in known})
    waiting = [*parts]
    while waiting:
        for call in inside(waiting.pop(), ast.Call):
            function = known.pop(dotted(call.func) or "", None)
            if function is not None:
                waiting.append(function)
                yield function


def _returned_by_captures(scope: ast.AST, blocks: Sequence[CaptureBlock]) -> Iterator[str]:
    """Yield the names to which results of captured blocks are assigned: `self.out = self._capture()`."""
    returning = {
        node.name
        for node in functions_in(scope)
        for inner in own(node, ast.Return)
        if any(block.body[-1] is inner for block in blocks)
    }
    for node in inside(scope, ast.Assign) if returning else ():
        call = node.value
        if isinstance(call, ast.Call) and (dotted(call.func) or "").removeprefix("self.") in returning:
            yield from filter(None, map(place, targets(node)))


def captured_names(body: CaptureBlock | Function) -> Iterator[str]:
    """Yield the names of the methods that captured code calls on `self`."""
    for call in calls_in(body.body):
        name = dotted(call.func) or ""
        if name.startswith("self.") and name.count(".") == 1:
            yield name.removeprefix("self.")


def note_captured(found: GraphTensors, block: Code) -> None:
    """Add the names that captured code reads and binds, except the local names of a called function."""
    local = own_names(block) - {"self"} if isinstance(block, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
    body = [block.body] if isinstance(block, ast.Lambda) else block.body
    for inner in (inner for statement in body for inner in ast.walk(statement)):
        for value in _read_by(inner):
            text = viewed(value)
            if text is not None and head(text) not in local:
                found.inputs.add(text)
                if any(map(_is_variable, inside(value, ast.Slice))):
                    found.parts.add(text)
        if isinstance(inner, ast.Call):  # `model(*self.inputs)`, `model(**self.inputs)`
            spread = [value.value for value in inner.args if isinstance(value, ast.Starred)]
            spread += [word.value for word in inner.keywords if word.arg is None]
            found.spread.update(filter(None, map(place, spread)))
        bound = [place(one) or entry(one) for one in targets(inner)] if isinstance(inner, ast.Assign) else []
        found.outputs.update(text for text in bound if text is not None and head(text) not in local)
        found.updated.update(text for text in _changed_by(inner) if head(text) not in local)
    found.inputs -= found.outputs


def _is_variable(part: ast.Slice) -> bool:
    """Return whether a slice ends at a number that is not written in the code: `x[:n]`, but not `x[:4]` or `x[:-1]`."""
    return part.upper is not None and bool(inside(part.upper, ast.Name))


def _read_by(node: ast.AST) -> list[ast.expr]:
    """Return the operands that a call, an operator or an assignment reads."""
    if isinstance(node, ast.Call):
        # In `model(*self.inputs)`, the tuple of inputs counts as one tensor.
        given = [value.value if isinstance(value, ast.Starred) else value for value in arguments_of(node)]
        return [part for value in given for part in elements(value)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [*elements(node.value)] if isinstance(node, ast.Assign) else []


def _changed_by(node: ast.AST) -> Iterator[str]:
    """Yield the tensors that a line modifies in place: `self.x.add_(d)`, `torch.mul(x, y, out=self.x)`,
    `self.x[:n] = y`."""
    changed: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        changed += [one.value for one in targets(node) if isinstance(one, ast.Subscript) and takes_slice(one)]
    elif isinstance(node, ast.Call):
        changed += [word.value for word in node.keywords if word.arg == "out"]
        function = node.func
        if isinstance(function, ast.Attribute) and re.fullmatch(r"[a-z]\w*[a-z0-9]_", function.attr):
            changed.append(function.value)
    yield from filter(None, map(viewed, changed))


def bindings(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets of an assignment with their values. `a, b = c, d` yields two pairs.

    A target that unpacks an object, as in `a, b = kept[n]`, has no value and is left out.
    """
    for target in node.targets:
        if not isinstance(target, (ast.Tuple, ast.List)):
            yield target, node.value
        elif isinstance(node.value, (ast.Tuple, ast.List)) and len(target.elts) == len(node.value.elts):
            yield from zip(target.elts, node.value.elts, strict=True)


def targets(node: ast.AST) -> Sequence[ast.expr]:
    """Return the targets of a plain or augmented assignment. The elements of a tuple are separate."""
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in elements(target)]
    return [node.target] if isinstance(node, ast.AugAssign) else []


def _functions(scope: Function | ast.ClassDef, name: str) -> Iterator[tuple[str, Function]]:
    if not isinstance(scope, ast.ClassDef):
        yield name, scope
    for inner in _definitions(scope.body):
        if not isinstance(inner, ast.ClassDef):
            if isinstance(scope, ast.ClassDef):
                yield f"{name}.{inner.name}", inner
            else:
                yield from _functions(inner, f"{name}.{inner.name}".removeprefix("."))


def _filled(function: Function) -> Iterator[str]:
    """Yield the names of tensors that a function writes into."""
    for target in filter(None, map(written, own(function, ast.Call))):
        text = place(target.value if isinstance(target, ast.Subscript) else target)
        if text is not None:
            yield text


def _note_touches(found: GraphTensors, function: str, node: Function, known: Set[str]) -> None:
    """Add the uses of these tensors in a function, outside captures, in the order of the code."""
    captured = {id(inner) for block in found.blocks for statement in block.body for inner in ast.walk(statement)}
    nodes = [inner for _, inner in own_nodes(node)]
    if any(inner in found.blocks for inner in nodes):
        found.capturing.add(function)
    if any(map(is_plain_replay, nodes)):
        found.replaying.add(function)
    # A name that an inner function assigns is the inner function's own variable.
    hidden = {argument.arg for argument in inside(node.args, ast.arg)}
    lines = [inner for inner in nodes if id(inner) not in captured and isinstance(inner, (ast.expr, ast.stmt))]
    for inner in sorted(lines, key=lambda inner: (inner.lineno, inner.col_offset)):
        if isinstance(inner, (ast.Assign, ast.Call)):
            target = written(inner)
            base = target.value if isinstance(target, ast.Subscript) and place(target) not in known else target
            text = place(base) if base is not None else None
            is_filling = isinstance(inner, ast.Call) or base is not target
            if text in known and is_filling and text not in hidden:
                found.filled.setdefault(text or "", []).append((function, inner.lineno))
        if isinstance(inner, ast.Assign):
            bound, values = [*filter(None, map(place, targets(inner)))], {place(to): one for to, one in bindings(inner)}
            if constructed(inner.value) is not None:
                # Replacing an object also replaces its tensors: `self.state = State(h)`.
                bound += [name for name in known if name.startswith(tuple(f"{text}." for text in bound))]
            for text in bound:
                value = values.get(text, inner.value)
                if text in known and (moves_to_host(value) or not is_view_of(value, text)):
                    found.bound.setdefault(text, []).append((function, inner))


def _note_preparing(found: GraphTensors, is_class: bool) -> None:
    """Record the functions that run before the first replay: constructors, capturing functions, and the methods that
    they call."""
    if not is_class:
        found.preparing = set(found.capturing)
        return
    by_name = {qualified.rpartition(".")[2]: qualified for qualified in found.functions}
    calls = {
        qualified: [
            (call.lineno, by_name[name])
            for call in own(node, ast.Call)
            if (name := (dotted(call.func) or "").removeprefix("self.")) in by_name
        ]
        for qualified, node in found.functions.items()
    }
    waiting = [*found.capturing, *(by_name[name] for name in CONSTRUCTORS & by_name.keys())]
    # These functions capture again. They may reassign any name before their capture.
    again: set[str] = set()
    for caller, called in calls.items():
        captures = [line for line, one in called if one in found.capturing]
        if captures:
            again.add(caller)
            waiting += [one for line, one in called if line < max(captures)]
    while waiting:
        function = waiting.pop()
        if function not in found.preparing:
            found.preparing.add(function)
            waiting += [one for _, one in calls[function]]
    found.preparing |= again
