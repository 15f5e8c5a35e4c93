"""A target that a child has built on its device. All children build, seed and step the target in the same way, and set
its inputs in the same way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.answers.events import Asked, CaptureFailure
from graphsafe.capture.child import preparation
from graphsafe.capture.child.entropy import seeded_entropy
from graphsafe.capture.child.lines.clocks import long_waits_noted
from graphsafe.capture.child.own_graphs import plain
from graphsafe.capture.child.ranks.group import Ranks, joined, own_port
from graphsafe.capture.child.state import (
    ReachableState,
    defined_at,
    generators_of,
    inputs_of,
    reach_with_refresh,
    reachable_state,
    results_in,
)
from graphsafe.capture.child.state.containers import Slot
from graphsafe.capture.child.state.generators import seed_host
from graphsafe.capture.child.state.rare_draws import draw_at_an_end
from graphsafe.capture.child.targets import Subject, TargetError, build, find_factory, load_module, users_code
from graphsafe.capture.child.vary import fill_zero_parameters
from graphsafe.capture.device import open_device
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import Device, Recording
from graphsafe.capture.device.structures import memory_key
from graphsafe.capture.processes.originals import open_file
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.text import bucket_name

REPLAYS = 3
"Number of replays on new inputs."
PAIR = REPLAYS + 1
"The index of the inputs and of the seed that are used for two successive steps without seeding in between."
CAPTURE_SEED = 7_777
"The seed at capture. No other step uses this seed."
INPUTS = "inputs.pt"
"The file with the new inputs, which the build child writes."
DROPPED = "dropped.pt"
"The file with the paths of dropped gradients, which the build child writes if there are any."
_MANY_CONTAINERS = 5_000
FIRST_SEED = 1_000
"The seed of the first warm-up step; each later warm-up step uses the next number."


@dataclass
class Session:
    job: Job
    channel: Channel
    device: Device
    subject: Subject
    sets: tuple[Mapping[str, torch.Tensor], ...] = ()
    "New values for the inputs of replay 1, 2, ..., which the build child found to work."
    dropped: Set[str] = frozenset()
    "The gradients that the refresh drops before each step; see `dropped_gradients.py`."
    gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)
    "The dropped gradients of the last recording, which its replays write."
    capture_path: bool = False
    "Whether `path_step` runs as a capture would: code that asks whether a capture is under way gets the answer True."
    asked: Callable[[Asked], None] | None = None
    "A function that is called when the user's code asks, in `path_step`, whether a capture is under way."
    factory: Callable[..., Any] | None = None
    generators: ReachableState | None = None
    "All generators to seed. This field is set before many steps. If it is None, each step searches for the generators."
    highest_draws: bool | None = None
    "If set, `seed` lets the host draw its highest (True) or its lowest (False) random numbers next."
    ranks: Ranks = field(default_factory=Ranks)
    "The ranks that run this child side by side. All ranks decide together whether further steps run."

    def seed(self, k: int) -> None:
        value = self.job.seed * 1_000_003 + k
        seed_all(self.device, value)
        reach = self.generators if self.generators is not None else reach_with_refresh(self.subject)
        reach.seed(value)
        if len(reach.containers) > _MANY_CONTAINERS and self.generators is None:
            self.generators = generators_of(self.subject)  # searching so many objects in each step takes too long
        if self.highest_draws is not None:
            draw_at_an_end(self.highest_draws, (*reach.host_generators.values(), *reach.generators.values()))

    def step(self, wait: bool = True) -> Any:
        with users_code("step", "the step failed"):
            outputs = self.subject()
            if wait:
                self.device.synchronize()
        return outputs

    def works(self) -> bool:
        """Return whether the device still works. After a failed assertion in a kernel, a device cannot be used any
        more."""
        try:
            self.device.synchronize()
        except RuntimeError:
            return False
        return True

    def path_step(self, wait: bool = True) -> Any:
        """Step along the path of captures if `capture_path` is set, else as a plain eager step."""
        if not self.capture_path:
            return self.step(wait)
        with self.device.as_if_capturing(self.asked or (lambda asked: None)):
            return self.step(wait)

    def record(self, traced: bool = False, pool: Any = None) -> Recording | CaptureFailure:
        """Drop the gradients that the refresh drops, then record the step."""
        self.drop_gradients(self.dropped)
        recording = self.device.record(self.subject, traced, pool)
        if self.dropped:
            tensors = reachable_state(self.subject).tensors
            self.gradients = {path: tensors[path] for path in self.dropped & tensors.keys()}
        return recording

    def drop_gradients(self, paths: Set[str]) -> None:
        reach = reachable_state(self.subject) if paths else ReachableState()
        places = {memory_key(reach.tensors[path]) for path in paths & reach.tensors.keys()}
        for slot in reach.containers:
            if type(slot) is Slot and slot.descriptor is torch.Tensor.grad:
                gradient = slot.read()
                if gradient is not None and memory_key(gradient) in places:
                    slot.put(None)

    def warm_up(self, done: int = 0) -> None:
        for k in range(done, self.job.warmup):
            self.channel.phase(f"warm-up {k + 1}")
            self.seed(FIRST_SEED + k)
            self.step()

    def warm_up_on_capture_stream(self) -> None:
        with self.device.capture_stream():
            self.warm_up()

    def warm_up_but_last(self) -> None:
        """On the capture stream, run all steps of the warm-up except the last one, and seed for the last one."""
        with self.device.capture_stream():
            for k in range(self.job.warmup - 1):
                self.seed(FIRST_SEED + k)
                self.step()
            self.seed(FIRST_SEED + self.job.warmup - 1)

    @contextmanager
    def refreshing(self, seed: int) -> Iterator[Callable[..., Any]]:
        """Give the target's refresh to a block that calls it. Raises TargetError if a call fails."""
        assert self.subject.refresh is not None
        with users_code("step", "refresh failed", defined_at(self.subject.refresh)), seeded_entropy(seed):
            yield self.subject.refresh

    def put_inputs(self, k: int, seed: int | None = None) -> None:
        """Set the inputs of replay `k`, and seed everything with `seed`, or with `k` if there is no `seed`. With a
        refresh, `k` is always the seed."""
        if self.subject.refresh is not None:
            self.seed(k)
            with self.refreshing(k) as refresh:
                refresh(self.subject.args, self.subject.kwargs, k)
        elif self.sets:
            inputs = inputs_of(self.subject)
            for path, values in self.sets[k - 1].items():
                self.device.store(inputs[path], values)
        self.seed(k if seed is None else seed)

    def is_on_gpu(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is on the session's device or on another GPU, and not on the host."""
        return self.device.is_on_device(tensor) or self.device.is_on_other_gpu(tensor)

    def on_host(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the tensors in host memory."""
        return {path: tensor for path, tensor in tensors.items() if not self.is_on_gpu(tensor)}

    def offset(self) -> int | None:
        state = self.device.random_states().get(self.device.name)
        return None if state is None else state.offset

    def random_positions(self) -> tuple[Any, ...]:
        """Return a value that identifies the next random numbers: it differs if other numbers come next on the host or
        on a device."""
        return bytes(torch.get_rng_state().tolist()), dict(self.device.random_states())

    def outputs_of(self, outputs: Any) -> ReachableState:
        return results_in(outputs)

    def results_of(self, outputs: Any) -> dict[str, torch.Tensor]:
        """Return the tensors in a step's outputs, copied to the host."""
        return host_values(self.device, self.outputs_of(outputs).tensors)

    def of_bucket(self, axes: Mapping[str, Any], folder: Path) -> Session:
        """Build another bucket of the target in this process, from the same seed. Raises TargetError."""
        assert self.factory is not None
        self.channel.phase(f"build {bucket_name(axes)}")
        seed_all(self.device, self.job.first_seed)
        subject = build(self.factory, self.device.torch_device, axes, self.job.inputs)
        fill_zero_parameters(self.device, subject)
        other = Session(self.job, self.channel, self.device, subject, factory=self.factory, ranks=self.ranks)
        other.load_sets(folder)
        return other

    def load_sets(self, folder: Path) -> None:
        """Load the new inputs that the build child has found to work, and the dropped gradients, if their files already
        exist."""
        if (folder / INPUTS).exists():
            self.sets = load_values(folder / INPUTS)
        if (folder / DROPPED).exists():
            self.dropped = load_values(folder / DROPPED)


@contextmanager
def opened(job: Job, channel: Channel, watched: list[Attempt] | None = None) -> Iterator[Session]:
    """Enter the device, build the target and yield its session. Raises TargetError.

    Captures that the constructor itself makes are added to `watched`. Without `watched`, a generator that the
    constructor left in the capturing state is repaired, so that the child can find further faults.
    """
    channel.phase("open the device")
    inherited = frozenset(sys.modules)
    with ExitStack() as stack:
        ready = preparation.prepared(job)
        try:
            if ready is not None and ready.device is not None:
                device = ready.device
            else:
                device = open_device(job.device, job.ranks, shapes=job.shapes)
                stack.enter_context(device.entered())
            ranks = stack.enter_context(joined(job, channel, device))
        except (RuntimeError, AssertionError) as error:
            raise TargetError("build", f"cannot use {job.device}: {' '.join(str(error).split())[:300]}") from error
        if job.ranks == 1:
            stack.enter_context(own_port(channel.folder, job.child))
        seed_all(device, job.first_seed)
        if ready is not None:
            preparation.restore_random_state(ready)
        if watched is not None:
            stack.enter_context(device.watch_captures(watched.append))
        channel.phase("import")
        module = load_module(job.where) if ready is None else ready.module
        factory = find_factory(module, job.target)
        channel.phase("build")
        if job.child == "step":  # in this child, clocks are set ahead
            stack.enter_context(long_waits_noted())
        if job.plain:
            stack.enter_context(plain.without_own_graphs())
        subject = build(factory, device.torch_device, job.axes, job.inputs)
        if job.plain:
            plain.run_uncompiled()
        if job.child == "build":
            preparation.write_imports(channel.folder, inherited)
        if watched is None:
            for name in device.random_states():
                if device.draw(name) is not None:
                    device.repair_generator(name)
            fill_zero_parameters(device, subject)
        session = Session(job, channel, device, subject, factory=factory, ranks=ranks)
        session.load_sets(channel.folder)
        yield session


def seed_all(device: Device, value: int) -> None:
    device.seed(value)
    seed_host(value)


def save_values(channel: Channel, name: str, data: Any) -> None:
    """Save data with host tensors for the other children, which can load it because they run the same code of the
    user."""
    with channel.shared_file(name) as path, outside_modes(), open_file(path, "wb") as file:
        torch.save(data, file)


def load_values(path: Path) -> Any:
    with outside_modes(), open_file(path, "rb") as file:
        return torch.load(file, weights_only=False, map_location="cpu")


def host_values(device: Device, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {path: device.to_host(tensor) for path, tensor in tensors.items()}
