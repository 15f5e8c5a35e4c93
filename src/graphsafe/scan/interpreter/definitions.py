"""Statements about names: imports, functions, classes, `global`, `nonlocal` and `del`."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.values import UNKNOWN, ClassValue
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import platforms, protocols
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.imports import import_targets
from graphsafe.scan.symbols.index import decorator_name, is_kernel


def delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)
        elif isinstance(target, ast.Subscript) and frame.hot:
            owner = frame.evaluate_quietly(target.value)
            key = UNKNOWN if isinstance(target.slice, ast.Slice) else frame.evaluate_quietly(target.slice)
            protocols.called(frame, node, owner, "__delitem__", arguments=Arguments((key,)))


def import_(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    for local, target in import_targets(node, frame.file.module, frame.file.is_package):
        if local != "*":
            frame.env[local] = frame.engine.globals.bound(frame.project.resolve_dotted(target, frame.path))
    elsewhere = platforms.imported(frame, node) if frame.hot else None
    if elsewhere is not None:
        frame.guards.append(elsewhere)


def global_(frame: Frame, node: ast.Global) -> None:
    frame.globals.update(node.names)


def nonlocal_(frame: Frame, node: ast.Nonlocal) -> None:
    if frame.cells is not None:
        frame.nonlocals.update(node.names)
        for name in node.names:
            if name in frame.env:
                frame.env[name] = held_in(frame.env[name], f"{frame.cells}.{name}")


def function(frame: Frame, node: Definition) -> None:
    if node.decorator_list and is_kernel(filter(None, map(decorator_name, node.decorator_list))):
        frame.env[node.name] = UNKNOWN
    elif frame.function or frame.depth:
        frame.env[node.name] = frame.engine.closures.define(frame, node)
    else:
        frame.env[node.name] = frame.engine.globals.value(frame.file, node.name)


def class_(frame: Frame, node: ast.ClassDef) -> None:
    ref = f"{frame.ref}.{node.name}" if frame.function else f"{frame.path}::{node.name}"
    frame.env[node.name] = ClassValue(ref) if frame.project.class_facts(ref) is not None else UNKNOWN
