"""Flags that nothing in the project changes. Such a flag is off by default in an application, or constructors set it to
a constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.naming import last_name
from graphsafe.scan.domain.values import Instance, Number
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_BY_DEFAULT = frozenset(("default", "attribute"))
_OFF = r"(?:None|False|0(?:\.0*)?)\s*(?:[,)#\n\r]|$)"


def never_taken(frame: Frame, test: ast.expr, known: Number | None) -> bool | None:
    """Return the branch of an `if` that never runs, because nothing in the project gives a flag the value that the
    branch needs. Return None if there is no such branch."""
    return True if _stays_off(frame, test, known) else _against_constant(frame, test, known)


def _stays_off(frame: Frame, test: ast.expr, known: Number | None) -> bool:
    """Return whether a branch runs only if some flag is on, and this flag is off by default: `if self.flag`, `if
    config.noise > 0`.

    This is known only for applications: if a flag is ever turned on, a script of the application names it. The flags of
    a library are turned on by the library's users.
    """
    if not frame.hot or frame.path not in frame.engine.applied:
        return False
    conditions = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    parts = [_asked(one) for one in conditions]
    by_default = known is not None and not known.const and known.overridable_by in _BY_DEFAULT
    return any((by_default and _is_off(frame, part)) or _is_unset_option(frame, part) for part in parts)


def _is_unset_option(frame: Frame, test: ast.expr) -> bool:
    """Return whether a test asks for an option that is off by default and that nothing in the project turns on: `if
    config.get("noise", False)`, or `if self.noise` after `self.noise = config.get("noise", False)`."""
    assigned = [*_assigned(frame, test)] or [test]
    options = [_option_off(value) for value in assigned]
    return all(name is not None and not _is_given(frame, name) for name in options)


def _assigned(frame: Frame, test: ast.expr) -> Iterator[ast.expr]:
    """Yield the values that methods assign to the attribute of `self` in a test."""
    if not isinstance(test, ast.Attribute) or dotted(test.value) != "self":
        return
    owner = frame.env.get("self")
    for cls, facts in frame.project.own_classes(owner.ref) if type(owner) is Instance else ():
        for method in facts.writers.get(test.attr, ()):
            node = frame.project.function_node(f"{cls.partition('::')[0]}::{facts.methods[method]}")
            for made in inside(node, ast.Assign) if node is not None else ():
                if any(dotted(one) == f"self.{test.attr}" for one in made.targets):
                    yield made.value


def _option_off(value: ast.expr) -> str | None:
    """Return the name of an option that code reads with a default that is off: `cfg.get("noise", False)`,
    `getattr(args, "noise", None)`."""
    if not isinstance(value, ast.Call) or last_name(value.func) not in ("get", "getattr") or len(value.args) < 2:
        return None
    name, default = value.args[-2:]
    is_off = isinstance(default, ast.Constant) and default.value in (None, False, 0)
    return name.value if is_off and isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _asked(test: ast.expr) -> ast.expr:
    """Return the flag for which a condition asks: `config.noise` for `config.noise > 0`."""
    return test.left if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.NotEq)) else test


def _is_off(frame: Frame, test: ast.expr) -> bool:
    name = last_name(test)
    value = frame.evaluate_quietly(test) if name else None
    is_off = type(value) is Number and value.const in (False, 0) and value.overridable_by in _BY_DEFAULT
    return is_off and not _is_given(frame, name)


def _is_given(frame: Frame, name: str) -> bool:
    """Return whether the project turns a flag on. This is so if any code assigns a value other than None, False and 0
    to the flag, or names the flag in a string, as for a command-line option. Configurations, scripts and documents are
    searched too."""
    files = frame.project.files
    words = name.encode(), name.replace("_", "-").encode()

    def is_given() -> bool:
        if files.any_contains(frame.path, _gives(name), *words):
            return True
        return files.documents is not None and files.documents.any_contains(_sets(name), words)

    return files.table(f"gives {name}", is_given)


def _gives(name: str) -> re.Pattern[bytes]:
    """Return a pattern for code that assigns a value other than None, False and 0 to a flag, or names the flag in a
    string."""
    spelled = re.escape(name).replace("_", "[-_]")
    # Neither a copy from an attribute of the same name gives a new value, as in `benchmark=first.benchmark` and
    # `self.noise = noise`, nor does `config.get("noise", False)`.
    read = rf"""["']{spelled}["']\s*,\s*(?:None|False|0(?:\.0*)?)\s*\)"""
    other = rf"(?!=|\s*(?:{_OFF}|(?:[\w.]+\.)?{name}\b|[^\n=]{{0,80}}{read}))"
    given = (
        rf"(?<![\w.]){name}\s*(?::[^=\n,()]+)?={other}"
        rf"|\.{name}\s*(?::[^=\n,()]+)?={other}"
        rf"""|(?!{read})(?:--|["']){spelled}["'\s=]"""
    )
    return re.compile(given.encode(), re.M)


def _sets(name: str) -> re.Pattern[bytes]:
    """Return a pattern for the texts that set a flag: `name: true`, `"name": 0.1`, `model.name=1`, `--name`. A
    reference to the same name sets nothing: `name: ${name}`, `name: !ref <name>`."""
    spelled = re.escape(name).replace("_", "[-_]")
    off = r"(?:null|~|none|false|0(?:\.0*)?)\s*(?:[,}#\n\r]|$)"
    same = rf"(?:!ref\s*<|\$\{{(?:\w+\.)*){spelled}[>}}]"
    text = rf"""--{spelled}\b(?!["']?[ =]+{off})|(?<![\w-]){spelled}\b["'`]*\s*[:=]\s*(?!\s|{off}|{same})"""
    return re.compile(text.encode(), re.M | re.I)


def _against_constant(frame: Frame, test: ast.expr, known: Number | None) -> bool | None:
    """Return the branch of an `if` that never runs, because constructors give a flag the opposite value. Return None if
    other code may change the flag. For example, no other code changes the flag if `self.simple = True` is its only
    assignment and no parameter has its name."""
    flag = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    if known is None or not frame.hot or type(known.const) is not bool or known.overridable_by not in _BY_DEFAULT:
        return None
    if not isinstance(flag, ast.Attribute) or not isinstance(flag.value, ast.Name) or flag.value.id != "self":
        return None
    value = known.const is (flag is test)
    return not known.const if _is_constant(frame, flag.attr, value) else None


def _is_constant(frame: Frame, name: str, value: bool) -> bool:
    files = frame.project.files
    word = name.encode()
    annotation = r"\s*(?::[^=\n,()]+)?"
    changes = rf"""(?<!self\.)\b{name}{annotation}[-+*/|&^]?=(?!=)|["']{name}["']|^[ \t(]*self\.{name}\s*,"""
    changes += rf"|self\.{name}{annotation}(?:\)\s*=|[-+*/|&^]=|=(?!=|\s*{value}\s*(?:[#;\r\n]|$)))"

    def is_constant() -> bool:
        if files.any_contains(frame.path, re.compile(changes.encode(), re.M), word):
            return False
        mentions = re.compile(rb"(?<![\w-])%s(?![\w-])" % re.escape(word))
        return files.documents is None or not files.documents.any_contains(mentions, (word,))

    return files.table(f"constant {name} {value}", is_constant)
