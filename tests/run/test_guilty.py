"""Which expression broke a capture, from the error that it raised: with the texts of CUDA, raised without a GPU."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.classify import code_of, code_of_failure
from graphsafe.capture.shared.frames import root_error, user_frames, user_frames_now
from graphsafe.rulebook.book import load_rulebook
from graphsafe.run.child.guilty import raised_by, waiting
from graphsafe.run.counters import Order
from graphsafe.run.facts import FailedCapture, ProcessFacts
from graphsafe.run.parent.findings import findings_of
from graphsafe.run.parent.seen import SeenProcess

REFUSED = "CUDA error: operation not permitted when stream is capturing\nSearch for `cudaErrorStreamCaptureUnsupported'"
DEVICE = """
import sys
import torch
from torch.overrides import TorchFunctionMode

class Refusing(TorchFunctionMode):
    text = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in allowed:
            return func(*args, **(kwargs or {}))
        raise RuntimeError(self.text)

class Waiting(TorchFunctionMode):
    "Waits in each call that a GPU does not only queue."

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func not in allowed:
            self.events.append(waiting(user_frames_now(sys._getframe())[0], *user_frames(), "cudaStreamSynchronize"))
        return func(*args, **(kwargs or {}))

allowed = {torch.Tensor.sum, torch.Tensor.__gt__, torch.Tensor.gt, torch.Tensor.any}
"""
names: dict[str, Any] = {"waiting": waiting, "user_frames": user_frames, "user_frames_now": user_frames_now}
exec(compile(DEVICE, "<device>", "exec"), names)
_files = itertools.count()

HEAD = """import torch
import torch.nn.functional as F
from torch import nonzero

class Holder:
    pass

def step(x, mask, host, zero, holder):
"""


def step_of(folder: Path, *lines: str) -> tuple[Any, tuple[Any, ...]]:
    """A function of these lines, in a file of its own, and its arguments."""
    path = folder / f"step{next(_files)}.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line in lines), encoding="utf-8")
    module: dict[str, Any] = {"__name__": "step"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module)
    x, holder = torch.zeros(4, 4), module["Holder"]()
    holder.mask, holder.host = x > 0, torch.zeros(4)
    return module["step"], (x, x > 0, torch.zeros(4), torch.tensor(0), holder)


def event_of(folder: Path, *lines: str, text: str = REFUSED) -> StepEvent | None:
    """What the last line is blamed for."""
    step, given = step_of(folder, *lines)
    mode = names["Refusing"]()
    mode.text = text
    try:
        with mode:
            step(*given)
    except Exception as error:
        return raised_by(error)
    raise AssertionError("nothing was refused")


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All tensors lie on the device but those that are called `host`."""
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda one: one.dim() == 1), raising=False)
    yield


LINES = [
    ("x.sum().item()", "GS101"),
    ("x.tolist()", "GS101"),
    ("float(x.sum())", "GS101"),
    ("if x.sum() > 0: pass", "GS102"),
    ("assert x.any()", "GS102"),
    ("max(x, x)", "GS102"),
    ("x.cpu()", "GS103"),
    ("x.to('cpu')", "GS103"),
    ("print(x)", "GS104"),
    ("torch.linalg.inv(x)", "GS106"),
    ("torch.nonzero(x)", "GS201"),
    ("nonzero(x)", "GS201"),
    ("x.nonzero()", "GS201"),
    ("F.one_hot(x)", "GS201"),
    ("torch.unique(x)", "GS201"),
    ("x[mask]", "GS202"),
    ("x[x > 0]", "GS202"),
    ("x[holder.mask]", "GS202"),
    ("x[:zero]", "GS203"),
    ("range(zero)", "GS203"),
    ("torch.tensor([1, 2], device='cuda')", "GS301"),
    ("x[[0, 1]]", "GS302"),
    ("x[host]", "GS302"),
    ("x[0] = 7", "GS303"),
    ("host.cuda()", "GS304"),
    ("holder.host.to('cuda')", "GS304"),
    ("x.copy_(host)", "GS304"),
    ("torch.relu(x)", "GS607"),
    ("x.to(torch.float16)", "GS607"),
]


WAITS = [
    ("x.sum().item()", "GS101"),
    ("while x.sum() > 0: pass", "GS102"),
    ("x.cpu()", "GS103"),
    ("torch.nonzero(x)", "GS201"),
    ("x[mask]", "GS202"),
    ("x[[0, 1]]", "GS302"),
]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="expressions have columns from Python 3.11 on")
@pytest.mark.parametrize(("line", "code"), WAITS)
def test_a_wait_is_named_by_its_expression(tmp_path: Path, line: str, code: str) -> None:
    step, given = step_of(tmp_path, line)
    mode = names["Waiting"]()
    mode.events = []
    with mode:
        step(*given)
    assert [code_of(event, load_rulebook().ops) for event in mode.events] == [code]
    assert mode.events[0].frames[-1].line == HEAD.count("\n") + 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="expressions have columns from Python 3.11 on")
@pytest.mark.parametrize(("line", "code"), LINES)
def test_a_line_is_blamed_by_its_expression(tmp_path: Path, line: str, code: str) -> None:
    event = event_of(tmp_path, line)
    assert event is not None and event.frames[-1].line == HEAD.count("\n") + 1
    assert code_of_failure(event, load_rulebook().ops) == code


def test_the_span_is_that_of_the_expression(tmp_path: Path) -> None:
    event = event_of(tmp_path, "y = [1, x.sum().item()]")
    assert event is not None
    line = HEAD.count("\n") + 1
    assert event.span == ((line, 12, line, 26) if sys.version_info >= (3, 11) else None)


def test_what_only_repeats_an_earlier_error_and_what_the_program_raises_is_blamed_on_nobody(tmp_path: Path) -> None:
    repeated = "CUDA error: operation failed due to a previous error during capture"
    assert event_of(tmp_path, "x.sum().item()", text=repeated) is None
    assert event_of(tmp_path, "raise RuntimeError('CUDA graphs: do not capture this')") is None
    assert event_of(tmp_path, "{}['key']") is None


def test_another_error_of_the_device_has_a_line_and_no_kind(tmp_path: Path) -> None:
    event = event_of(tmp_path, "x.sum().item()", text="CUDA out of memory. Tried to allocate 2 GiB")
    assert event is not None and code_of_failure(event, load_rulebook().ops) == "GS607"


def test_an_error_that_was_being_handled_before_is_no_cause() -> None:
    try:
        try:
            raise KeyError("before the capture")
        except KeyError as before:
            handled = id(before)
            try:
                raise RuntimeError("in the capture")
            except RuntimeError:
                raise RuntimeError("at its end") from None
    except RuntimeError as last:
        error = last
    error.__suppress_context__ = False
    assert str(root_error(error, handled)[0]) == "in the capture"
    assert isinstance(root_error(error)[0], KeyError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="expressions have columns from Python 3.11 on")
@pytest.mark.parametrize(
    ("line", "text", "code", "message"),
    [
        ("x.sum().item()", REFUSED, "GS101", "`x.sum().item()` makes the host read a device value"),
        (
            "torch.relu(x)",
            REFUSED,
            "GS607",
            "the step cannot be captured: CUDA error: operation not permitted when stream is capturing",
        ),
    ],
)
def test_a_ledger_names_the_line_with_its_code(tmp_path: Path, line: str, text: str, code: str, message: str) -> None:
    event = event_of(tmp_path, line, text=text)
    assert event is not None
    record = FailedCapture((), None, "cuda:0", text, event.frames, None, event, stage="broken")
    process = SeenProcess("0", None, ProcessFacts(failed=(record,)), (), Order())
    (finding,) = findings_of([process], load_rulebook())[0]
    assert (finding.code, finding.level, finding.region, finding.message) == (code, "error", "captured", message)
    assert finding.location is not None and finding.location.line == HEAD.count("\n") + 1
