"""Finds the line that assigned an attribute after given calls, if only one line of the program can have made this
assignment."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from graphsafe.capture.shared.classify import contains
from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.report.model import CallSite
from graphsafe.report.source import file_lines
from graphsafe.run.child.source import called_name, file_tree, innermost, outer_loop

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def assigning_line(owner: Any, attribute: str, done: Sequence[CallSite]) -> CallSite | None:
    """Return the only line that can have assigned an attribute of `owner` after the calls `done`.

    All files that the process has imported are searched. Return None if no line or more than one line is found.
    """
    word = re.compile(rf"\b{re.escape(attribute)}\b")
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = {absolute(file) for file in files if isinstance(file, str) and file.endswith(".py") and is_user_file(file)}
    paths = [
        path for path in sorted(own | {one.path for one in done}) if word.search("\n".join(file_lines(path) or ()))
    ]
    classes = {kind.__name__ for kind in type(owner).__mro__}
    found = [line for path in paths for line in _lines(path, attribute, classes, done)]
    return found[0] if len(found) == 1 else None


def _lines(path: str, attribute: str, classes: set[str], done: Sequence[CallSite]) -> Iterator[CallSite]:
    for base, line in _assigned(file_tree(path), attribute):
        function = innermost(path, line, *_FUNCTIONS)
        around = innermost(path, line, ast.ClassDef)
        is_own = function is not None and isinstance(base, ast.Name) and [base.id] == _first(function)
        is_other = is_own and around is not None and around.name not in classes
        if not is_other and not _is_before(path, line, function, is_own, done):
            yield CallSite(path, line, None if function is None else function.name)


def _assigned(tree: ast.Module, attribute: str) -> Iterator[tuple[ast.expr, int]]:
    """Yield each object on which a statement sets the attribute, and the line of the statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store):
            yield node.value, node.lineno
        elif isinstance(node, ast.Call) and called_name(node.func) in ("setattr", "__setattr__"):
            names = [one.value for one in node.args if isinstance(one, ast.Constant)]
            if attribute in names:
                yield node.args[0], node.lineno


def _is_before(path: str, line: int, function: Any, is_own: bool, done: Sequence[CallSite]) -> bool:
    """Return whether a line ran before the calls `done`.

    A line ran before them if it is above one of the calls in the same function. A line of a constructor also ran before
    them, unless `done` contains a call in this constructor.
    """
    ran = [one.line for one in done if one.path == path and innermost(path, one.line, *_FUNCTIONS) is function]
    if not ran:
        return is_own and function.name == "__init__"
    loop: Any = outer_loop(function or file_tree(path), line)
    return line < max(ran) and not (loop is not None and contains(loop, max(ran)))


def _first(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [one.arg for one in function.args.args[:1]]
