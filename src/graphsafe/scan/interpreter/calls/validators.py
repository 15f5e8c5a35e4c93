"""Validators of pydantic models, which check fields and whole models when an object is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import ClassValue, Function, Instance
from graphsafe.scan.execution.frame import Frame

_OF_FIELDS = ("field_validator", "validator")
_OF_MODEL = ("model_validator", "root_validator")


def validated(frame: Frame, node: ast.Call, ref: str, arguments: Arguments) -> Arguments:
    """Return a constructor's arguments after the field validators of a pydantic model have changed them."""
    for method, decorator in _validators(frame, ref, _OF_FIELDS):
        for name in (part.value for part in decorator.args if isinstance(part, ast.Constant)):
            if isinstance(name, str) and name in arguments.keywords:
                checked = frame.call(node, Function(method, ClassValue(ref)), Arguments((arguments.keywords[name],)))
                arguments = replace(arguments, keywords={**arguments.keywords, name: checked})
    return arguments


def check(frame: Frame, node: ast.Call, made: Instance) -> None:
    """Call the model validators of a pydantic object that a step has just made."""
    for method, _ in _validators(frame, made.ref, _OF_MODEL):
        frame.call(node, Function(method, replace(made, step=True)), Arguments())


def _validators(frame: Frame, ref: str, kinds: tuple[str, ...]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the methods of a pydantic model that are decorated as validators, each with its decorator."""
    project = frame.project
    if not any(base.startswith("pydantic.") for base in project.mro(ref)):
        return
    for base, _ in project.own_classes(ref):
        for method in project.own_methods(base):
            body = project.function_node(method)
            for decorator in body.decorator_list if body is not None else ():
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] in kinds:
                    yield method, decorator
