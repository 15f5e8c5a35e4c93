"""A bucket beside others in one process: its step, its graph in the shared pool, and its state put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.compare import INCOMPARABLE, Spread, difference
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.session import host_values, load_values
from graphsafe.capture.state import inputs_of, reach_of
from graphsafe.capture.state.snapshot import Bindings
from graphsafe.report.text import bucket_name

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Recording
    from graphsafe.capture.session import Session

Values = Mapping[str, "torch.Tensor"]


class Held:
    """What the step's names are bound to, and the values of the tensors that its warm-up has changed."""

    def __init__(self, session: Session, built: Mapping[str, str]) -> None:
        """`built`: digests of what construction left. Raises StateError."""
        reach, device = reach_of(session.subject), session.device
        inputs = inputs_of(session.subject)
        self._device = device
        self._bindings = Bindings(reach, clear_caches=False)
        digests = device.digests(reach.tensors)
        self.tensors = {
            path: tensor
            for path, tensor in reach.tensors.items()
            if path not in inputs and digests[path] != built.get(path)
        }
        self._values = host_values(device, self.tensors)

    def put_back(self) -> None:
        """Raises StateError."""
        self._bindings.put_back()
        for path, tensor in self.tensors.items():
            self._device.store(tensor, self._values[path])


@dataclass
class Member:
    session: Session
    axes: Mapping[str, Any]
    noise: Spread
    "How far its eager steps lie apart by chance."
    built: Mapping[str, str]
    recording: Recording | None = None
    pool_bytes: int | None = None
    "By how much its capture made the shared pool grow."
    alone: dict[int, Values] = field(default_factory=dict)
    "By replay: what it gave before any other bucket was captured after it."

    @staticmethod
    def of(session: Session, axes: Mapping[str, Any], folder: Path) -> Member:
        reference = folder / "reference.pt"
        noise = Spread.from_json(load_values(reference)["noise"]) if reference.exists() else Spread()
        device = session.device
        return Member(session, axes, noise, device.digests(reach_of(session.subject).tensors))

    @property
    def name(self) -> str:
        return bucket_name(self.axes)

    def outputs(self) -> dict[str, torch.Tensor]:
        """The tensors that replays write into."""
        assert self.recording is not None
        return self.session.outputs_of(self.recording.outputs).tensors

    def static_outputs(self) -> set[str]:
        """Outputs that lie in memory which the step had before, and not in the graph's pool."""
        kept = {tensor.untyped_storage().data_ptr() for tensor in reach_of(self.session.subject).tensors.values()}
        return {name for name, tensor in self.outputs().items() if tensor.untyped_storage().data_ptr() in kept}

    def replay(self, k: int) -> dict[str, torch.Tensor]:
        """On the inputs of replay `k`; what it gave, on the host."""
        self.session.put_inputs(k)
        return self.replay_again()

    def replay_again(self) -> dict[str, torch.Tensor]:
        """On the inputs as they are."""
        assert self.recording is not None
        device = self.session.device
        device.reuse_freed()
        self.recording.replay()
        device.synchronize()
        return host_values(device, self.outputs())

    def step(self, k: int) -> dict[str, torch.Tensor]:
        """An eager step in place of that replay. Raises TargetError."""
        self.session.put_inputs(k)
        outputs = self.session.outputs_of(self.session.path_step())
        return host_values(self.session.device, outputs.tensors)

    def apart(self, ours: Values, theirs: Values, noise: Spread | None = None) -> list[str]:
        """Names of outputs that differ by more than `noise`, which is chance unless it is given; what does not repeat
        itself is not compared."""
        differing = []
        with outside_modes():
            for name, value in theirs.items():
                found = difference(ours[name], value) if name in ours else INCOMPARABLE
                floor = None if name in self.noise.unbounded else (noise or self.noise).bound(name, value)
                if found.is_beyond(floor):
                    differing.append(name)
        return differing
