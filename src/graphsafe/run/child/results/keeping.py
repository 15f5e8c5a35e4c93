"""Finds the statement that puts a graph's results into a container: `self.chunks.append(logits)`.

A statement of a function that led to a replay counts if its container holds the results at the moment of the replay.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import FrameType
from typing import Any

import torch

from graphsafe.report.model import CallSite
from graphsafe.run.child.frozen.origins import line_with
from graphsafe.run.child.names import elements_of, storage_number
from graphsafe.run.child.source import base_of, file_tree

PUTS = frozenset({"append", "appendleft", "add", "insert", "extend", "setdefault", "update", "put"})
_MOST = 64
"Number of a container's last items that are searched."
_DEEPEST = 3
_ENOUGH = 2
"How often a container must hold the same results; a table of all graphs' outputs holds them once."


def keeping_line(storages: frozenset[int], frames: Sequence[FrameType]) -> CallSite | None:
    """Return the statement that repeatedly puts tensors of these storages into a container.

    `frames` are the user's, innermost first. Call it with torch functions disabled.
    """
    return line_with(frames, _stores, lambda container: _held(container, storages) >= _ENOUGH)


@functools.lru_cache(maxsize=64)
def _stores(path: str) -> tuple[tuple[ast.expr, int], ...]:
    """Return the containers into which statements of a file put something, as expressions with their lines."""
    return tuple((each, node.lineno) for node in ast.walk(file_tree(path)) for each in _containers(node))  # type: ignore[attr-defined]


def _containers(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PUTS:
        yield base_of(node.func.value)
    elif isinstance(node, ast.Assign):
        yield from (base_of(target) for target in node.targets if isinstance(target, ast.Subscript))
    elif isinstance(node, ast.AugAssign):
        yield base_of(node.target)


def _held(value: Any, storages: frozenset[int], depth: int = 0) -> int:
    """Count the tensors of these storages in a container and in the containers inside it."""
    if issubclass(type(value), torch.Tensor):
        return int(depth > 0 and storage_number(value) in storages)
    return sum(_held(item, storages, depth + 1) for item in _last(value)) if depth < _DEEPEST else 0


def _last(value: Any) -> Iterable[Any]:
    return islice(reversed(elements_of(value)), _MOST)
