"""One of several buckets in a process: its step, its graph in the shared pool, and a way to put its state back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.child.compare import Spread
from graphsafe.capture.child.expected import EXPECTED, GIVEN, ConstructedState, Expected
from graphsafe.capture.child.session import Session, host_values, load_values
from graphsafe.capture.child.state import Bindings, ReachableState, inputs_of, reachable_state
from graphsafe.capture.device.protocol import Recording
from graphsafe.capture.device.structures import memory_key
from graphsafe.report.text import bucket_name

Values = Mapping[str, torch.Tensor]


class SavedBindings:
    """The objects to which the step's names are bound, and the values of tensors that changed since construction."""

    def __init__(self, session: Session, built: Mapping[str, str]) -> None:
        """`built` has the digests of the tensors after construction. Raises StateError."""
        reach, device = reachable_state(session.subject), session.device
        inputs = inputs_of(session.subject)
        self._device = device
        self._bindings = Bindings(reach)
        digests = device.digests(reach.tensors)
        self.tensors = {
            path: tensor
            for path, tensor in reach.tensors.items()
            if path not in inputs and digests[path] != built.get(path)
        }
        self._values = host_values(device, self.tensors)

    def put_back(self) -> None:
        """Put the objects and values back. Raises StateError."""
        self._bindings.put_back()
        for path, tensor in self.tensors.items():
            self._device.store(tensor, self._values[path])


def put_back_all(held: Sequence[SavedBindings]) -> None:
    for one in held:
        one.put_back()


@dataclass
class Member:
    session: Session
    axes: Mapping[str, Any]
    noise: Spread
    "The differences that repeated eager steps of this bucket show by chance."
    built: Mapping[str, str]
    recording: Recording | None = None
    pool_bytes: int | None = None
    "Number of bytes by which the bucket's capture enlarged the shared pool."
    alone: dict[int, Values] = field(default_factory=dict)
    "Number of a replay -> the results that it had before the next bucket was captured."
    fresh: Values | None = None
    "The outputs of the reference's step on the inputs of replay 1. The reference built only this bucket."
    built_alike: bool = False
    "Whether the state after construction is the same here as in the reference."
    hosts: Mapping[str, Any] = field(default_factory=dict)
    inherits: bool = False
    "Whether the bucket found state that other buckets left; see `warm_up`."

    @staticmethod
    def of(session: Session, axes: Mapping[str, Any], folder: Path, earlier: Sequence[Member] = ()) -> Member:
        """Return the bucket that `session` has just built, after the `earlier` ones."""
        random = session.random_positions()
        reach = reachable_state(session.subject)
        built = session.device.digests(reach.tensors)
        if not (folder / EXPECTED).exists() or not (folder / GIVEN).exists():
            return Member(session, axes, Spread(), built, hosts=dict(reach.hosts))
        expected: Expected = load_values(folder / EXPECTED)
        given: ConstructedState = load_values(folder / GIVEN)
        alike = all(given.digests.get(path) == digest for path, digest in built.items())
        alike = alike and all(reach.hosts.get(path, text) == text for path, text in given.hosts.items())
        fresh: Values | None = expected.steps[0].outputs
        if random != given.random:
            # The random weights of a model that the buckets share are drawn only once. So the numbers that a later
            # bucket draws for its own tensors differ from those that it would draw alone. This is not a fault, so these
            # tensors get the values of the reference.
            drawn = _drawn(reach.tensors, built, given, earlier)
            for path in drawn & given.values.keys():
                session.device.store(reach.tensors[path], given.values[path])
            fresh = None if drawn - given.values.keys() else fresh
            built = session.device.digests(reach.tensors) if drawn else built
        return Member(session, axes, expected.noise, built, fresh=fresh, built_alike=alike, hosts=dict(reach.hosts))

    @property
    def name(self) -> str:
        return bucket_name(self.axes)

    def warm_up(self) -> None:
        """Warm up. Note whether the bucket found state that other buckets left, such as a plan, if this state still
        exists after the warm-up. Such state changes the work of a step. Nothing is noted if other buckets have changed
        tensors of this bucket, because such tensors are shared by design."""
        made, hosts, caches = self._state()
        self.session.warm_up()
        if any(made.get(path) != digest for path, digest in self.built.items()):
            return
        now, _, sizes = self._state()
        renumbered = any(path in hosts and hosts[path] != text for path, text in self.hosts.items())
        stayed = any(now.get(path) == made[path] for path in made.keys() - self.built.keys() - self.hosts.keys())
        hit = any(size and sizes.get(path) == size for path, size in caches.items())
        self.inherits = renumbered or stayed or hit

    def _state(self) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, int]]:
        """Return three mappings: all state as digests and strings, then only the values on the host, then the sizes of
        caches."""
        reach = reachable_state(self.session.subject)
        everything = {**self.session.device.digests(reach.tensors), **reach.hosts}
        return everything, reach.hosts, {path: size for path, (_, size) in reach.caches.items()}

    def outputs(self) -> ReachableState:
        """Return the outputs. Replays write into the tensors of these outputs."""
        assert self.recording is not None
        return self.session.outputs_of(self.recording.outputs)

    def static_outputs(self) -> set[str]:
        """Return the outputs whose memory is older than the capture. Such memory is not in the graph's pool."""
        kept = set(reachable_state(self.session.subject).places().values())
        return {name for name, place in self.outputs().places().items() if place in kept}

    def replay(self, k: int) -> dict[str, torch.Tensor]:
        """Replay on the inputs of replay `k`; return the results, on the host."""
        self.session.put_inputs(k)
        return self.replay_again()

    def replay_again(self) -> dict[str, torch.Tensor]:
        """Replay on the current inputs; return the results, on the host."""
        assert self.recording is not None
        device = self.session.device
        device.reuse_freed()
        self.recording.replay()
        device.synchronize()
        return self.session.results_of(self.recording.outputs)

    def step(self, k: int) -> dict[str, torch.Tensor]:
        """Run an eager step on the inputs of replay `k`; return the results, on the host. Raises TargetError."""
        self.session.put_inputs(k)
        return self.session.results_of(self.session.path_step())

    def differing_outputs(self, ours: Values, theirs: Values, noise: Spread | None = None) -> list[str]:
        """Return the repeatable outputs that differ by more than `noise`, by default the bucket's own noise."""
        differing = []
        for name, value in theirs.items():
            if name not in self.noise.unbounded and (noise or self.noise).is_exceeded(name, value, ours.get(name)):
                differing.append(name)
        return differing


def _drawn(tensors: Values, built: Mapping[str, str], given: ConstructedState, earlier: Sequence[Member]) -> set[str]:
    """Return the tensors that may hold random numbers and whose values differ from those of the reference. Tensors that
    an earlier bucket also reaches are left out: they are shared, and this bucket did not fill them."""
    own = {
        path
        for path, tensor in tensors.items()
        if tensor.is_floating_point() and built[path] != given.digests.get(path, built[path])
    }
    if not own:
        return own
    shared = {memory_key(tensor) for one in earlier for tensor in reachable_state(one.session.subject).tensors.values()}
    return {path for path in own if memory_key(tensors[path]) not in shared}
