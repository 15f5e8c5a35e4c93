"""`graphsafe.forbid` and `graphsafe.allow` on the simulated device; tests/gpu/test_forbid.py has the same on a GPU."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import graphsafe  # noqa: E402
from graphsafe.capture.device.sim import SimDevice  # noqa: E402
from graphsafe.rulebook.book import load_rulebook  # noqa: E402


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with SimDevice(0, load_rulebook().ops).entered():
        yield


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(4, device="cuda")


def read_twice(x: torch.Tensor) -> None:
    for _ in range(2):
        x.sum().item()


def codes(error: pytest.ExceptionInfo[graphsafe.Forbidden]) -> list[str]:
    return [finding.code for finding in error.value.findings]


def test_every_line_is_told_at_once(x: torch.Tensor) -> None:
    passed = False
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        if x.sum() > 0:
            passed = True
        read_twice(x)
        torch.tensor([1.0], device="cuda")
        torch.cuda.synchronize()
    assert passed
    assert sorted(codes(error)) == ["GS101", "GS102", "GS105", "GS301"]
    (read,) = (finding for finding in error.value.findings if finding.code == "GS101")
    assert read.count == 2
    assert read.location.function == "read_twice"
    assert [call.function for call in read.call_chain] == ["test_every_line_is_told_at_once"]
    text = str(error.value)
    assert "x.sum().item()" in text and "x.sum() > 0" in text and "fix:" in text


def test_findings_of_one_line_are_one_line(x: torch.Tensor) -> None:
    with pytest.raises(graphsafe.Forbidden, match="has 2 forbidden operations on 1 line\n"), graphsafe.forbid():
        x.tolist(), torch.cuda.synchronize()


def test_a_block_that_keeps_to_it_passes(x: torch.Tensor) -> None:
    with graphsafe.forbid():
        y = torch.where(x.sum() > 0, x + 1, x)
        event = torch.cuda.Event()
        event.record()
        event.query()  # asks, and does not wait
    assert y.tolist() == [2, 2, 2, 2]


def test_copies_and_syncs_are_two_things(x: torch.Tensor) -> None:
    with graphsafe.forbid(syncs=False, copies=False, allocations=False, launches=1000):
        x.cpu()
    with graphsafe.forbid(copies=False):
        x.cpu()
    with graphsafe.forbid(syncs=False):
        x.sum().item()
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid(syncs=False):
        torch.ones(4).to("cuda", non_blocking=True)  # pageable
    assert codes(error) == ["GS304"]
    pinned = torch.ones(4).pin_memory()
    with graphsafe.forbid():
        pinned.to("cuda", non_blocking=True)


def test_allowed_regions_nest(x: torch.Tensor) -> None:
    @graphsafe.allow("the scheduler reads the lengths once a step")
    def lengths() -> int:
        return int(x.sum())

    with graphsafe.forbid():
        lengths()
        with graphsafe.allow("outer"):
            with graphsafe.allow("inner"):
                x.sum().item()
            x.sum().item()
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        lengths()
        x.max().item()
    assert [finding.message for finding in error.value.findings] == [
        "`x.max().item()` makes the host read a device value"
    ]
    with pytest.raises(ValueError, match="reason"):
        graphsafe.allow(" ")


def test_a_forbidden_block_within_an_allowed_one_counts(x: torch.Tensor) -> None:
    with pytest.raises(graphsafe.Forbidden), graphsafe.forbid(), graphsafe.allow("warm-up"), graphsafe.forbid():
        x.sum().item()


def test_what_an_inner_block_told_the_outer_one_does_not_repeat(x: torch.Tensor) -> None:
    with pytest.raises(graphsafe.Forbidden) as outer, graphsafe.forbid(allocations=True):
        with pytest.raises(graphsafe.Forbidden) as inner, graphsafe.forbid():
            x.add_(1)[0].item()
            torch.empty(3, device="cuda")
        x.zero_()
    assert codes(inner) == ["GS101"]
    assert codes(outer) == ["GS401"]


def test_it_decorates_functions_and_methods(x: torch.Tensor) -> None:
    class Runner:
        @graphsafe.forbid()
        def step(self, depth: int) -> int:
            """Take a step."""
            return self.step(depth - 1) if depth else int(x.sum())

    assert Runner.step.__name__ == "step" and Runner.step.__doc__ == "Take a step."
    with pytest.raises(graphsafe.Forbidden) as error:
        Runner().step(2)
    assert codes(error) == ["GS101"]

    with pytest.raises(TypeError, match="before its body has run"):

        @graphsafe.forbid()
        async def later() -> None: ...


def test_an_error_of_the_block_is_the_one_that_is_raised(x: torch.Tensor) -> None:
    with pytest.raises(KeyError) as error, graphsafe.forbid():
        x.sum().item()
        raise KeyError("no such head")
    assert any("x.sum().item()" in note for note in getattr(error.value, "__notes__", ["x.sum().item()"]))
    with graphsafe.forbid():
        x.add_(1)


def test_waits_of_other_threads_go_on_and_do_not_count(x: torch.Tensor) -> None:
    """A mode of the whole process ended worker threads of another project (vllm#51455)."""
    ended: list[str] = []

    def worker() -> None:
        torch.cuda.synchronize()
        ended.append("well")

    with graphsafe.forbid(allocations=True):
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
    assert ended == ["well"]

    own: list[BaseException] = []

    def forbidden() -> None:
        try:
            with graphsafe.forbid():
                torch.cuda.synchronize()
        except graphsafe.Forbidden as error:
            own.append(error)

    torch.cuda.synchronize()
    with graphsafe.allow("of this thread only"):
        thread = threading.Thread(target=forbidden)
        thread.start()
        thread.join()
    assert len(own) == 1


def test_in_inference_mode_and_in_backward(x: torch.Tensor) -> None:
    with torch.inference_mode(), pytest.raises(graphsafe.Forbidden), graphsafe.forbid():
        x.sum().item()
    with pytest.raises(graphsafe.Forbidden), graphsafe.forbid(), torch.inference_mode():
        x.sum().item()

    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * gradient.sum().item()

    parameter = x.clone().requires_grad_()
    loss = Reads.apply(parameter).sum()
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid():
        loss.backward()
    (finding,) = error.value.findings
    assert str(finding.location.function).endswith("Reads.backward")


def test_allocations_are_those_of_the_block_by_line(x: torch.Tensor) -> None:
    """A count of live bytes also changes with what others free (cudnn-frontend#1172)."""
    buffer = torch.empty(4, device="cuda")
    other = [torch.ones(1000, device="cuda")]
    with graphsafe.forbid(allocations=True):
        torch.mul(x, 2, out=buffer)
        buffer.add_(1)
        other.clear()
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid(allocations=True):
        y = x * 2
        del y
    assert codes(error) == ["GS401"]
    assert "`x * 2`" in error.value.findings[0].message
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid(allocations=True):
        torch.empty(4, pin_memory=True)
    assert codes(error) == ["GS403"]


def test_launches_have_a_budget(x: torch.Tensor) -> None:
    with graphsafe.forbid(launches=2):
        x.add_(1)
        x.view(2, 2).mul_(2)
    with pytest.raises(graphsafe.Forbidden, match="3 launches, where 2 are allowed"), graphsafe.forbid(launches=2):
        for _ in range(3):
            x.add_(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            x.add_(1)
    with graphsafe.forbid(launches=1):
        graph.replay()


def test_too_many_launches_are_told_by_line(x: torch.Tensor) -> None:
    line = sys._getframe().f_lineno
    with pytest.raises(graphsafe.Forbidden) as error, graphsafe.forbid(launches=2):
        for _ in range(2):
            x.add_(1)
        torch.relu(x).mul_(2)
    first, second, third = str(error.value).splitlines()
    assert first.endswith("has 4 launches, where 2 are allowed")
    assert second.endswith(f"test_forbid.py:{line + 3}: 2 launches by `x.add_(1)`")
    assert third.endswith(f"test_forbid.py:{line + 4}: 2 launches by `torch.relu(x).mul_(2)`")


def test_what_is_forbidden_must_be_something() -> None:
    with pytest.raises(ValueError, match="forbids nothing"):
        graphsafe.forbid(syncs=False, copies=False)
    for launches in (-1, 1.5, "3", True):
        with pytest.raises(ValueError, match="launches is a whole number"):
            graphsafe.forbid(launches=launches)  # type: ignore[arg-type]
