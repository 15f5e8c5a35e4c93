"""Objects that refer to another object indirectly: weak references, weak dictionaries and context variables."""

from __future__ import annotations

import weakref
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any

from graphsafe.capture.child.state.containers import MISSING, Slot

WEAK_TABLES = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)


class _InContext:
    """Reads and sets a context variable, in the way that a descriptor reads and sets an attribute."""

    def __get__(self, variable: ContextVar[Any], kind: Any = None) -> Any:
        return variable.get(MISSING)

    def __set__(self, variable: ContextVar[Any], value: Any) -> None:
        variable.set(value)

    def __delete__(self, variable: ContextVar[Any]) -> None:
        try:
            # A context variable cannot be unset again. Setting it to its default has the same effect for readers.
            variable.set(Context().run(variable.get))
        except LookupError:
            raise ValueError("a context variable without a default cannot be unset again") from None


_CONTEXT = _InContext()


def context_slot(variable: ContextVar[Any]) -> Slot:
    """Return the place in which the current context stores the variable."""
    return Slot(variable, _CONTEXT)


def referent_of(reference: Any) -> Any:
    """Return the object of a weak reference or a weak proxy; None if the object no longer exists."""
    if isinstance(reference, weakref.ReferenceType):
        return weakref.ReferenceType.__call__(reference)
    with suppress(ReferenceError, AttributeError):
        # Python has no function that returns a proxy's object, but a bound method of the proxy is bound to that object.
        return reference.__init__.__self__
    return None
