"""Builds a code object with the file name that it was compiled under."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any


def code_of_file(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str) -> CodeType:
    return make(*parts).replace(co_filename=file)
