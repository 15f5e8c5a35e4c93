"""Tests that only a first step passes. Code after such a test makes a missing value, or enlarges a buffer that is too
small.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.naming import last_name
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.symbols.index import dotted, elements, is_none, takes_slice

FIRST_STEP = "a test that only a first step passes"
ENTRIES = "entries of "
"""The prefix for the name of a table, if a flag in the table says whether its entries are ready: `if not
cache['is_init']:`."""
READY_FLAG = re.compile(
    r"(^|[._])(is_)?(ready|init(ialized|ialised|ed)?|built|planned|first(_\w+)?|done|cached|prepared|warm(ed)?(_up)?|compiled|setup|set_up)\w*$"
)
KEPT_KEY = "key of "
"""The prefix for the name of a cached entry, if a test compares the entry's key with the key that is needed:
`if entry[0] == key: return entry`."""
EMPTY = "len:"
"The prefix of `LazyTest.target` if the test asks whether a table is still empty."
_SETTINGS = frozenset(("str", "int", "float", "Path", "pathlib.Path"))
"Types of settings, such as a path. The first step may replace such a setting by the object for which it stands."
_FIRST_FLAG = re.compile(r"(^|[._])(is_)?(first|needs?_init|fresh)\w*$")

_COUNTS = re.compile(r"(^|_)(step|iter|iteration|epoch|counter|num_updates)$")
"Matches names of counters of steps."


@memoize_on_node
def lazy_tests(test: ast.expr, branch: bool) -> tuple[str, ...]:
    """Return the values that are missing when a branch runs: `self.plan` for `if self.plan is None`, `*` for a ready
    flag."""
    return tuple(_lazy(test, branch))


def _lazy(test: ast.expr, branch: bool) -> Iterator[str]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = test.operand
        if branch and isinstance(inner, (ast.Attribute, ast.Name)):
            yield "*" if _says_ready(inner) else dotted(inner) or ""
        elif branch and isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
            yield f"{ENTRIES}{dotted(inner.value)}" if READY_FLAG.search(str(inner.slice.value)) else ""
        else:
            yield from _lazy(inner, not branch)
    elif isinstance(test, ast.BoolOp):
        for value in test.values if branch or isinstance(test.op, ast.Or) else ():
            yield from _lazy(value, branch)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield from _lazy_comparison(test, branch)
    elif isinstance(test, ast.NamedExpr) and not branch:
        yield _kept_in_name(test) or ""
    elif isinstance(test, ast.Call) and dotted(test.func) == "hasattr" and not branch:
        yield attribute_asked(test) or ""
    elif isinstance(test, ast.Call) and dotted(test.func) == "any" and branch:
        yield from _any_missing(test)
    elif isinstance(test, (ast.Attribute, ast.Name)) and (
        # `if self.first:`, or the code after `if self.ready: return`
        _FIRST_FLAG.search(dotted(test) or "") if branch else _says_ready(test)
    ):
        yield "*"


def _lazy_comparison(test: ast.Compare, branch: bool) -> Iterator[str]:
    """Yield the missing values for `self.plan is None`, `(plan := self.plans.get(key)) is None` and
    `key not in self.plans`."""
    op, right = test.ops[0], test.comparators[0]
    if is_none(right) and isinstance(op, (ast.Is, ast.Eq, ast.IsNot, ast.NotEq)):
        if isinstance(op, (ast.Is, ast.Eq)) is branch:
            yield _kept_in_name(test.left) or dotted(test.left) or attribute_asked(test.left) or ""
    elif isinstance(op, (ast.In, ast.NotIn)) and isinstance(op, ast.NotIn) is branch:
        yield dotted(right) or ""


def _any_missing(test: ast.Call) -> Iterator[str]:
    """Yield the missing values for `any(value is None for value in (self.plan, self.table))`."""
    asked = test.args[0] if test.args else None
    if isinstance(asked, ast.GeneratorExp) and isinstance(asked.elt, ast.Compare):
        loop = asked.generators[0]
        if [dotted(loop.target)] == [*_lazy_comparison(asked.elt, True)]:
            yield from filter(None, map(dotted, elements(loop.iter)))


def _kept_in_name(node: ast.expr) -> str | None:
    """Return `self.plans` for `(plan := self.plans.get(key))`."""
    return table_of(node.value) if isinstance(node, ast.NamedExpr) else None


def table_of(node: ast.expr) -> str | None:
    """Return the table in which an expression looks up an entry (`self.tables[key]`, `self.tables.get(key)`), or
    None."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return dotted(node.func.value)
    return dotted(node.value) if isinstance(node, ast.Subscript) else None


def _says_ready(node: ast.expr) -> bool:
    text = dotted(node) or ""
    return READY_FLAG.search(text) is not None and not re.search(r"(^|[._])(is_)?first", text)


def attribute_asked(node: ast.expr) -> str | None:
    """Return `self.x` for `hasattr(self, "x")` and `getattr(self, "x", None)`."""
    if isinstance(node, ast.Call) and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
        owner = dotted(node.args[0])
        return f"{owner}.{node.args[1].value!s}" if owner else None
    return None


@memoize_on_node
def turned_off(test: ast.If) -> str | None:
    """Return `self.fresh` for `if self.fresh: …; self.fresh = False`, and None for any other `if`."""
    flag = dotted(test.test) if isinstance(test.test, ast.Attribute) else None
    off = (
        target
        for one in test.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and not one.value.value
        for target in one.targets
    )
    return flag if flag is not None and flag in map(dotted, off) else None


def turned_on(function: ast.AST | None, test: ast.If) -> Iterator[str]:
    """Yield `self.shown` for `if bad.any(): …; self.shown = True` after `if self.shown: return`."""
    on = {
        dotted(target)
        for one in test.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and one.value.value is True
        for target in one.targets
    }
    for before in getattr(function, "body", ()) if on else ():
        if isinstance(before, ast.If) and before.lineno < test.lineno and isinstance(before.body[-1], ast.Return):
            by_any = isinstance(before.test, ast.BoolOp) and isinstance(before.test.op, ast.Or)
            asked = before.test.values if by_any else [before.test]  # type: ignore[attr-defined]
            yield from (flag for flag in map(dotted, asked) if flag is not None and flag in on)


@memoize_on_node
def replaced_setting(node: ast.If) -> str | None:
    """Return `self.table` for `if isinstance(self.table, str): self.table = …`. The constructor got a name or a number.
    The first step replaces it by the object for which the name or number stands."""
    test = node.test
    if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return None
    setting, asked = dotted(test.args[0]), test.args[1]
    kinds = asked.elts if isinstance(asked, ast.Tuple) else [asked]
    assigned = {dotted(target) for one in node.body if isinstance(one, ast.Assign) for target in one.targets}
    is_kept = setting is not None and "." in setting and setting in assigned
    return setting if is_kept and _SETTINGS.issuperset(map(dotted, kinds)) else None


@memoize_on_node
def empty_tests(test: ast.expr, branch: bool) -> tuple[str, ...]:
    """Return the table that is empty when a branch runs: `state` for the branch of `if len(state) == 0:`, and for the
    `else` branch of `if len(state) != 0:` or `> 0`. Such a table is empty only before the first step."""
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Call):
        return ()
    call, asked, is_empty = test.left, test.comparators[0], isinstance(test.ops[0], ast.Eq)
    decides = is_empty or isinstance(test.ops[0], (ast.NotEq, ast.Gt))
    counts = dotted(call.func) == "len" and len(call.args) == 1 and isinstance(asked, ast.Constant) and asked.value == 0
    return (dotted(call.args[0]) or "",) if counts and decides and is_empty == branch else ()


@memoize_on_node
def size_tests(test: ast.expr, branch: bool) -> tuple[str, ...]:
    """Return the buffers that are too small when a branch runs: `self.buf` after `if self.buf.numel() < n`."""
    if isinstance(test, ast.BoolOp) and branch:
        return tuple(text for value in test.values for text in size_tests(value, branch))
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not branch:
        return ()
    op = test.ops[0]
    if isinstance(op, (ast.Lt, ast.LtE)):
        side, asked = test.left, test.comparators[0]
    elif isinstance(op, (ast.Gt, ast.GtE)):
        side, asked = test.comparators[0], test.left
    else:
        return ()
    sizes = [one for one in inside(side, ast.Attribute) if one.attr in ("numel", "shape", "size", "nelement")]
    found = [text for one in sizes if "." in (text := dotted(one.value) or "")]
    while isinstance(side, ast.Subscript):
        side = side.value
    # Some numbers are counters, not sizes of buffers: `self.warmups <= 0`, `self.global_step < self.warmup_steps`.
    counts = found or isinstance(asked, ast.Constant) or _COUNTS.search(last_name(side)) is not None
    if not counts and isinstance(side, ast.Attribute) and (owner := dotted(side.value)) is not None:
        # In `if length > self.cached:` or `if height > self.sizes[0]:`, a number of the object shows that its buffers
        # are too small.
        found.append(f"{owner}.*")
    return tuple(found)


def too_small(frame: Frame, text: str) -> bool:
    sizes = (f"size of {text}", f"size of {text.rpartition('.')[0]}.*")
    return any(test.target in sizes for test in frame.lazy)


def missing_when_raised(attempt: ast.Try, handler: ast.ExceptHandler) -> tuple[str, ...]:
    """Return the values that are missing in a handler such as `except AttributeError`: `self.plan` after
    `return self.plan`."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    errors = ("AttributeError", "KeyError", "IndexError", "LookupError")
    if not all(node is not None and dotted(node) in errors for node in caught) or len(attempt.body) != 1:
        return ()
    value = getattr(attempt.body[0], "value", None)
    looked_up = [one for one in ast.walk(value) if isinstance(one, (ast.Attribute, ast.Subscript))] if value else []
    return tuple(dict.fromkeys(filter(None, map(dotted, looked_up))))


@memoize_on_node
def kept_keys(test: ast.expr) -> tuple[str, ...]:
    """Return the cached entries whose key does not match after `if entry is not None and entry[0] == key: return …`."""
    return tuple(
        f"{KEPT_KEY}{side.value.id}"
        for part in (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test])
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)
        for side in (part.left, *part.comparators)
        if isinstance(side, (ast.Attribute, ast.Subscript)) and isinstance(side.value, ast.Name)
    )


@memoize_on_node
def returned_if_there(test: ast.If) -> tuple[str, ...]:
    """Return the names of the value and the flag in `if self.is_updated.get(n): return self.keys[n]`, if one object has
    both."""
    last, asked = test.body[-1], test.test
    flag = table_of(asked) if isinstance(asked, ast.Call) else dotted(asked)
    kept = dotted(last.value) if isinstance(last, ast.Return) and last.value is not None else None
    if flag is None or kept is None or "." not in kept or kept == flag:
        return ()
    return (kept, flag) if kept.rpartition(".")[0] == flag.rpartition(".")[0] else ()


def is_refilled(frame: Frame, text: str) -> bool:
    """Return whether a function copies into an attribute or a view of it: `self.buffer[:n].copy_(x)`. The result is
    False if the function copies into no view at all, because then all steps probably have tensors of one size."""
    return frame.node is not None and text in _refilled(frame.node)


@memoize_on_node
def _refilled(function: ast.AST) -> frozenset[str]:
    views = {
        source_text(node.targets[0]): source_text(node.value.value)
        for node in inside(function, ast.Assign)
        if isinstance(node.value, ast.Subscript) and takes_slice(node.value)
    }
    bases = [
        call.func.value
        for call in inside(function, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "copy_"
    ]
    texts = {source_text(base.value if isinstance(base, ast.Subscript) else base) for base in bases}
    if texts.isdisjoint(views) and not any(isinstance(base, ast.Subscript) and takes_slice(base) for base in bases):
        return frozenset()
    return frozenset(views.get(text, text) for text in texts)
