"""A child's target, built on its device: how every child builds, seeds, feeds and steps it, so that all do it alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.device import open_device
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.own_graphs import plain
from graphsafe.capture.processes import preparation
from graphsafe.capture.processes.originals import open_file
from graphsafe.capture.ranks.group import Ranks, joined
from graphsafe.capture.state import Reach, inputs_of, seed_generators, walk
from graphsafe.capture.state.generators import seed_host
from graphsafe.capture.targets import Subject, TargetError, build, find_factory, load_module, users_code
from graphsafe.report.text import bucket_name

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Asked, CaptureAttempt, Device
    from graphsafe.capture.job import Channel, Job

REPLAYS = 3
"Replays on changed inputs."
PAIR = REPLAYS + 1
"The set of inputs, and the seed, of the two steps that are made without seeding in between."
CAPTURE_SEED = 7_777
"Current at capture, and at no other time."
FIRST_SEED = 1_000
"Of the first warm-up step; the next ones count on."


@dataclass
class Session:
    job: Job
    channel: Channel
    device: Device
    subject: Subject
    sets: tuple[Mapping[str, torch.Tensor], ...] = ()
    "New values for the inputs, for replay 1, 2, ...; from the build child, which tried them."
    capture_path: bool = False
    "Whether `path_step` runs as a capture would: code that asks whether a capture is under way is told yes."
    asked: Callable[[Asked], None] | None = None
    "Told of each time that the user's code asks so in `path_step`."
    factory: Callable[..., Any] | None = None
    "What made the subject."
    generators: Reach | None = None
    "Where set, holds all generators to seed: for steps that are made too often to look for them each time."
    ranks: Ranks = field(default_factory=Ranks)
    "Those that run this child beside this process; decisions about further steps are theirs together."

    def seed(self, k: int) -> None:
        value = self.job.seed * 1_000_003 + k
        seed_all(self.device, value)
        if self.generators is None:
            seed_generators(self.subject, value)
        else:
            self.generators.seed(value)

    def step(self) -> Any:
        with users_code("step", "the step failed"):
            outputs = self.subject()
            self.device.synchronize()
        return outputs

    def path_step(self) -> Any:
        """A step along the path of captures where `capture_path` says so, else a plain one."""
        if not self.capture_path:
            return self.step()
        with self.device.as_if_capturing(self.asked or (lambda asked: None)):
            return self.step()

    def warm_up(self, done: int = 0) -> None:
        for k in range(done, self.job.warmup):
            self.channel.phase(f"warm-up {k + 1}")
            self.seed(FIRST_SEED + k)
            self.step()

    def put_inputs(self, k: int) -> None:
        """The inputs of replay `k`, and everything seeded by `k`."""
        if self.subject.refresh is not None:
            self.seed(k)
            with users_code("step", "refresh failed"):
                self.subject.refresh(self.subject.args, self.subject.kwargs, k)
        elif self.sets:
            inputs = inputs_of(self.subject)
            for path, values in self.sets[k - 1].items():
                self.device.store(inputs[path], values)
        self.seed(k)

    def offset(self) -> int | None:
        state = self.device.random_states().get(self.device_key)
        return None if state is None else state.offset

    @property
    def device_key(self) -> str:
        return self.device.name

    def outputs_of(self, outputs: Any) -> Reach:
        return walk({"output": outputs})

    def of_bucket(self, axes: Mapping[str, Any], folder: Path) -> Session:
        """Another bucket of the same target, built in this process from the same seed, with its own inputs. Raises
        TargetError."""
        assert self.factory is not None
        self.channel.phase(f"build {bucket_name(axes)}")
        seed_all(self.device, self.job.first_seed)
        subject = build(self.factory, self.device.torch_device, axes, self.job.inputs)
        other = Session(self.job, self.channel, self.device, subject, factory=self.factory, ranks=self.ranks)
        other.load_sets(folder)
        return other

    def load_sets(self, folder: Path | None = None) -> None:
        """What the build child found to change the step's results."""
        path = (folder or self.channel.folder) / "inputs.pt"
        if path.exists():
            self.sets = tuple(load_values(path)["sets"])


@contextmanager
def opened(job: Job, channel: Channel, watched: list[CaptureAttempt] | None = None) -> Iterator[Session]:
    """The device entered and the target built. Raises TargetError.

    With `watched`, the constructor's own captures are added to it. Without, a generator that the constructor left
    capturing is repaired, so that a child can go on to find what else there is.
    """
    channel.phase("open the device")
    with ExitStack() as stack:
        ready = preparation.prepared(job)
        try:
            if ready is not None and ready.device is not None:
                device = ready.device
            else:
                device = open_device(job.device, job.ranks)
                stack.enter_context(device.entered())
            ranks = stack.enter_context(joined(job, channel, device))
        except (RuntimeError, AssertionError) as error:
            raise TargetError("build", f"cannot use {job.device}: {' '.join(str(error).split())[:300]}") from error
        seed_all(device, job.first_seed)
        if ready is not None:
            preparation.restore_random_state(ready)
        if watched is not None:
            stack.enter_context(device.watch_captures(watched.append))
        channel.phase("import")
        module = load_module(job.where) if ready is None else ready.module
        factory = find_factory(module, job.target)
        channel.phase("build")
        if job.plain:
            stack.enter_context(plain.left_out())
        subject = build(factory, device.torch_device, job.axes, job.inputs)
        if job.plain:
            plain.run_uncompiled()
        if job.child == "build":
            preparation.tell_imports(channel.folder)
        if watched is None:
            for name in device.random_states():
                if device.draw(name) is not None:
                    device.repair_generator(name)
        yield Session(job, channel, device, subject, factory=factory, ranks=ranks)


def seed_all(device: Device, value: int) -> None:
    device.seed(value)
    seed_host(value)


def save_values(channel: Channel, name: str, data: Any) -> None:
    """Host tensors and plain data, for siblings."""
    import torch

    with outside_modes(), open_file(channel.share(name), "wb") as file:
        torch.save(data, file)
    channel.publish(name)


def load_values(path: Path) -> Any:
    import torch

    with outside_modes(), open_file(path, "rb") as file:
        return torch.load(file, weights_only=True, map_location="cpu")


def host_values(device: Device, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {path: device.to_host(tensor) for path, tensor in tensors.items()}
