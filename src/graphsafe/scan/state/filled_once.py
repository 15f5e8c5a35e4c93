"""Values that only the first step computes and later steps reuse."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial

from graphsafe.scan.domain.values import Dict, Instance, as_tensor, depends_on_step, options
from graphsafe.scan.execution.frame import Frame, LazyTest
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.state import first_step
from graphsafe.scan.state.provenance import CAPACITY, CONSTRUCTORS, bound_to, identified_by, is_module
from graphsafe.scan.state.replaced_values import converts
from graphsafe.scan.symbols.blocks import Definition, parameters, statements_within
from graphsafe.scan.symbols.index import dotted

_MAXIMUM = re.compile(r"(?<![^\W_])(max|maximum|longest)(?![^\W_]|\()", re.I)
"Matches words in names of the largest size for which a table is made: `max_position_embeddings`."
_BETWEEN_LIVES = re.compile(
    r"^_*(un|re)?load(_(model|weights|state|state_dict|checkpoint))?$|^__del__$|^_*(close|teardown|shutdown)$"
)
"Matches methods that load or unload the object. A step does not call them."
_FILLS = re.compile(r"(\.data)?\.(copy|fill)_$")


def first_step_only(frame: Frame) -> bool:
    """Return whether the current line runs only if a value that outlives the step is missing."""
    return any(
        not _is_new_in_step(frame, target) for target in map(partial(_missing, frame), frame.lazy) if " " not in target
    )


def _missing(frame: Frame, test: LazyTest) -> str:
    """Return the state that is missing according to a test: `self.plan`, even if the test uses a local name for it, as
    after `plan = self.plan`. After `plan = self.plans.get(key)`, the state is the table `self.plans`.
    """
    if not test.target.isidentifier():
        return test.target
    bound = bound_to(frame, test)
    if bound is None:
        return test.target
    if isinstance(bound, ast.Attribute):
        return dotted(bound) or test.target
    return first_step.attribute_asked(bound) or first_step.table_of(bound) or test.target


def is_filled_here(frame: Frame) -> bool:
    """Return whether the current line runs only if an attribute is missing or not ready, and the attribute is then
    filled."""
    return any(test.alone and _is_filled(frame, test) for test in frame.lazy)


def _is_filled(frame: Frame, test: LazyTest) -> bool:
    if _fills_table(frame, test):
        return True
    if test.target.startswith(first_step.EMPTY):
        # An attribute may hold the table, as after `state = self.state[p]`.
        table = frame.env.get(test.target.removeprefix(first_step.EMPTY))
        found = options(table) if table is not None else ()
        return any(type(option) is Dict and option.held_by is not None for option in found)
    if test.target.startswith(("size of ", CAPACITY)):
        return _is_filled_again(frame, test)
    missing = _missing(frame, test)
    if missing in frame.globals:
        return _is_filled_global(frame, test, missing)
    if missing != "*" and not missing.startswith("self."):
        return _is_filled_in_module(frame, test, missing)
    if frame.node is None:
        return False
    asked, assigned, called = _follows(frame.node, test.line)
    wanted = {text for text in asked if first_step.READY_FLAG.search(text)} if missing == "*" else {missing}
    here = {*called, frame.function.rpartition(".")[2], *CONSTRUCTORS}
    for target in wanted:
        name = _read_by_property(frame, target.removeprefix("self."))
        writers = _writers(frame, name)
        once = writers <= here or _is_advanced(frame, name, writers)
        if once and (not {target, f"self.{name}"}.isdisjoint(assigned) or not writers.isdisjoint(called)):
            return True
        if once and any(_fills_in_place(frame, method, target) for method in sorted(called)):
            return True
    return False


def _fills_in_place(frame: Frame, method: str, flag: str) -> bool:
    """Return whether a method of the same class sets a flag that is a buffer: `self.ready.data.fill_(True)`."""
    node = frame.project.method_node(frame.owner, method)
    calls = inside(node, ast.Call) if node is not None else ()
    return any(_FILLS.sub("", name) == flag for call in calls if _FILLS.search(name := dotted(call.func) or ""))


def _is_filled_again(frame: Frame, test: LazyTest) -> bool:
    """Return whether the constructor fills a table by the same method that later fills it again when it is too small.

    The constructor makes such a table for the longest input, for example a table of rotary embeddings.
    """
    called = _follows(frame.node, test.line)[2] if frame.node is not None else ()
    made = frame.project.method_node(frame.owner, "__init__") if called else None
    return made is not None and any(f"self.{name}" in _called_in(made) for name in called)


@memoize_on_node
def _called_in(function: ast.AST) -> frozenset[str | None]:
    return frozenset(dotted(call.func) for call in inside(function, ast.Call))


def is_past_maximum(frame: Frame) -> bool:
    """Return whether the current line runs only if a step needs more than the maximum size that the constructor names.

    A model is usually not run beyond its maximum. An initial size that the constructor chooses, as for a workspace, is
    not a maximum.
    """
    if frame.node is None or frame.owner is None:
        return False
    asked_sizes = [
        test.line
        for test in frame.lazy
        if test.target.startswith("size of ") or (test.target.startswith(CAPACITY) and test.target.endswith(".shape"))
    ]
    tests = [_follows(frame.node, line) for line in asked_sizes]
    own = frame.function.rpartition(".")[2]
    names = {name for asked, _, called in tests for name in (*asked, *(f"self.{one}" for one in (*called, own)))}
    constructors = (frame.project.function_node(f"{base}.__init__") for base in frame.project.mro(frame.owner))
    return bool(names) and any(_states_maximum(made, names) for made in constructors if made is not None)


def _states_maximum(constructor: ast.AST, names: set[str]) -> bool:
    """Return whether a constructor assigns a maximum to one of these attributes, or passes it to one of these
    methods."""
    given = [(dotted(call.func), call) for call in inside(constructor, ast.Call)]
    given += [
        (dotted(target), node)  # type: ignore[misc]
        for node in inside(constructor, ast.Assign)
        if not isinstance(node.value, ast.Constant)
        for target in node.targets
    ]
    return any(name in names and _MAXIMUM.search(ast.unparse(node)) for name, node in given)


def _read_by_property(frame: Frame, name: str) -> str:
    """Return the attribute behind a property: `_turn` for `turn`, if `turn` only returns `self._turn`."""
    node = frame.project.method_node(frame.owner, name)
    last = node.body[-1] if node is not None and "property" in map(dotted, node.decorator_list) else None
    kept = dotted(last.value) if isinstance(last, ast.Return) and last.value is not None else None
    return kept.removeprefix("self.") if kept is not None and kept.startswith("self.") else name


def _is_advanced(frame: Frame, name: str, writers: set[str]) -> bool:
    """Return whether an attribute is a position that steps advance: `self._turn += 1`. The first step of a series
    computes the starting position, and code that starts another series sets the attribute to None.
    """
    nodes = filter(None, (frame.project.method_node(frame.owner, writer) for writer in sorted(writers)))
    return any(
        isinstance(inner.op, ast.Add) and dotted(inner.target) == f"self.{name}"
        for node in nodes
        for inner in inside(node, ast.AugAssign)
    )


def _is_filled_global(frame: Frame, test: LazyTest, name: str) -> bool:
    """Return whether a function fills a global that the rest of the file only sets to None:
    `if plan is None: plan = …`."""
    stores = [n for n in inside(frame.node, ast.Name) if n.id == name and _is_stored(n)] if frame.node else []
    put = re.compile(rf"^[ \t]+(?:\w+ = )*{name} = (?:\w+ = )*(?!None\b|\w+ = )", re.M)
    return any(store.lineno > test.line for store in stores) and (
        len(frame.project.files.search(frame.path, put)) <= len(stores)
    )


def _is_filled_in_module(frame: Frame, test: LazyTest, missing: str) -> bool:
    """Return whether no other code of the file assigns the attribute in `if layer.scale is None: layer.scale = …`."""
    owner, _, name = missing.rpartition(".")
    holder = frame.env.get(owner)
    if (
        holder is None
        or frame.node is None
        or not is_module(frame, holder)
        or missing not in _follows(frame.node, test.line)[1]
    ):
        return False
    here = sum(n.attr == name and _is_stored(n) for n in inside(frame.node, ast.Attribute))
    return len(frame.project.files.search(frame.path, re.compile(rf"\.{name}\b\s*[-+*/]?=(?!=)"))) == here


def _is_stored(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def converts_once(frame: Frame, node: ast.Assign) -> bool:
    """Return whether an assignment only converts the value that the constructor has assigned to an attribute of this
    object: `self.table = self.table.to(x.device)`. Steps after the first one then copy nothing."""
    text = dotted(node.targets[0]) or ""
    name = text.removeprefix("self.")
    if frame.node is None or not text.startswith("self.") or not converts(node.value, text) or text in frame.env:
        return False
    owner = frame.env.get("self")
    if type(owner) is not Instance or owner.made or owner.step:
        return False  # each step has another object
    here = sum(n.attr == name and _is_stored(n) for n in inside(frame.node, ast.Attribute))
    return here == 1 and _writers(frame, name) <= {frame.function.rpartition(".")[2], *CONSTRUCTORS}


def converts_given(frame: Frame, node: ast.Assign) -> bool:
    """Return whether an assignment only converts an entry of a table that the caller passes, and the entry does not
    derive from the step's inputs: `state["sizes"] = state["sizes"].to(device)`. If the caller keeps the table, later
    steps copy nothing. The result is False if further lines of the file assign an entry with this key."""
    target = node.targets[0]
    if frame.node is None or not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return False
    if dotted(target.value) not in {one.arg for one in parameters(frame.node)}:
        return False
    if not converts(node.value, source_text(target)) or depends_on_step(frame.evaluate_quietly(target)):
        return False
    stores = re.compile(rf"\[[\"']{re.escape(str(target.slice.value))}[\"']\]\s*=(?!=)")
    return len(frame.project.files.search(frame.path, stores)) == 1


def turned_off(frame: Frame, test: ast.If) -> str | None:
    """Return the flag of this object that a step tests and turns off, if only constructors turn it on. Return the flag
    also if the branch turns it on and later steps return before the branch."""
    here = {frame.function.rpartition(".")[2], *CONSTRUCTORS}
    for flag in (first_step.turned_off(test), *first_step.turned_on(frame.node, test)):
        if flag is not None and flag.startswith("self.") and _writers(frame, flag.removeprefix("self.")) <= here:
            return flag
    return None


def _fills_table(frame: Frame, test: LazyTest) -> bool:
    """Return whether a test looks up a table entry, and the function then stores this entry under a key that all steps
    share."""
    if frame.node is None:
        return False
    bound = bound_to(frame, test) if "." not in test.target else None
    looked_up = test.target if bound is None else first_step.table_of(bound)
    tables = {table for table in (looked_up, test.target) if table is not None and not _is_new_in_step(frame, table)}
    keys = [key for held, line, key in _entries(frame.node) if held in tables and line > test.line]
    return bool(keys) and not any(_is_of_a_step(frame, key) for key in keys)


def _is_new_in_step(frame: Frame, name: str) -> bool:
    """Return whether a name is local and does not refer to a table that an attribute or a global holds.

    After `state = self.state[p]`, or in `for group in self.param_groups`, the local name refers to a table that
    outlives the step.
    """
    if "." in name or name not in frame.env or name in frame.globals:
        return False
    return all(type(option) is not Dict or option.held_by is None for option in options(frame.env[name]))


def _is_of_a_step(frame: Frame, key: ast.expr) -> bool:
    """Return whether a key such as `id(x)` stands for an object that may be a different one in each step."""
    for identified in identified_by(frame, key):
        root = (dotted(identified) or "").partition(".")[0]
        value = frame.evaluate_quietly(identified) if root in frame.env else None
        if value is None or as_tensor(value)[0] is not None or depends_on_step(value):
            return True
    return False


def is_own_entry(frame: Frame, node: ast.expr) -> bool:
    """Return whether an expression is an entry of a table, such as `self.tables[key]`, that the same function fills."""
    table = first_step.table_of(node)
    return frame.node is not None and any(filled == table for filled, _, _ in _entries(frame.node))


@memoize_on_node
def _entries(function: Definition) -> Sequence[tuple[str, int, ast.expr]]:
    """Return the entries that a function puts into tables and sets, as table, line and key."""
    found = []
    for inner in statements_within(function):
        for target in inner.targets if isinstance(inner, ast.Assign) else ():
            if isinstance(target, ast.Subscript) and (table := dotted(target.value)) is not None:
                found.append((table, target.lineno, target.slice))
        call = inner.value if isinstance(inner, ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "add"
            and call.args
        ):
            found.append((dotted(call.func.value) or "", call.lineno, call.args[0]))
    return found


def _writers(frame: Frame, attribute: str) -> set[str]:
    """Return the methods that assign an attribute of the frame's own class, including methods that reset it. Methods
    that load or unload the object are left out."""
    if frame.owner is None:
        return set()
    classes = frame.project.own_classes(frame.owner)
    found = {method for _, facts in classes for method in facts.writers.get(attribute, ())}
    return {method for method in found if _BETWEEN_LIVES.search(method) is None}


@memoize_on_node
def _follows(function: ast.AST, line: int) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the attributes that the `if` on a line tests, the attributes that its branches assign, and the methods
    that these branches call.

    If the body of the `if` leaves the function, the code after the `if` counts as its `else`.
    """
    test = next((node for node in inside(function, ast.If) if node.lineno == line), None)
    if test is None:
        return frozenset(), frozenset(), frozenset()
    asked = {dotted(node) or "" for node in inside(test.test, ast.Attribute)}
    within = function if isinstance(test.body[-1], ast.Return) else test
    stored = (node for node in inside(within, ast.Attribute) if node.lineno >= line and _is_stored(node))
    assigned = {dotted(node) or "" for node in stored}
    called: set[str] = set()
    for node in inside(within, ast.Call):
        owner, _, name = (dotted(node.func) or "").rpartition(".")
        if node.lineno < line:
            continue
        if name in ("register_buffer", "setattr") and (key := _constant_key(node)) is not None:
            assigned.add(f"self.{key}")
        elif owner == "self":
            called.add(name)
        elif name.endswith("_"):
            # The flag may be a buffer: `self.ready.data.fill_(True)`.
            assigned.add(owner.removesuffix(".data"))
    return frozenset(asked), frozenset(assigned), frozenset(called)


def _constant_key(call: ast.Call) -> str | None:
    """Return the name in `self.register_buffer("name", …)` or `setattr(self, "name", …)`."""
    names = [argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant)]
    return next((name for name in names if isinstance(name, str)), None)
