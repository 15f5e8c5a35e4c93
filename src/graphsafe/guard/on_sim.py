"""Watches one thread on the simulated device."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.device.sim.foreign import OTHER_THREAD
from graphsafe.capture.device.sim.world import LAUNCHED, World
from graphsafe.capture.shared.frames import running_line
from graphsafe.capture.shared.replaced import replaced
from graphsafe.guard.source import Launches, Listener
from graphsafe.report.model import CallSite


class SimSource:
    evidence: Literal["measured", "predicted"] = "predicted"

    def __init__(self, world: World) -> None:
        self._world = world
        self._known = len(world.unknown)

    @contextmanager
    def watched(self, listener: Listener) -> Iterator[None]:
        world = self._world
        thread = threading.get_ident()
        outer = world.sink

        def event(event: StepEvent) -> None:
            if outer is not None:
                outer(event)
            # Only calls like `torch.zeros` emit an event here. So device memory is reported by the memory ledger
            # (`tags.Ledger`), which sees every block.
            if threading.get_ident() == thread and (event.kind != "allocation" or event.data.get("pinned")):
                listener.told(event)

        def memory(taken: MemoryEvent) -> None:
            if taken.nbytes and threading.get_ident() == thread and listener.wants("allocation"):
                listener.told(world.event("allocation", world.here.scope.via or "", taken.nbytes))

        tellers = ((ledger, "on_memory_event", memory) for ledger in world.ledgers)
        with replaced((world, "sink", event), (world, "stepping", True), *tellers):
            yield

    @contextmanager
    def launches_counted(self) -> Iterator[Callable[[], Launches]]:
        thread = threading.get_ident()
        sites: list[CallSite | None] = []

        def launched(kind: str, name: str) -> None:
            if threading.get_ident() == thread and kind in LAUNCHED:
                sites.append(running_line())

        with self._world.launches_reported(launched):
            yield lambda: Launches(len(sites), Counter(site for site in sites if site is not None))

    def unknown(self) -> tuple[str, ...]:
        """Return the operations of this thread whose effects are unknown. Operations of other threads do not matter
        here."""
        here = threading.get_ident()
        found = [text for text, thread in list(self._world.unknown.items())[self._known :] if thread == here]
        return tuple(text for text in found if not text.startswith(OTHER_THREAD))
