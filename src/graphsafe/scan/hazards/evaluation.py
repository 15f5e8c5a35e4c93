"""Tells whether layers certainly run in evaluation mode."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.project_files import Files

_EVALUATES = re.compile(r"\.eval\(\)|\.train\((?:mode=)?False\)")
_TRAINS = re.compile(r"\.train\((?!(?:mode=)?False|mode)|\.backward\(")


def is_certain(frame: Frame) -> bool:
    """Return whether the layers that a function calls are certainly in evaluation mode. Either their module overrides
    `train` to keep them in this mode, or the project never trains."""
    train = frame.project.method_node(frame.owner, "train")
    if train is not None and _EVALUATES.search(ast.unparse(train)):
        return True
    files = frame.project.files
    return files.table("evaluates", lambda: _searched(files, _EVALUATES) and not _searched(files, _TRAINS))


def _searched(files: Files, pattern: re.Pattern[str]) -> bool:
    for path in files.names:
        try:
            if files.search(path, pattern):
                return True
        except Unreadable:
            continue
    return False
