"""The support for CUDA graphs that the classes behind a step declare."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Declaration:
    level: str | None
    "The level; None if the declaration is code that could not be called."
    words: str
    "The declaration as text: `_cudagraph_support = ALWAYS of FlashBuilder`."
    path: str | None = None
    line: int | None = None
    exact: bool = True
    """Whether the declaration rules out support beyond its level. SGLang's methods only say that graphs of decoding are
    supported."""
