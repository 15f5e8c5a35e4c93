"""The modules that engines are made of run, train, and replay what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from reading import digest
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.device.sim import SimDevice
from graphsafe.optable import OpTable


def _attention(x: torch.Tensor) -> torch.Tensor:
    heads = x.view(2, 4, 2, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def _heads(module: nn.MultiheadAttention) -> Callable[[torch.Tensor], object]:
    return lambda x: module(x, x, x)[0]


def _first(module: nn.Module) -> Callable[[torch.Tensor], object]:
    return lambda x: module(x)[0]


def _looked_up(table: nn.Embedding) -> Callable[[torch.Tensor], object]:
    return lambda x: table((x * 3).long() % 16)


def _lower_precision(x: torch.Tensor) -> object:
    with torch.autocast("cuda", torch.bfloat16):
        return F.linear(x, x.new_ones(8, 8))


BUILDS: dict[str, Callable[[], Callable[[torch.Tensor], object]]] = {
    "linear": lambda: nn.Linear(8, 8),
    "lazy linear": lambda: nn.LazyLinear(8).cuda(1),
    "embedding": lambda: _looked_up(nn.Embedding(16, 8).cuda(1)),
    "layer norm": lambda: nn.LayerNorm(8),
    "batch norm": lambda: nn.BatchNorm1d(4),
    "rms norm": lambda: nn.RMSNorm(8),
    "dropout": lambda: nn.Dropout(0.5),
    "attention module": lambda: _heads(nn.MultiheadAttention(8, 2, batch_first=True).cuda(1)),
    "attention": lambda: _attention,
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "lstm": lambda: _first(nn.LSTM(8, 8, batch_first=True).cuda(1)),
    "gru": lambda: _first(nn.GRU(8, 8, batch_first=True).cuda(1)),
    "convolution": lambda: nn.Conv1d(4, 4, 3),
    "autocast": lambda: _lower_precision,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BUILDS)
def test_runs_and_replays(name: str, sim: SimDevice) -> None:
    with sim.entered(), torch.no_grad():
        module = BUILDS[name]()
        if isinstance(module, nn.Module):
            module.to("cuda:1")
        x = torch.randn(2, 4, 8, device="cuda:1")
        with sim.capture_stream():
            module(x)
        recording = sim.record(lambda: module(x))
        assert not isinstance(recording, CaptureFailure)
        sim.store(x, torch.randn(2, 4, 8))
        sim.seed(3)
        recording.replay()
        replayed = digest(sim, recording.outputs)
        sim.seed(3)
        assert replayed == digest(sim, module(x))
        assert recording.outputs.device == torch.device("cuda", 1)
        assert sim.unknown_operations() == ()


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_training_step_replays(kind: str, table: OpTable) -> None:
    assert _trained(kind, table, captured=True) == _trained(kind, table, captured=False)


def _trained(kind: str, table: OpTable, *, captured: bool) -> list[str]:
    """The parameters after five steps, of which the last three are eager, or replays of a captured third."""
    device = SimDevice(1, table)
    with device.entered():
        device.seed(1)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 1)).cuda(1)
        optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(model.parameters(), lr=0.1)
            if kind == "sgd"
            else torch.optim.Adam(model.parameters(), lr=0.1, capturable=True)
        )
        x = torch.randn(4, 8, device="cuda:1")

        def step() -> object:
            optimizer.zero_grad(set_to_none=False)
            model(x).square().mean().backward()
            return optimizer.step()

        with device.capture_stream():
            step()
            step()
        run = step
        if captured:
            recording = device.record(step)
            assert not isinstance(recording, CaptureFailure), recording
            run = recording.replay
        for number in range(3):
            device.store(x, torch.full((4, 8), float(number)))
            device.seed(number)
            run()
        return [digest(device, parameter) for parameter in model.parameters()]


@pytest.mark.parametrize("made", [nn.LSTM, nn.GRU])
def test_gradients_of_a_recurrent_module_are_those_of_the_replayed_inputs(
    made: type[nn.LSTM] | type[nn.GRU], sim: SimDevice
) -> None:
    with sim.entered():
        sim.seed(1)
        module = made(8, 8).to("cuda:1")
        x = torch.randn(5, 4, 8, device="cuda:1")

        def step() -> object:
            module.zero_grad(set_to_none=False)
            return module(x)[0].square().sum().backward()

        with sim.capture_stream():
            step()
        recording = sim.record(step)
        assert not isinstance(recording, CaptureFailure), recording
        sim.store(x, torch.randn(5, 4, 8))
        recording.replay()
        replayed = [digest(sim, parameter.grad) for parameter in module.parameters()]
        step()
        assert replayed == [digest(sim, parameter.grad) for parameter in module.parameters()]


def test_a_function_with_its_own_backward(sim: SimDevice) -> None:
    devices = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            devices.extend([grad.device, ctx.saved_tensors[0].device, torch.zeros(1).device])
            return grad * 2 + torch.zeros(4, device=grad.device)

    with sim.entered():
        x = torch.ones(4, device="cuda:1", requires_grad=True)
        checkpoint(Doubled.apply, x, use_reentrant=True).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [2.0] * 4
    assert [str(device) for device in devices] == ["cuda:1", "cuda:1", "cpu"]


def test_a_kernel_the_cpu_lacks_is_computed_wider(sim: SimDevice) -> None:
    with sim.entered():
        counts = torch.histc(torch.tensor([0, 1, 1, 3], dtype=torch.int32, device="cuda:1"), bins=4, min=0, max=3)
        assert counts.dtype == torch.int32 and counts.tolist() == [1, 2, 0, 1]


def test_llama_decodes_on_a_static_cache(table: OpTable) -> None:
    pytest.importorskip("transformers")
    assert _decoded(table, captured=True) == _decoded(table, captured=False)


def _decoded(table: OpTable, *, captured: bool) -> list[str]:
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    device = SimDevice(1, table)
    with device.entered(), torch.no_grad():
        device.seed(1)
        config = LlamaConfig(
            hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=128, max_position_embeddings=64,
        )  # fmt: skip
        model = LlamaForCausalLM(config).eval().to("cuda:1")
        cache = StaticCache(config=config, max_cache_len=32)
        model(input_ids=torch.randint(3, 100, (2, 8), device="cuda:1"), past_key_values=cache, use_cache=True)
        token = torch.ones(2, 1, dtype=torch.int64, device="cuda:1")

        def step() -> torch.Tensor:
            logits: torch.Tensor = model(input_ids=token, past_key_values=cache, use_cache=True).logits
            return logits

        with device.capture_stream():
            step()
        recording = device.record(step) if captured else None
        assert not isinstance(recording, CaptureFailure), recording
        found = []
        for number in range(3):
            device.store(token, torch.full((2, 1), 5 + number))
            if recording is None:
                found.append(digest(device, step()))
            else:
                recording.replay()
                found.append(digest(device, recording.outputs))
        assert device.unknown_operations() == ()
        return found


def test_a_replay_casts_nothing(sim: SimDevice) -> None:
    with sim.entered(), torch.no_grad():
        x = torch.randn(2, 8, device="cuda:1")
        recording = sim.record(lambda: x @ x.t())
        assert not isinstance(recording, CaptureFailure)
        exact, before = x @ x.t(), torch.get_autocast_dtype("cuda")
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        torch.set_autocast_enabled("cuda", True)
        eager = x @ x.t()
        recording.replay()
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", before)
        assert eager.dtype is torch.bfloat16
        assert torch.equal(recording.outputs, exact)


def test_autocast_without_a_dtype_takes_that_of_cuda(sim: SimDevice) -> None:
    before = torch.get_autocast_dtype("cuda")
    with sim.entered():
        x = torch.ones(2, 8, device="cuda:1")
        for dtype in (torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cuda", dtype)
            with torch.autocast("cuda"):
                assert F.linear(x, x.new_ones(8, 8)).dtype is dtype
    torch.set_autocast_dtype("cuda", before)
