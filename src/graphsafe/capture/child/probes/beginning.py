"""The state before the rounds of `eager_rounds.py`, so that they can begin again."""

from __future__ import annotations

from collections.abc import Iterable

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import Bindings, StateError, copies_of, reach_with_refresh, reachable_state


class Beginning:
    """State on the host, and the values of those tensors that steps or the refresh change."""

    def __init__(self, session: Session, paths: Iterable[str]) -> None:
        self._session = session
        tensors = reachable_state(session.subject).tensors
        self._tensors = {path: tensors[path] for path in paths if path in tensors}
        self._values = copies_of(session.device, self._tensors)
        self._bindings: Bindings | None = None
        try:
            self._bindings = Bindings(reach_with_refresh(session.subject), clear_caches=False)
        except StateError:
            return

    def is_back(self) -> bool:
        """Put the state back. Return whether this worked."""
        if self._bindings is None or self._session.ranks.size > 1:
            return False
        try:
            self._bindings.put_back()
        except StateError:
            return False
        for path, values in self._values.items():
            if self._tensors[path].shape == values.shape:
                self._session.device.store(self._tensors[path], values)
        return True
