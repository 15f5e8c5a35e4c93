"""Frozen dataclasses that are as cheap to make as ordinary ones.

The type checker rejects assignments to their fields, as for `dataclass(frozen=True)`. The standard decorator also
rejects these assignments at run time, so its constructors set each field through `object.__setattr__`. This makes the
creation of an object take four times as long, and a scan of a large project creates millions of values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:
    import dataclasses

    def dataclass(*, frozen, slots):
        return dataclasses.dataclass(unsafe_hash=frozen, slots=slots)

    def replace(value, /, **changes):
        """Do the same as `dataclasses.replace`, in 60 % of the time."""
        names = type(value).__match_args__
        return type(value)(*[changes[name] if name in changes else getattr(value, name) for name in names])
