"""Watches memory that graphs use but do not own. All references to it are weak."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import OutsideStatus
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import Name, storage_number
from graphsafe.run.facts import Calls

_MOST_ASKED = 4
"After a loss, at most this many checks search the process for a tensor that uses the lost memory now."


class Memory:
    """One storage outside the pools of graphs.

    `suspect` is called when the storage is freed, or when a tensor that gave it a name is freed.
    """

    def __init__(
        self,
        storage: torch.UntypedStorage,
        names: Sequence[Name],
        text: str,
        made: CallSite | None,
        suspect: Callable[[Memory], None],
        is_held: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Begin to watch the storage. `is_held` takes the number of an existing storage, and returns whether anything
        besides graphs holds it."""
        self.number = int(storage._cdata)
        self.bytes = storage.nbytes()
        self.address = storage.data_ptr()
        self.text = names[0].text if names else text
        self.shape = text
        self.names = tuple(names)
        self.made = made
        self.status: OutsideStatus = "alive"
        self.frames: Calls = ()
        "The calls that led to the line where the memory was lost, outermost first."
        self._left: Calls = ()
        "The calls that led to the last line that moved a tensor to another storage."
        self._deaths: dict[int, Calls] = {}
        "Index in `names` -> the calls that led to the line where the tensor with that name was freed."
        self._before: set[int] = set()
        "The indices of names whose tensors were freed before the memory was lost."
        self._outlived: set[int] = set()
        "The indices of names that referred to another tensor while something else held the memory."
        self.instead: CallSite | None = None
        "The line that made the tensor to which the name of the lost memory now refers."
        self.heir: str | None = None
        "The type and shape of a tensor that got the lost memory afterwards."
        self._asked = 0
        self._suspect, self._is_held = suspect, is_held
        self._watched: list[weakref.ref[Any]] = [weakref.ref(storage, functools.partial(self._gone, None))]
        for at, name in enumerate(names):
            if (tensor := name.tensor()) is not None:
                self._watched.append(weakref.ref(tensor, functools.partial(self._gone, at)))

    @property
    def is_there(self) -> bool:
        return self._watched[0]() is not None

    @property
    def is_in_place(self) -> bool:
        """Whether the storage still exists at the same address. A resize may have moved it."""
        storage = self._watched[0]()
        return storage is not None and int(storage.data_ptr()) == self.address

    def leaving(self, frames: Calls) -> None:
        """Record that a line is about to move a tensor to another storage. `frames` are the calls that led to the
        line."""
        self._left = frames
        self._note(frames)

    def _note(self, frames: Calls) -> None:
        self.frames = frames
        self._before = {name for name, calls in self._deaths.items() if calls != frames}

    def _gone(self, name: int | None, _: Any) -> None:
        """Record the running line. It has freed the storage, or a tensor that gave the storage a name.

        The memory is lost when its last tensor is freed. If something still holds the memory after a tensor is freed,
        the line that freed this tensor replaces the lines of earlier tensors.
        """
        if sys.is_finalizing() or self.status != "alive":
            return
        with contextlib.suppress(Exception):
            frames, _ = user_frames()
            if name is not None:
                self._deaths[name] = frames
            if not self.frames or (name is not None and self.is_there and self._is_held(self.number)):
                self._note(frames)
            self._suspect(self)

    def look(self, maker: Callable[[torch.Tensor], CallSite | None]) -> None:
        """Update `status`.

        `maker` returns the line that made a tensor. Memory that nothing holds is lost. Memory that something holds is
        lost only if a module's parameter or buffer is now another tensor; other variables may have been reused on
        purpose.
        """
        if self.status != "alive":
            return
        held = self.is_there and self._is_held(self.number)
        if held and not self.is_in_place:
            self.status = "moved"
            return
        moved = any(self._is_other(name.tensor()) for name in self.names)
        now = [(at, tensor) for at, name in enumerate(self.names) if self._is_other(tensor := name.now())]
        others = {at: tensor for at, tensor in now if tensor is not None}
        if held:
            own = [at for at, name in enumerate(self.names) if name.way and name.way[-1][0] == "parameter"]
            if own and others.keys() >= set(own):
                self._rebound(own[0], maker(others[own[0]]))
                self.frames = self._deaths.get(own[0], self._left)
                self.status = "moved" if moved else "rebound"
            else:
                self._outlived |= others.keys() - self._deaths.keys()
                self.frames = self._left = ()
            return
        self.text = next((name.text for at, name in enumerate(self.names) if at not in self._before), self.text)
        rebound = [at for at in others if at not in self._outlived]
        if moved:
            self.status = "moved"
            self.frames = self._left or self.frames
        elif rebound:
            self._rebound(rebound[0], self.instead or maker(others[rebound[0]]))
            self.frames = self._deaths.get(rebound[0], self.frames)
        else:
            self.status = "freed"

    def _rebound(self, name: int, instead: CallSite | None) -> None:
        self.status, self.text, self.instead = "rebound", self.names[name].text, instead

    @property
    def seeks_heir(self) -> bool:
        """Whether this check should search for a tensor that has the memory now. Only the first checks after the loss
        search."""
        return self.status != "alive" and self.heir is None and self._asked < _MOST_ASKED

    def found_heir(self, heir: str | None) -> None:
        self._asked += 1
        self.heir = heir

    def _is_other(self, tensor: torch.Tensor | None) -> bool:
        return tensor is not None and storage_number(tensor) not in (None, self.number)
