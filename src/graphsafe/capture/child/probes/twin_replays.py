"""Replays two captures of a step from the same state, and tells whether they compute different results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from graphsafe.capture.child.compare import Spread
from graphsafe.capture.child.session import REPLAYS, Session, host_values
from graphsafe.capture.child.state import Snapshot, StateError, copies_of
from graphsafe.capture.device.protocol import Recording
from graphsafe.report.probes.twin import Difference

_REPEATS = 3
"Number of replays of each graph on the same inputs. One is not enough: float atomics do not differ every time."
_REPEATS_OF_CHANCE = 12
"Number of replays of each graph if eager steps differ by chance. Three replays often do not show such a difference."


@dataclass(frozen=True, slots=True)
class _Result:
    """Copies of the outputs and of the changed state after one replay, and their digests."""

    values: Mapping[str, torch.Tensor]
    digests: Mapping[str, str]


class TwinReplays:
    """Replays of two captures. In each round, both graphs start from the same state and have the same inputs."""

    def __init__(self, session: Session, repeats: bool) -> None:
        """`repeats` says whether eager steps of the reference repeat bit for bit."""
        self._session = session
        self._replays = _REPEATS if repeats else _REPEATS_OF_CHANCE

    def with_effect(self, differing: Sequence[Difference], first: Recording, second: Recording) -> list[Difference]:
        """Return the differing numbers and addresses if the two graphs compute different results. With several ranks,
        only one rank at a time replays its second graph, because a value that one rank froze also changes the results
        of other ranks."""
        session = self._session
        if not session.device.computes:
            return list(differing)
        ranks = session.ranks
        left = [rank for rank, differs in enumerate(ranks.gather(bool(differing))) if differs]
        if not left:
            return []
        session.channel.phase("replay both captures")
        snapshot = Snapshot(session.device, session.subject, clear_caches=False)
        noise = Spread()
        effective: list[Difference] = []
        try:
            for k in range(1, REPLAYS + 1):
                refreshed = self._refreshed(snapshot, k)
                for rank in tuple(left):
                    third = second if rank == ranks.number else first
                    ours = [self._result(first, snapshot, refreshed, k) for _ in range(self._replays)]
                    theirs = [self._result(third, snapshot, refreshed, k) for _ in range(self._replays)]
                    if ranks.any(self._compute_different(ours, theirs, noise)):
                        left.remove(rank)
                        effective = list(differing) if rank == ranks.number else effective
            snapshot.put_back()
        except StateError:
            return []
        return effective

    def _compute_different(self, ours: Sequence[_Result], theirs: Sequence[_Result], noise: Spread) -> bool:
        """Return whether the results of the two graphs differ by more than those of one graph's replays (sums of
        atomics differ slightly)."""
        for replays in (ours, theirs):
            for one, again in itertools.combinations(replays, 2):
                for name, (left, right) in self._unlike(one, again).items():
                    noise.add(name, left, right)
        apart = [
            {
                name
                for name, (left, right) in self._unlike(one, other).items()
                if left is not None and noise.is_exceeded(name, left, right)
            }
            for one, other in itertools.product(ours, theirs)
        ]
        return bool(set.intersection(*apart))

    def _unlike(self, one: _Result, other: _Result) -> dict[str, tuple[torch.Tensor | None, torch.Tensor | None]]:
        """Return the values that differ byte for byte, as pairs on the host. A value that one result lacks is None."""
        ours, theirs = one.digests, other.digests
        names = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
        first, second = (
            host_values(self._session.device, {name: found.values[name] for name in names if name in found.values})
            for found in (one, other)
        )
        return {name: (first.get(name), second.get(name)) for name in sorted(names)}

    def _refreshed(self, snapshot: Snapshot, k: int) -> Mapping[str, torch.Tensor]:
        """Set the inputs of replay `k`, and return copies of the tensors that this changes. The refresh is called only
        once for both graphs, because it may read what a replay left."""
        snapshot.put_back()
        self._session.put_inputs(k)
        return copies_of(self._session.device, {path: snapshot.tensors[path] for path in snapshot.changed()})

    def _result(
        self, recording: Recording, snapshot: Snapshot, refreshed: Mapping[str, torch.Tensor], k: int
    ) -> _Result:
        """Return the result of one replay on the inputs of replay `k`, from the state of the snapshot."""
        session = self._session
        snapshot.put_back()
        for path, values in refreshed.items():
            session.device.store(snapshot.tensors[path], values)
        session.seed(k)
        recording.replay()
        session.device.synchronize()
        outputs = session.outputs_of(recording.outputs).tensors
        state = {f"state {path}": snapshot.tensors[path] for path in snapshot.changed()}
        copies = copies_of(session.device, {**outputs, **state})
        return _Result(copies, session.device.digests(copies))
