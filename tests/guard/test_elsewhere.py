"""Where forbid must not be in the way: code that Dynamo compiles, a machine without a device, a line's own call."""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import graphsafe  # noqa: E402
from graphsafe.capture.answers.events import StepEvent  # noqa: E402
from graphsafe.guard import on_cuda  # noqa: E402
from graphsafe.optable.entries import version_matches  # noqa: E402


class Listener:
    def __init__(self) -> None:
        self.calls: set[str | None] = set()

    def wants(self, kind: str) -> bool:
        return True

    def told(self, event: StepEvent) -> None:
        self.calls.add(event.via)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_device_it_would_see_nothing() -> None:
    with pytest.raises(graphsafe.RequestError, match="--graphsafe-device sim"), graphsafe.forbid():
        raise AssertionError("entered")


@pytest.mark.child
@pytest.mark.skipif(
    not hasattr(TorchDispatchMode, "ignore_compile_internals"),
    reason="this torch compiles nothing under a dispatch mode",
)
def test_regions_vanish_from_compiled_code_and_the_mode_from_its_compilation() -> None:
    """A detector broke the compilation of whole graphs (vllm#56904)."""
    graphs: list[Any] = []

    def backend(module: Any, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    @graphsafe.forbid()
    def scaled(x: torch.Tensor) -> torch.Tensor:
        with graphsafe.allow("it is read while it warms up"), graphsafe.forbid(launches=1):
            return x.to(torch.float64) * 2

    compiled = torch.compile(lambda x: scaled(x) + 1, fullgraph=True, backend=backend)
    x = torch.ones(3)
    assert compiled(x).tolist() == [3, 3, 3]
    with on_cuda._Ops(Listener(), threading.get_ident()):
        assert compiled(x).tolist() == [3, 3, 3]
        assert torch.compile(lambda x: x.to(torch.float64) - 1, fullgraph=True, backend=backend)(x).sum() == 0
    assert compiled(x).tolist() == [3, 3, 3]
    # torch 2.9 compiles the first function once more where the mode is entered, and once more only.
    assert len(graphs) == (2 if version_matches(torch.__version__, ">=2.11") else 3)


CALLS = {
    "x.sum().item()": "torch.Tensor.item",
    "int(x.max())": "torch.Tensor.__int__",
    "1 if x.any() else 2": "torch.Tensor.__bool__",
    "1 if x.sum() > 0 else 2": "torch.Tensor.__bool__",
    "3.0 in x": "torch.Tensor.__contains__",
    "x.nonzero()": "torch.Tensor.nonzero",
    "torch.nn.functional.one_hot(x.long())": "torch.nn.functional.one_hot",
    "x[x > 0]": "torch.Tensor.__getitem__",
    "torch.ones(3)[: x.max().long()]": "torch.Tensor.__getitem__",
    "x.to(torch.float64)": "torch.Tensor.to",
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="where on a line something runs is known from Python 3.11 on")
@pytest.mark.parametrize("line", CALLS)
def test_the_call_of_a_line_is_read_from_its_source(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener, thread = Listener(), threading.get_ident()
    work = on_cuda._Work(listener, thread)
    work.before_op = functools.partial(work.report, "read")
    monkeypatch.setitem(on_cuda._heard, thread, work)
    file = tmp_path / "line.py"
    file.write_text(f"import torch\nx = torch.ones(3)\ndef step():\n    return {line}\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with on_cuda._Ops(listener, thread):
        names["step"]()
    assert CALLS[line] in listener.calls


def test_what_pytorch_calls_back_on_reaches_the_block_of_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callbacks of a GPU, fired by hand: on the block's thread, while code is compiled, and on another thread."""
    from torch.cuda import _gpu_trace

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    stream_waits = _gpu_trace.StreamSynchronizationCallbacks.fire_callbacks
    device_waits = _gpu_trace.DeviceSynchronizationCallbacks.fire_callbacks
    allocates = _gpu_trace.MemoryAllocationCallbacks.fire_callbacks

    def convert() -> None:
        stream_waits(0)

    compiler = "/somewhere/torch/_dynamo/convert_frame.py"
    names = {"convert": convert}
    exec(compile("def compiling():\n    convert()\n", compiler, "exec"), names)

    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        device_waits()
        stream_waits(0)
        allocates(0)
        names["compiling"]()
        with graphsafe.allow("a part"):
            device_waits()
        thread = threading.Thread(target=device_waits)
        thread.start()
        thread.join()
    # What waits in a call that the op table does not know waits inside of it.
    assert [finding.code for finding in error.value.findings] == ["GS105", "GS106"]
    assert {finding.confidence for finding in error.value.findings} == {"proven"}

    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid(syncs=False, copies=False, allocations=True):
        stream_waits(0)
        for _ in range(3):
            allocates(0)
    (finding,) = error.value.findings
    assert (finding.code, finding.count) == ("GS401", 3)
    device_waits()
    assert on_cuda._heard == {}
