"""Watches memory that graphs use and do not own, through weak references only."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import OutsideStatus
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import Name, storage_number

_MOST_ASKED = 4
"How often the process's tensors are searched for one that has got lost memory."


class Memory:
    """One storage outside graphs' pools. `suspect` is called when it, or a tensor by which it was named, is freed."""

    def __init__(
        self,
        storage: torch.UntypedStorage,
        names: Sequence[Name],
        text: str,
        made: CallSite | None,
        suspect: Callable[[Memory], None],
    ) -> None:
        self.number = int(storage._cdata)
        self.bytes = storage.nbytes()
        self.address = storage.data_ptr()
        self.text = names[0].text if names else text
        self.shape = text
        self.names = tuple(names)
        self.made = made
        self.status: OutsideStatus = "alive"
        self.frames: tuple[CallSite, ...] = ()
        "The calls that led to the line where the memory was lost, outermost first."
        self.instead: CallSite | None = None
        "The line that made the tensor that has the name now."
        self.heir: str | None = None
        "The type and shape of a tensor that has got the lost memory since."
        self._asked = 0
        self._suspect = suspect
        named = [tensor for name in names if (tensor := name.tensor()) is not None]
        self._watched: list[weakref.ref[Any]] = [weakref.ref(one, self._gone) for one in (storage, *named)]

    @property
    def is_there(self) -> bool:
        return self._watched[0]() is not None

    def is_memory_of(self, storage: torch.UntypedStorage) -> bool:
        """Return whether the memory is still there and is that of the storage, which may have been resized."""
        return self.is_there and int(storage.data_ptr()) == self.address

    def _gone(self, _: Any) -> None:
        """Note the running line: the storage or a tensor has died."""
        if sys.is_finalizing() or self.status != "alive":
            return
        with contextlib.suppress(Exception):
            self.frames = self.frames or user_frames()[0]
            self._suspect(self)

    def look(self, is_held: Callable[[int], bool], maker: Callable[[torch.Tensor], CallSite | None]) -> None:
        """Bring `status` up to date, with torch functions disabled; `maker` returns the line that made a tensor. A
        storage without holders is lost, one with holders only if a module's parameter or buffer is now another tensor:
        other variables may have been reused on purpose."""
        if self.status != "alive":
            return
        held = self.is_there and is_held(self.number)
        if held and self._is_resized():
            self.status = "moved"
            return
        moved = any(self._is_other(name.tensor()) for name in self.names)
        now = [name.now() for name in self.names]
        if held:
            own = [tensor for name, tensor in zip(self.names, now, strict=True) if name.is_parameter]
            if own and all(self._is_other(tensor) for tensor in own):
                self.status = "moved" if moved else "rebound"
                self.instead = None if own[0] is None else maker(own[0])
            else:
                self.frames = ()
        elif moved:
            self.status = "moved"
        else:
            others = [tensor for tensor in now if tensor is not None and self._is_other(tensor)]
            self.status = "rebound" if others else "freed"
            self.instead = self.instead or (maker(others[0]) if others else None)

    @property
    def seeks_heir(self) -> bool:
        """Whether to look for a tensor that has the memory now: at some looks after the loss."""
        return self.status != "alive" and self.heir is None and self._asked < _MOST_ASKED

    def found_heir(self, heir: str | None) -> None:
        self._asked += 1
        self.heir = heir

    def _is_resized(self) -> bool:
        """Return whether `resize_` moved the storage to other memory."""
        storage = self._watched[0]()
        return storage is not None and int(storage.data_ptr()) != self.address

    def _is_other(self, tensor: torch.Tensor | None) -> bool:
        return tensor is not None and storage_number(tensor) not in (None, self.number)
