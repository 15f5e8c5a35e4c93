"""`graphsafe.forbid` on a real GPU: through PyTorch's own callbacks, beside Dynamo, CUDA graphs and other threads."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import graphsafe  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(4, device="cuda")


def codes(error: pytest.ExceptionInfo[graphsafe.Forbidden]) -> list[str]:
    return sorted(finding.code for finding in error.value.findings)


def test_every_line_is_told_at_once_with_its_rule(x: torch.Tensor) -> None:
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        if x.sum() > 0:
            x.add_(1)
        for _ in range(2):
            x.sum().item()
        x.nonzero()
        x[x > 0]
        torch.tensor([1.0], device="cuda")
        torch.ones(1 << 20).to("cuda", non_blocking=True)  # pageable
        x.cpu()
        torch.cuda.synchronize()
        torch.cuda.current_stream().synchronize()
        event = torch.cuda.Event()
        event.record()
        event.synchronize()
        torch.linalg.inv(torch.eye(3, device="cuda"))
    assert codes(error) == [
        "GS101",
        "GS102",
        "GS103",
        "GS105",
        "GS105",
        "GS105",
        "GS106",
        "GS201",
        "GS202",
        "GS301",
        "GS304",
    ]
    (read,) = (finding for finding in error.value.findings if finding.code == "GS101")
    assert (read.count, read.confidence) == (2, "proven")
    assert [call.function for call in read.call_chain] == []


def test_a_block_that_keeps_to_it_passes(x: torch.Tensor) -> None:
    pinned = torch.ones(4).pin_memory()
    with graphsafe.forbid():
        y = torch.where(x.sum() > 0, x + 1, x)
        pinned.to("cuda", non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        event.query()
        with graphsafe.allow("a log line every hundred steps"):
            y.sum().item()
    assert y.tolist() == [2, 2, 2, 2]


def test_it_sees_waits_in_backward_and_in_inference_mode(x: torch.Tensor) -> None:
    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * gradient.sum().item()

    loss = Reads.apply(x.clone().requires_grad_()).sum()
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        loss.backward()
    assert codes(error) == ["GS101"]
    with torch.inference_mode(), pytest.raises(graphsafe.Forbidden), graphsafe.forbid():
        x.sum().item()


def test_other_threads_go_on_and_do_not_count(x: torch.Tensor) -> None:
    ended: list[str] = []

    def worker() -> None:
        for _ in range(10):
            x.sum().item()
            torch.empty(1000, device="cuda")
        torch.cuda.synchronize()
        ended.append("well")

    with graphsafe.forbid(allocations=True):
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
    assert ended == ["well"]
    assert torch.cuda.get_sync_debug_mode() == 0


def test_allocations_are_those_of_the_block_by_line(x: torch.Tensor) -> None:
    buffer = torch.empty(4, device="cuda")
    other = [torch.ones(1000, device="cuda")]
    with graphsafe.forbid(allocations=True):
        torch.mul(x, 2, out=buffer)
        other.clear()
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid(allocations=True):
        x * 2
        torch.zeros(3, device="cuda")
    assert codes(error) == ["GS401", "GS401"]


def test_launches_have_a_budget(x: torch.Tensor) -> None:
    with graphsafe.forbid(launches=2):
        x.add_(1)
        x.mul_(2)
    with pytest.raises(graphsafe.Forbidden, match="3 launches, where 2 are allowed"), graphsafe.forbid(launches=2):
        for _ in range(3):
            x.add_(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            x.add_(1)
    with graphsafe.forbid(launches=1):
        graph.replay()

    def busy() -> None:
        for _ in range(100):
            torch.empty(4, device="cuda").add_(1)

    with graphsafe.forbid(launches=1):
        thread = threading.Thread(target=busy)
        thread.start()
        x.add_(1)
        thread.join()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_code_stays_compiled(x: torch.Tensor, mode: str) -> None:
    """Compiling waits, and recording graphs too: neither is the step's."""

    @torch.compile(fullgraph=True, mode=mode)
    def step(x: torch.Tensor) -> torch.Tensor:
        with graphsafe.allow("nothing is checked in compiled code"), graphsafe.forbid():
            return (x.to(torch.float32) * 2 + 1).relu()

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with graphsafe.forbid():
        for _ in range(4):
            y = step(x)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert y.tolist() == [3, 3, 3, 3]
    step(x)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    with pytest.raises(graphsafe.Forbidden), graphsafe.forbid():
        step(x).sum().item()


def test_a_capture_within_a_block(x: torch.Tensor) -> None:
    graph = torch.cuda.CUDAGraph()
    with graphsafe.forbid(), graphsafe.allow("the capture itself"), torch.cuda.graph(graph):
        x.add_(1)
    with graphsafe.forbid():
        graph.replay()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="from Python 3.12 on")
def test_exceptions_leave_the_block_as_they_are(x: torch.Tensor) -> None:
    """The failing expressions hold new tensors, whose memory is freed while the exception is on its way."""
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        with pytest.raises(RuntimeError, match="must match"):
            torch.add(x * 2, torch.ones(3, device="cuda"))
        try:
            [x.max(), 1 / 0]
        except ZeroDivisionError:
            x.sum().item()
    assert codes(error) == ["GS101"]
    with pytest.raises(ZeroDivisionError):
        [x.max(), 1 / 0]
