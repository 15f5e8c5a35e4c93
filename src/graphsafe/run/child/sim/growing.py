"""Finds tensors that the program makes larger again and again between replays: `self.path = torch.cat([self.path, x])`.

Each time all of the tensor is allocated and copied anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphsafe.capture.device.sim.tags import Tag, tag_of
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.model import CallSite
from graphsafe.run.part import Facts, sites

_ENOUGH = 16
"A tensor that is longer at this many replays in a row than at the one before keeps growing."


@dataclass(frozen=True, slots=True)
class _Growth:
    """The growth of a tensor so far."""

    times: int
    replays: int
    "Number of replays of all graphs when it last grew."
    copied: int
    "Bytes that were copied in all."


class Growing:
    def __init__(self) -> None:
        self._replays = 0
        self._growth: weakref.WeakKeyDictionary[Tag, _Growth] = weakref.WeakKeyDictionary()
        self._found: dict[CallSite, tuple[tuple[CallSite, ...], _Growth]] = {}

    def replayed(self) -> None:
        self._replays += 1

    def ran(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Note an operation that ran eagerly."""
        if not self._replays or len(outputs) != 1 or (tag := tag_of(outputs[0])) is None:
            return
        for one in inputs:
            before = tag_of(one)
            if before is None or before is tag or not _is_longer(outputs[0], one):
                continue
            known = self._growth.get(before, _Growth(0, 0, 0))
            times = known.times + (known.replays < self._replays)
            self._growth[tag] = found = _Growth(times, self._replays, known.copied + one.nbytes)
            if times >= _ENOUGH and (frames := user_frames()[0]):
                self._found[frames[-1]] = frames, found
            return

    def facts(self) -> list[Facts]:
        """Return the lines that make a tensor larger, with how often and how many bytes they copied for it."""
        return [
            {"frames": sites(frames), "times": one.times, "copied": one.copied} for frames, one in self._found.values()
        ]


def _is_longer(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether two tensors differ in one dimension alone, in which the first is longer."""
    if now.dim() != before.dim() or now.dtype != before.dtype or before.numel() >= now.numel():
        return False
    return sum(one != other for one, other in zip(now.shape, before.shape, strict=True)) == 1
