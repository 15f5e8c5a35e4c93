"""Ranges of torch versions, as the op table writes them: `>=2.6,<2.12`."""

from __future__ import annotations

import operator
import re

_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def version_matches(version: str, spec: str) -> bool:
    """Return whether a torch version (`2.11.0+cu130`) lies in `spec` (`>=2.6,<2.12`). Pre-releases count as their
    release.

    Raises `ValueError` where `spec` is not a range.
    """
    bounds = [re.fullmatch(r"\s*(>=|<=|==|!=|>|<)\s*([\d.]+)\s*", part) for part in spec.split(",")]
    if None in bounds:
        raise ValueError(f"not a version range: {spec!r}")
    return all(_COMPARE[bound[1]](_release(version), _release(bound[2])) for bound in bounds if bound is not None)


def _release(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\d+", version.split("+")[0])[:3]]
    return (*numbers, 0, 0, 0)[:3]
