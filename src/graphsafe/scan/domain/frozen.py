"""Frozen dataclasses that are as cheap to make as any others.

The type checker refuses assignments to their fields, as to those of `dataclass(frozen=True)`. That one refuses them at
run time as well, and so has to set each field through `object.__setattr__`: making a value takes four times as long,
and reading a large project makes millions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def dataclass(*, frozen, slots):
        return dataclasses.dataclass(unsafe_hash=frozen, slots=slots)
