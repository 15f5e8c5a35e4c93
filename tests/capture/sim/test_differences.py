"""Two recordings of one step, some steps apart: what Python froze shows, and a sound step shows nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from graphsafe.capture.answers.events import Asked, CaptureFailure
from graphsafe.capture.device.sim import SimDevice
from graphsafe.report.probes.twin import Difference

DEVICE = "cuda:1"


def twins(sim: SimDevice, step: Callable[[], Any], apart: int = 2) -> tuple[Difference, ...]:
    """Of a capture after two steps, and of one `apart` steps later."""
    recordings = []
    for steps in (2, apart):
        with sim.capture_stream():
            for _ in range(steps):
                step()
        recording = sim.record(step)
        assert not isinstance(recording, CaptureFailure), recording
        recordings.append(recording)
    return recordings[0].differences(recordings[1])


class Frozen:
    """Steps that Python changes, one a method; the line to find is marked."""

    def __init__(self) -> None:
        self.n = 0
        self.x = torch.ones(32, device=DEVICE)
        self.cache = torch.zeros(64, device=DEVICE)
        self.state = torch.zeros(32, device=DEVICE)
        self.buffers = [torch.zeros(32, device=DEVICE) for _ in range(2)]
        self.scale = torch.tensor(1.0)

    def counter(self) -> torch.Tensor:
        self.n += 1
        return self.x * self.n  # here

    def drawn(self) -> torch.Tensor:
        return self.x * random.random()  # here

    def grows(self) -> torch.Tensor:
        self.n += 1
        return self.x[: self.n].exp()  # here

    def moves(self) -> torch.Tensor:
        self.n += 1
        self.cache[self.n].copy_(self.x[0])  # here
        return self.cache

    def rebinds(self) -> torch.Tensor:
        self.state = self.state * 0.9  # here
        return self.state

    def alternates(self) -> torch.Tensor:
        self.n += 1
        return self.buffers[(self.n // 3) % 2] + self.x  # here

    def branches(self) -> torch.Tensor:
        self.n += 1
        return self.x.exp() if self.n < 4 else self.x.sin()  # here

    def repeats(self) -> torch.Tensor:
        self.n += 1
        x = self.x
        for _ in range(self.n):
            x = x + 1  # here
        return x

    def joins(self) -> torch.Tensor:
        self.n += 1
        return torch.cat([self.x] * self.n)  # here

    def casts(self) -> torch.Tensor:
        self.n += 1
        return self.x.to(torch.float16 if self.n < 4 else torch.bfloat16)  # here

    def host_scalar(self) -> torch.Tensor:
        self.scale += 1
        return self.x * self.scale  # here

    def uploads(self) -> torch.Tensor:
        self.n += 1
        number = torch.full((1,), float(self.n)).pin_memory()
        return self.x + number.to(DEVICE, non_blocking=True)  # here


FOUND = {
    "counter": ("scalar", "aten::mul"),
    "drawn": ("scalar", "aten::mul"),
    "grows": ("extent", "aten::exp"),
    "moves": ("address", "aten::copy_"),
    "rebinds": ("address", "aten::mul"),
    "alternates": ("address", "aten::add"),
    "branches": ("operation", "aten::sin"),
    "repeats": ("count", "aten::add"),
    "joins": ("extent", "aten::cat"),
    "casts": ("operation", "aten::_to_copy"),
    "host_scalar": ("scalar", "aten::mul"),
    "uploads": ("scalar", "aten::_to_copy"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_python_froze_shows_on_its_line(name: str, sim: SimDevice) -> None:
    with sim.entered():
        first = twins(sim, getattr(Frozen(), name))[0]
    assert (first.what, first.op) == FOUND[name]
    assert first.before != first.after
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[first.frames[-1].line - 1]
    assert first.frames[-1].function == f"Frozen.{name}" and line.endswith("# here")


def test_a_scalar_says_what_it_was_and_is(sim: SimDevice) -> None:
    with sim.entered():
        [difference] = twins(sim, Frozen().counter)
    assert (difference.node, difference.before, difference.after) == (0, "other=3", "other=6")


class Sound:
    """Steps that are the same graph every time, whatever they do meanwhile."""

    def __init__(self) -> None:
        self.calls = 0
        self.x = torch.ones(8, 8, device=DEVICE)
        self.position = torch.zeros((), dtype=torch.int64, device=DEVICE)
        self.cache = torch.zeros(64, 8, device=DEVICE)
        self.pinned = torch.ones(8).pin_memory()
        self.weight = torch.nn.Parameter(torch.ones(8, 8, device=DEVICE))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1, momentum=0.9)
        self.scale = torch.tensor(float("nan"))
        self.last: torch.Tensor | None = None

    def counts_without_effect(self) -> torch.Tensor:
        self.calls += 1
        return (self.x @ self.x).softmax(-1)

    def keeps_its_output(self) -> torch.Tensor:
        self.last = self.x * 2
        return self.last + 1

    def counts_on_the_device(self) -> torch.Tensor:
        self.position += 1
        self.cache.index_copy_(0, self.position.reshape(1), self.x[:1])
        return self.cache.sum(0)

    def draws(self) -> torch.Tensor:
        return torch.nn.functional.dropout(self.x) + torch.rand_like(self.x)

    def reads_pinned_memory(self) -> torch.Tensor:
        return self.x + self.pinned.to(DEVICE, non_blocking=True)

    def trains(self) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=False)
        loss = (self.x @ self.weight).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def multiplies_by_nan(self) -> torch.Tensor:
        return self.x * self.scale * float("nan")

    def allocates(self) -> torch.Tensor:
        out = torch.empty_like(self.x)
        torch.mul(self.x, 2, out=out)
        return torch.cat([out, out + 1])


@pytest.mark.parametrize("name", [name for name in vars(Sound) if not name.startswith("_")])
def test_a_sound_step_shows_nothing(name: str, sim: SimDevice) -> None:
    with sim.entered():
        sound = Sound()
        if name == "trains":
            sound.trains()
        assert twins(sim, getattr(sound, name)) == ()


def test_results_have_to_be_used_alike(sim: SimDevice) -> None:
    """The same operations on the same kinds of tensors, and yet the second graph adds up something else."""
    turn = [0]

    def step() -> torch.Tensor:
        turn[0] += 1
        x = torch.ones(4, device=DEVICE)
        first, second = x * 2, x * 2
        return (first if turn[0] < 4 else second) + 1

    with sim.entered():
        assert [difference.what for difference in twins(sim, step)] == ["address"]


def test_a_host_number_is_handed_over_at_capture(sim: SimDevice) -> None:
    """As on a GPU, where a replay does not look at the host's memory again."""
    with sim.entered():
        x, scale = torch.ones(2, device=DEVICE), torch.tensor(2.0)
        recording = sim.record(lambda: x * scale)
        assert not isinstance(recording, CaptureFailure)
        scale.fill_(5.0)
        recording.replay()
        assert sim.to_host(recording.outputs).tolist() == [2.0, 2.0]
        recording.release()
        assert recording.nodes() == {}


def test_code_that_asks_takes_the_path_of_a_capture(sim: SimDevice) -> None:
    from torch.cuda.graphs import is_current_stream_capturing as imported_before

    asked: list[Asked] = []
    with sim.entered():
        x = torch.ones(2, device=DEVICE)

        def step() -> list[bool]:
            (x * 2).sum().item()
            return [
                torch.cuda.is_current_stream_capturing(),
                torch.cuda.graphs.is_current_stream_capturing(),
                imported_before(),
                torch.cuda.current_stream().is_capturing(),
            ]

        with sim.as_if_capturing(asked.append):
            assert step() == [True] * 4
            torch.manual_seed(3)
            assert torch.rand(2, device=DEVICE).tolist() != [0, 0], "nothing is captured"
        assert step() == [False] * 4
    assert [one.frames[-1].path for one in asked] == [__file__] * 4 and asked[0].frames[-1].line > 0
