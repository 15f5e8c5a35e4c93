"""`torch.cond` and `torch.while_loop`: a plain capture refuses both; newer versions can make nodes of them."""

from __future__ import annotations

import pytest
import torch

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.device.sim import SimDevice
from graphsafe.optable.entries import version_matches

CUDA1 = torch.device("cuda", 1)
NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"


def chosen(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))
    return result


def repeated(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.while_loop(lambda a: a.sum() < 9, lambda a: (a + 1,), (x,))[0]
    return result


@pytest.mark.parametrize("step", [chosen, *([repeated] if hasattr(torch, "while_loop") else [])])
def test_a_plain_capture_reads_the_predicate(sim: SimDevice, step: object) -> None:
    with sim.entered():
        x = torch.ones(4, device=CUDA1)
        assert callable(step) and sim.to_host(step(x)).tolist()[0] in (2, 3)
        result = sim.record(lambda: step(x))
        assert isinstance(result, CaptureFailure) and result.message.startswith(NOT_PERMITTED)


@pytest.mark.skipif(not version_matches(torch.__version__, ">=2.12"), reason="this torch has no such mode")
def test_in_the_mode_a_choice_is_made_by_each_replay(sim: SimDevice) -> None:
    from torch._higher_order_ops.cudagraph_conditional_nodes import CUDAGraphCaptureControlFlowOpDispatchMode as Mode

    def step() -> torch.Tensor:
        with Mode():
            return chosen(x)

    with sim.entered():
        x = torch.ones(4, device=CUDA1)
        with pytest.raises(RuntimeError, match="no graph is being captured"):
            step()
        recording = sim.record(step)
        for value, wanted in ((1.0, 2.0), (-1.0, -2.0)):
            sim.store(x, torch.full((4,), value))
            recording.replay()
            assert sim.to_host(recording.outputs).tolist() == [wanted] * 4
        assert not sim.unknown_operations()


@pytest.mark.skipif(not version_matches(torch.__version__, ">=2.12"), reason="this torch has no such mode")
def test_in_the_mode_a_loop_is_a_node_from_torch_2_14_on(sim: SimDevice) -> None:
    from torch._higher_order_ops.cudagraph_conditional_nodes import CUDAGraphCaptureControlFlowOpDispatchMode as Mode

    def step() -> torch.Tensor:
        with Mode():
            return repeated(x)

    with sim.entered():
        x = torch.ones(4, device=CUDA1)
        result = sim.record(step)
        if version_matches(torch.__version__, ">=2.14"):
            assert not isinstance(result, CaptureFailure)
            assert sim.unknown_operations()[0].startswith("torch.while_loop as a node of the graph")
        else:
            assert isinstance(result, CaptureFailure)
