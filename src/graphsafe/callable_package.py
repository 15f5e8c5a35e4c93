"""Makes packages callable: `graphsafe.scan` is both a package of modules and the function that uses them."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package that can be called: Python binds it to its name, so it would hide the function of that name."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return _function(self)(*args, **keywords)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_function(self))


def _function(package: ModuleType) -> Any:
    from graphsafe import api

    return getattr(api, package.__name__.rpartition(".")[2])


def make_callable(name: str) -> None:
    """Make a call of a package run the function of graphsafe.api with the same name."""
    sys.modules[name].__class__ = _CallablePackage
