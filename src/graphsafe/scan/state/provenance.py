"""The origin of values that are assigned to state, as far as the function shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from graphsafe.scan.domain.summary import StepInput
from graphsafe.scan.domain.values import Instance, RuntimeObject, Value, as_tensor
from graphsafe.scan.execution.frame import Frame, LazyTest
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state import first_step
from graphsafe.scan.symbols.blocks import Definition, parameters, statements_within
from graphsafe.scan.symbols.index import dotted

CAPACITY = "capacity of "
CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "setup")
FORM = frozenset("shape device dtype ndim size numel dim stride".split())
_NEW = frozenset("new_zeros new_ones new_empty new_full new_tensor".split())
_ALIKE = frozenset("zeros_like ones_like empty_like full_like rand_like randn_like randint_like".split())


def bound_expression(frame: Frame, node: object) -> ast.expr | None:
    """Return the expression of a value. For a local name, this is the expression that was last assigned to the name. If
    the source does not show the expression, return the name itself. Return None if `node` is not an expression."""
    if not isinstance(node, ast.expr):
        return None
    if not isinstance(node, ast.Name) or frame.node is None:
        return node
    bound = [value for line, value in _bindings(frame.node).get(node.id, ()) if line < node.lineno]
    return bound[-1] or node if bound else node


def all_bound(frame: Frame, name: str) -> Sequence[ast.expr | None]:
    """Return the expressions that the function binds to a local name. If the source does not show an expression, it is
    None."""
    if frame.node is None or any(one.arg == name for one in parameters(frame.node)):
        return (None,)
    return [value for _, value in _bindings(frame.node).get(name, ((0, None),))]


@memoize_on_node
def _bindings(function: Definition) -> Mapping[str, Sequence[tuple[int, ast.expr | None]]]:
    """Return the lines that bind each local name, in their order, with the bound expressions. The expression is None if
    a line only unpacks a value: `h, c = cell(x)`."""
    found: dict[str, list[tuple[int, ast.expr | None]]] = {}
    for inner in statements_within(function):
        targets = inner.targets if isinstance(inner, ast.Assign) else []
        if isinstance(inner, ast.AnnAssign) and inner.value is not None:
            targets = [inner.target]
        for target in targets:
            for part, value in _pairs(target, inner.value):  # type: ignore[attr-defined]
                if isinstance(part, ast.Name):
                    found.setdefault(part.id, []).append((inner.lineno, value))
    return {name: sorted(bound, key=lambda one: one[0]) for name, bound in found.items()}


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield the parts of a target with their expressions, or None if the source does not show an expression."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    yield from zip(target.elts, values if len(values) == len(target.elts) else repeat(None), strict=False)


def identified_by(frame: Frame, key: ast.expr) -> Iterator[ast.expr]:
    """Yield the objects whose identity, and not their value, is part of a key: `id(weight)`, `(weight.data_ptr(),
    weight.dtype)`."""
    made = bound_expression(frame, key)
    for inner in inside(made, ast.Call) if made is not None else ():
        if isinstance(inner.func, ast.Attribute) and inner.func.attr == "data_ptr":
            yield inner.func.value
        elif dotted(inner.func) == "id" and inner.args:
            yield inner.args[0]


def is_fresh_result(frame: Frame, text: str) -> bool:
    """Return whether `output.value` is not state, because a call in this function has just returned `output`."""
    root = text.partition(".")[0]
    # A global name is itself state: `BUFFER = fitting(BUFFER, n)`.
    if root not in frame.env or frame.node is None or text in frame.globals or is_made_before_loops(frame, root):
        return False
    name = ast.Name(root, ast.Load())
    name.lineno = frame.node.end_lineno or frame.node.lineno
    return isinstance(bound_expression(frame, name), ast.Call)


def is_made_before_loops(frame: Frame, name: str) -> bool:
    """Return whether a local name stands for the same object in all iterations of the loops that run in every step."""
    bound = _bindings(frame.node).get(name, ()) if frame.node is not None and frame.step_loops else ()
    return bool(bound) and all(line < min(frame.step_loops) for line, _ in bound)


def is_part_of_object(frame: Frame, name: str) -> bool:
    """Return whether a local name always stands for an attribute of `self`, or for an entry of a table of `self`:
    `model = self.model`, `runner = self.runners[size]`."""
    bound = all_bound(frame, name)
    value = bound[0] if len(bound) == 1 else None
    held = value.value if isinstance(value, ast.Subscript) else value
    return held is not None and (dotted(held) or "").startswith("self.")


def is_plain_parameter(frame: Frame, name: str) -> bool:
    """Return whether a local name is a parameter that the function never reassigns."""
    if frame.node is None or name in _bindings(frame.node):
        return False
    return any(one.arg == name for one in parameters(frame.node))


def is_table_of_flag(frame: Frame, name: str) -> bool:
    """Return whether a name stands for a table of the caller, and a flag in the table says that the table is not filled
    yet."""
    flagged = any(test.target == f"{first_step.ENTRIES}{name}" for test in frame.lazy)
    return flagged and frame.node is not None and name not in _bindings(frame.node)


def is_module(frame: Frame, value: Value) -> bool:
    """Return whether a value is a module of PyTorch or of the project."""
    if type(value) is Instance:
        return frame.attributes.is_module(value.ref)
    return type(value) is RuntimeObject and value.kind == "module"


def is_lazy(frame: Frame, text: str, item: ast.expr | None) -> bool:
    """Return whether a write runs only if a test shows that its target is missing.

    `item` is the expression of a value that is put into a container. The test may also be about a local name that is
    this value: `if table is None: table = make(); self.tables[n] = table`.
    """
    base = text.partition("[")[0]
    owner, _, name = base.rpartition(".")
    for test in frame.lazy:
        if test.target in (text, base, "*", f"{first_step.ENTRIES}{base}") or base.startswith(f"{test.target}."):
            return True
        if "." in test.target:
            continue
        if isinstance(item, ast.Name) and test.target == item.id:
            return True
        bound = bound_to(frame, test)
        if owner and bound is not None and name in ast.unparse(bound):
            return True
    return False


def is_made_along(frame: Frame, text: str) -> bool:
    """Return whether a write runs only if another attribute of the same object is missing."""
    owner = text.partition("[")[0].rpartition(".")[0]
    return bool(owner) and any(
        test.target.rpartition(".")[0] == owner
        or (
            "." not in test.target
            and (bound := bound_to(frame, test)) is not None
            and (first_step.table_of(bound) or "").rpartition(".")[0] == owner
        )
        for test in frame.lazy
    )


def bound_to(frame: Frame, test: LazyTest) -> ast.expr | None:
    """Return the expression that was assigned to a tested local name, or None: `ready = hasattr(self, "table") and
    …`."""
    name = ast.Name(test.target, ast.Load())
    name.lineno = test.line
    bound = bound_expression(frame, name)
    return None if bound is name else bound


def bound_unless_missing(frame: Frame, name: ast.Name) -> Iterator[ast.expr]:
    """Yield the expression of a local name, if later lines replace the name's value only if it is None: `self.h` after
    `h = self.h; if h is None: h = zeros`."""
    for test in inside(frame.node, ast.If) if frame.node is not None else ():
        if test.lineno < name.lineno and name.id in first_step.lazy_tests(test.test, True):
            bound = bound_to(frame, LazyTest(name.id, test.lineno))
            if bound is not None:
                yield bound


@memoize_on_node
def has_alternative(test: ast.expr) -> bool:
    """Return whether a test may also be true for a reason other than the missing value: `self.plan is None or self.size
    != n`."""
    return any(
        isinstance(part.op, ast.Or)
        and not all(first_step.lazy_tests(one, True) or _asks_place(one) for one in part.values)
        for part in _choices(test)
    )


def _choices(test: ast.expr) -> Iterator[ast.BoolOp]:
    if isinstance(test, ast.UnaryOp):
        yield from _choices(test.operand)
    elif isinstance(test, ast.BoolOp):
        yield test
        for value in test.values:
            yield from _choices(value)


def _asks_place(test: ast.expr) -> bool:
    """Return whether a test compares devices or dtypes. Only a first step passes such a test, because all steps run on
    one device."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], (ast.NotEq, ast.IsNot))
        and any(isinstance(side, ast.Attribute) and side.attr in ("device", "dtype") for side in ast.walk(test))
    )


@memoize_on_node
def capacity_tests(test: ast.expr) -> tuple[str, ...]:
    """Return the attributes whose sizes a condition compares. The code under such a condition makes a value of a new
    size."""
    return tuple(
        f"{CAPACITY}{text}"
        for part in (test.values if isinstance(test, ast.BoolOp) else [test])
        if isinstance(part, ast.Compare)
        for side in map(_size_asked, (part.left, *part.comparators))
        if isinstance(side, (ast.Attribute, ast.Subscript)) and "." in (text := dotted(side) or "")
    )


def _size_asked(side: ast.expr) -> ast.expr:
    """Return `x.shape` for `x.numel()` and `x.size(0)`, and other expressions as they are."""
    if isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr in ("numel", "size"):
        return ast.copy_location(ast.Attribute(side.func.value, "shape", ast.Load()), side)
    return side


def is_rare(frame: Frame) -> bool:
    """Return whether the current line runs only after a comparison of sizes. Most steps do not reach such a line."""
    return any(test.target.startswith(CAPACITY) for test in frame.lazy)


def is_remade(frame: Frame, text: str) -> bool:
    """Return whether the current line runs only if the tensor `text` does not have the needed shape, or the entry
    `text` does not have the needed key: `if self.grid.shape != x.shape:`."""
    return any(
        test.target.startswith(f"{CAPACITY}{text}.shape") or _holds_other_key(frame, test, text) for test in frame.lazy
    )


def _holds_other_key(frame: Frame, test: LazyTest, text: str) -> bool:
    """Return whether a test compares the key or the size of an entry of the table that contains `text`."""
    name = test.target.removeprefix(first_step.KEPT_KEY).removeprefix(CAPACITY).removesuffix(".shape")
    if name == test.target or not name.isidentifier():
        return False
    looked_up = bound_to(frame, LazyTest(name, test.line))
    return looked_up is not None and first_step.table_of(looked_up) == text.partition("[")[0]


def sources(frame: Frame, node: ast.expr | None) -> frozenset[str]:
    """Return the attributes whose tensors an expression reads."""
    found = set()
    for inner in read_for_values(node) if node is not None else ():
        if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Load):
            tensor, _ = as_tensor(frame.evaluate_quietly(inner))
            if tensor is not None and tensor.attr is not None:
                found.add(tensor.attr)
    if found and frame.depth == 0 and frame.node is not None and _takes_nothing(frame.node):
        # A step without parameters receives its inputs through attributes.
        for attribute in sorted(found):
            frame.engine.note(StepInput(attribute))
    return frozenset(found)


def read_for_values(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression. A tensor is left out if only its shape or dtype is read: `x` in `x.shape[0]`,
    `torch.zeros_like(x)` and `x.new_zeros(2)`."""
    if isinstance(node, ast.Attribute) and (node.attr in FORM or node.attr in _NEW):
        return
    yield node
    alike = node.args[:1] if isinstance(node, ast.Call) and _name(node.func) in _ALIKE else []
    for child in ast.iter_child_nodes(node):
        if child not in alike:
            yield from read_for_values(child)


def _name(node: ast.expr) -> str:
    return (dotted(node) or "").rpartition(".")[2]


def _takes_nothing(function: Definition) -> bool:
    given = function.args
    return len(given.posonlyargs) + len(given.args) <= 1 and not (given.vararg or given.kwarg or given.kwonlyargs)
