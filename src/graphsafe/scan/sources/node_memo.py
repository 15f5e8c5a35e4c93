"""What the syntax of a node says, worked out once and kept with the node: it goes when the node goes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Question = TypeVar("Question", bound=Callable[..., Any])


def memoize_on_node(question: Question) -> Question:
    """A function of a node, and of what else it is given, that answers the same each time.

    The answer must not hold the node itself or one around it: nothing would free such a ring while the collector rests.
    """
    name = f"{question.__module__}.{question.__qualname__}"

    @wraps(question)
    def ask(node: ast.AST, *more: object) -> Any:
        answers: dict[Any, Any] = node.__dict__
        key: object = name
        if more:
            answers, key = answers.setdefault(name, {}), more
        if key not in answers:
            answers[key] = question(node, *more)
        return answers[key]

    return ask  # type: ignore[return-value]


source_text = memoize_on_node(ast.unparse)
