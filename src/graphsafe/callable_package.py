"""Makes packages callable: `graphsafe.scan` is both a package of modules and a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package that can be called.

    Python binds the package to its name, so the package would hide a function with the same name.
    """

    _function: Callable[[], Callable[..., Any]]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function()(*args, **keywords)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function())


def make_callable(package: ModuleType, function: Callable[[], Callable[..., Any]]) -> None:
    """Make `package` callable. A call of the package calls the function that `function()` returns, with the same
    arguments."""
    package.__class__ = _CallablePackage
    vars(package)["_function"] = function
