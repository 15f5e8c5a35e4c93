"""Objects that stand for another one: weak references and their tables, and variables of a context."""

from __future__ import annotations

import weakref
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any

from graphsafe.capture.child.state.containers import MISSING, Slot

WEAK_TABLES = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)


class _InContext:
    """Reads and sets a context variable, as a descriptor does for an attribute."""

    def __get__(self, variable: ContextVar[Any], kind: Any = None) -> Any:
        return variable.get(MISSING)

    def __set__(self, variable: ContextVar[Any], value: Any) -> None:
        variable.set(value)

    def __delete__(self, variable: ContextVar[Any]) -> None:
        try:
            # A context variable cannot be unset again, but its default reads the same.
            variable.set(Context().run(variable.get))
        except LookupError:
            raise ValueError("a context variable without a default cannot be unset again") from None


_CONTEXT = _InContext()


def context_slot(variable: ContextVar[Any]) -> Slot:
    """Return the place in which the current context holds the variable."""
    return Slot(variable, _CONTEXT)


def referent_of(reference: Any) -> Any:
    """Return what a weak reference or a weak proxy stands for; None if it is gone."""
    if isinstance(reference, weakref.ReferenceType):
        return weakref.ReferenceType.__call__(reference)
    with suppress(ReferenceError, AttributeError):
        # Python has no function for a proxy's object, but a bound method of the proxy is bound to that object.
        return reference.__init__.__self__
    return None
