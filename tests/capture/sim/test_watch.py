"""What the step probe is told of an eager step: one event each, on the user's line, and nothing stops."""

from __future__ import annotations

import operator
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.sim import SimDevice
from graphsafe.capture.shared.classify import code_of
from graphsafe.optable import OpTable

SequenceRecorder = Callable[[Callable[[], object]], list[StepEvent]]

STEPS: dict[str, tuple[Callable[[torch.Tensor], object], tuple[str, str | None, str | None]]] = {
    "item": (lambda x: x[0].item(), ("read", "torch.Tensor.item", "GS101")),
    "branch": (lambda x: 1 if x.any() else 2, ("read", "torch.Tensor.__bool__", "GS102")),
    "list": (lambda x: x.tolist(), ("read", "torch.Tensor.tolist", "GS101")),
    "to host": (lambda x: x.cpu(), ("copy-to-host", "torch.Tensor.cpu", "GS103")),
    "format": (lambda x: f"{x[0]:.2f}", ("read", "torch.Tensor.__format__", "GS104")),
    "print": (lambda x: str(x), ("read", "torch.Tensor.__repr__", "GS104")),
    "wait": (lambda x: torch.cuda.synchronize(), ("wait", "torch.cuda.synchronize", "GS105")),
    "inverse": (lambda x: torch.linalg.inv(torch.diag(x + 1)), ("hidden-sync", "torch.linalg.inv", "GS106")),
    "nonzero": (lambda x: x.nonzero(), ("extent", "torch.Tensor.nonzero", "GS201")),
    "mask": (lambda x: x[x > 0], ("extent", "torch.Tensor.__getitem__", "GS202")),
    "mask store": (lambda x: x.__setitem__(x > 0, x[:1]), ("extent", "torch.Tensor.__setitem__", "GS202")),
    "literal": (lambda x: torch.tensor([1.0], device=x.device), ("copy-to-device", "torch.tensor", "GS301")),
    "host index": (lambda x: x[[0, 1]], ("copy-to-device", "torch.Tensor.__getitem__", "GS302")),
    "scalar store": (lambda x: x.__setitem__(0, 7), ("copy-to-device", "torch.Tensor.__setitem__", "GS303")),
    "blocking copy": (lambda x: x.copy_(torch.ones(4)), ("copy-to-device", "torch.Tensor.copy_", "GS304")),
    "fresh buffer": (lambda x: torch.zeros_like(x), ("allocation", "torch.zeros_like", "GS401")),
    "pinned": (lambda x: torch.ones(4).pin_memory(), ("allocation", "torch.Tensor.pin_memory", "GS403")),
    "reseed": (lambda x: torch.manual_seed(1), ("random", "torch.manual_seed", "GS503")),
    "host random": (lambda x: torch.rand(2), ("random", "torch.rand", "GS504")),
}


@pytest.mark.parametrize("name", STEPS)
def test_one_event_each(name: str, sim: SimDevice, seen: SequenceRecorder, table: OpTable) -> None:
    step, (kind, via, code) = STEPS[name]
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        [event] = seen(lambda: step(x))
        assert (event.kind, event.via) == (kind, via)
        assert (event.frames[-1].path == __file__ and event.span is not None) or sys.version_info < (3, 11)
        assert code_of(replace(event, span=None, frames=()), table) == code


def _scaled(x: torch.Tensor) -> None:
    scaler = torch.amp.GradScaler("cuda")
    weight = torch.nn.Parameter(x.clone())
    scaler.scale(weight.sum()).backward()
    scaler.step(torch.optim.SGD([weight]))


def _named(x: torch.Tensor) -> torch.Tensor:
    scale = torch.tensor([1.0])
    scale = scale.to(x.device)
    return x * scale


INSIDE: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "scaler": (_scaled, "GS106"),
    "clip": (lambda x: torch.nn.utils.get_total_norm([x]).item(), "GS101"),
    "check": (lambda x: torch.distributions.Normal(x, x, validate_args=True), "GS106"),
    "log_prob": (lambda x: torch.distributions.Normal(0.0, 1.0, validate_args=True).log_prob(x), "GS106"),
    "equal": (lambda x: torch.testing.assert_close(x, x), "GS106"),
    "literal inside": (lambda x: torch.unravel_index(x.long(), (2, 2)), "GS106"),
    "pad": (lambda x: torch.nn.functional.pad(x, (0, x[0].long())), "GS203"),
    "padding": (lambda x: torch.nn.functional.pad(x, (0, 1), value=x[0]), "GS101"),
    "fill": (lambda x: torch.full((4,), x[0], device=x.device), "GS101"),
    "size": (lambda x: torch.full((x[0].long(),), 1.0, device=x.device), "GS203"),
    "repeat": (lambda x: [0] * x[0].long(), "GS101"),
    "split": (lambda x: torch.split(x, x[0].long()), "GS203"),
    "rate": (lambda x: torch.nn.functional.dropout(x, x[0] - 1), "GS101"),
    "literal that moves": (lambda x: torch.tensor([1.0]).to(x.device), "GS301"),
    "literal with a name": (_named, "GS301"),
    "literal that is copied": (lambda x: x[:1].copy_(torch.tensor([1.0])), "GS301"),
    "percent": (lambda x: "%d" % x[0], "GS104"),  # noqa: UP031
    "index": (lambda x: operator.index(x[0].long()), "GS101"),
    "host tensor that moves": (lambda x: torch.ones(3).to(x.device), "GS304"),
}
"What a function of torch or an operator does, and its code, which is that of scan."


@pytest.mark.skipif(sys.version_info < (3, 11), reason="names of methods and columns are known from Python 3.11 on")
@pytest.mark.parametrize("name", INSIDE)
def test_a_wait_inside_a_call_has_the_code_of_the_call(
    name: str, sim: SimDevice, seen: SequenceRecorder, table: OpTable
) -> None:
    step, code = INSIDE[name]
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        codes = {code_of(event, table) for event in seen(lambda: step(x))} - {"GS401", None}
    assert codes == {code}


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x * 2 + x.sum(),
        lambda x: x[0] if x.shape[0] > 3 else x,
        lambda x: x.masked_fill_(x > 0, 1.0),
        lambda x: x[torch.tensor([True, False, True, True])],
        lambda x: x.__setitem__(x > 0, 0.0),
        lambda x: x.__setitem__(slice(0, 2), 7.5),
        lambda x: x + torch.tensor(1.0),
        lambda x: torch.nn.functional.one_hot(x.long(), 8),
        lambda x: torch.repeat_interleave(x, x.long(), output_size=4),
        lambda x: torch.nn.functional.dropout(x),
        lambda x: torch.equal(x, x),
        lambda x: x.to(x.device, torch.float32),
    ],
)
def test_what_a_graph_can_hold_is_not_told(
    step: Callable[[torch.Tensor], object], sim: SimDevice, seen: SequenceRecorder
) -> None:
    with sim.entered():
        x = torch.ones(4, device="cuda:1")
        assert seen(lambda: step(x)) == []


def test_a_pinned_copy_that_does_not_wait_is_not_told(sim: SimDevice, seen: SequenceRecorder) -> None:
    with sim.entered():
        x, pinned = torch.ones(4, device="cuda:1"), torch.ones(4).pin_memory()
        assert seen(lambda: x.copy_(pinned, non_blocking=True)) == []
        assert [event.kind for event in seen(lambda: x.copy_(pinned))] == ["copy-to-device"]


def test_every_planted_hazard_that_a_step_shows(
    sim: SimDevice, seen: SequenceRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of decoder_bad: each line that reads, sizes or copies is told, and no other line is."""
    root = Path(__file__).parents[3]
    monkeypatch.syspath_prepend(str(root / "examples"))
    planted = yaml.safe_load((root / "tests/data/planted_hazards.yaml").read_text(encoding="utf-8"))
    wanted = {
        (hazard["file"], _line(root / "examples" / hazard["file"], hazard["text"]))
        for hazard in planted
        if hazard["code"][:3] in ("GS1", "GS2", "GS3") and hazard["runtime"]
    }
    with sim.entered():
        import decoder_bad

        module, args, *rest = decoder_bad.build_layer(sim.torch_device)
        kwargs = rest[0] if rest else {}
        module(*args, **kwargs)
        events = seen(lambda: module(*args, **kwargs))
    found = Counter(
        (Path(event.frames[-1].path).name, event.frames[-1].line)
        for event in events
        if event.kind not in ("allocation", "random")
    )
    assert set(found) == wanted


def _line(path: Path, text: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
