"""Packages that can be called: `graphsafe.scan` is a package of modules and the function that uses them."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """Python puts every package that it imports in the place of a function of that name, so the package is callable."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return _function(self)(*args, **keywords)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_function(self))


def _function(package: ModuleType) -> Any:
    from graphsafe import api

    return getattr(api, package.__name__.rpartition(".")[2])


def make_callable(name: str) -> None:
    """Let a call of a package be one of the function of graphsafe.api with its name."""
    sys.modules[name].__class__ = _CallablePackage
