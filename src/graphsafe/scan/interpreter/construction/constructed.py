"""The attributes that the constructors of an instance assign: all of them, or those that have been read so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join, join_all
from graphsafe.scan.domain.summary import Effects
from graphsafe.scan.domain.values import NoneValue, Tensor, Unknown, Value, options


class UnderConstruction:
    """The attributes that the constructors of an instance assign, as far as the constructors have been read."""

    def __init__(self, ref: str, effects: Sequence[Effects]) -> None:
        self._ref = ref
        self._effects = effects

    def value(self, name: str) -> Value | None:
        value: Value | None = None
        for effects in self._effects:
            key = (self._ref, name)
            for written in (*effects.written.get(key, ()), *effects.constructed.get(key, ())):
                # If some of the assigned values are known, the unknown ones are ignored. A known None gives little
                # information, so it does not count as known.
                is_open = value is None or (type(value) is Unknown and type(written) is not NoneValue)
                if value is None or is_open or type(written) is not Unknown or type(value) is NoneValue:
                    value = written if value is None or is_open else join(value, written)
        return value

    def promised(self, name: str) -> Value | None:
        """Return the later value of an attribute that is None at first, according to its annotation."""
        found = [value for effects in self._effects for value in effects.expected.get((self._ref, name), ())]
        return join_all(found) if found else None


@dataclass(frozen=True, slots=True)
class Constructed:
    """The attributes that the constructors of an instance assign, after all constructors have been read."""

    values: Mapping[str, Value | None]
    promises: Mapping[str, Value | None]

    def value(self, name: str) -> Value | None:
        return self.values.get(name)

    def promised(self, name: str) -> Value | None:
        return self.promises.get(name)


def all_constructed(ref: str, effects: Effects) -> Constructed:
    """Return the attributes as they are after the constructors of class `ref` have run."""
    found = UnderConstruction(ref, [effects])
    names = {name for of, name in (*effects.written, *effects.constructed) if of == ref}
    promised = {name for of, name in effects.expected if of == ref}
    return Constructed({name: found.value(name) for name in names}, {name: found.promised(name) for name in promised})


def perhaps_moved(value: Value | None) -> Value | None:
    """Return what an attribute holds if some method may replace its tensor by one on any device: `setattr(self, name,
    tensor)`."""
    return join_all(map(_perhaps_moved, options(value))) if value is not None else None


def _perhaps_moved(value: Value) -> Value:
    if type(value) is Tensor and value.where == "host":
        return replace(value, where="any", maybe_host=True)
    return value
