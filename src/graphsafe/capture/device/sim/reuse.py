"""Finds memory that a capture frees on the stream that allocated it, although another stream may still use it.

A GPU's allocator may use such memory for the next allocation on the same stream, unless `record_stream` defers the
release. The simulated device never reuses memory of a capture, so its replays cannot show this error.
"""

from __future__ import annotations

import torch

from graphsafe.capture.device.sim.nodes import Node, SimStream
from graphsafe.capture.device.sim.tags import holders, storages
from graphsafe.capture.shared.places import at_line


class _Memory:
    """A storage that the capture allocated."""

    def __init__(self, allocated_on: SimStream) -> None:
        self.allocated_on = allocated_on
        self.aliases = 0
        "The number of tensors of recorded nodes that refer to the memory."
        self.uses: list[Node] = []
        "Nodes on other streams that use the memory."


class Reuse:
    """The memory that one capture allocates. `doubts` describes uses that may happen after the memory was freed."""

    def __init__(self) -> None:
        self._memory: dict[int, _Memory] = {}
        self._waiting: list[Node] = []
        "Nodes that have not been checked yet. As long as all nodes are on one stream, no check is needed."
        self.doubts: dict[str, None] = {}

    def add(self, node: Node) -> None:
        """Note a node. Call it with torch functions and dispatch modes disabled."""
        self._waiting.append(node)
        if node.sim_stream != self._waiting[0].sim_stream or self._memory:
            self._catch_up()

    def _catch_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        for node in waiting:
            self._add(node)

    def _add(self, node: Node) -> None:
        arguments = node.arguments()
        used = {id(tensor): tensor for tensor in (*arguments, *node.outputs)}
        places = {number: [one._cdata for one in storages(tensor)] for number, tensor in used.items()}
        fresh = {place for tensor in node.outputs for place in places[id(tensor)]}
        fresh -= {place for tensor in arguments for place in places[id(tensor)]} | self._memory.keys()
        if fresh:
            self._note_possible_reuse(node)
        for place in fresh:
            self._memory[place] = _Memory(node.sim_stream)
        for of_tensor in places.values():
            for place in of_tensor:
                memory = self._memory.get(place)
                if memory is None:
                    continue
                memory.aliases += 1
                if memory.allocated_on != node.sim_stream:
                    memory.uses.append(node)

    def defer(self, tensor: torch.Tensor) -> None:
        """Note a call of `record_stream`. The memory is then not reused before the capture ends."""
        self._catch_up()
        for storage in storages(tensor):
            self._memory.pop(storage._cdata, None)

    def _note_possible_reuse(self, node: Node) -> None:
        """Note freed memory that the allocator may give to this node although another stream still uses it."""
        for place, memory in self._memory.items():
            if not memory.uses or memory.allocated_on != node.sim_stream:
                continue
            late = next((use for use in memory.uses if not use.is_before(node)), None)
            held = None if late is None else holders(place)
            if late is not None and held is not None and held <= memory.aliases:
                user = late.op + at_line(late.frames)
                self.doubts[f"memory that is freed while {user} may still use it, without record_stream"] = None
