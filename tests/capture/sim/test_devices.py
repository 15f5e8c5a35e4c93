"""What code that asks about devices is told."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from reading import digest
from torch.utils._python_dispatch import TorchDispatchMode

from graphsafe.capture.device.sim import SimDevice

CUDA0, CUDA1, CPU = torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cpu")


def test_tensors_say_which_device_they_play(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.randn(4, 8, device=CUDA1)
        assert x.device == CUDA1 and x.is_cuda and not x.is_cpu and x.get_device() == 1
        assert x.type() == "torch.cuda.FloatTensor"
        assert [(x + 1).device, x[0].device, x.t().device, torch.zeros_like(x).device, x.new_ones(2).device] == [
            CUDA1
        ] * 5
        assert x.to(CUDA0).device == CUDA0 and x.cpu().device == CPU and torch.zeros(2).device == CPU
        assert x.to(CUDA1) is x and x.to(torch.bfloat16).device == CUDA1
        assert torch.zeros(2).to(x).device == CUDA1 and torch.zeros(2).type_as(x).device == CUDA1
        assert torch.zeros(2, device="cuda").device == CUDA1, "the current device"
        assert repr(x[0, :1]).endswith("device='cuda:1')")
        assert sim.is_on_device(x) and not sim.is_on_device(x.cpu())
        with pytest.raises(TypeError, match="can't convert cuda:1 device type tensor to numpy"):
            x.numpy()
    assert x.device == CPU


def test_constructors_from_numbers_do_not_follow_a_tensor_that_gives_the_number(sim: SimDevice) -> None:
    with sim.entered():
        n = torch.tensor(3, device=CUDA1)
        assert [torch.arange(n).device, torch.full((2,), n).device] == [CPU] * 2
        assert torch.arange(n, device=CUDA1).device == torch.as_tensor(n).device == CUDA1


@pytest.mark.child
def test_a_collection_of_cycles_takes_no_device_from_a_tensor(sim: SimDevice) -> None:
    """`torch.save` leaves a storage's Python object in a cycle, which older versions of PyTorch then take apart."""
    with sim.entered():
        x = torch.ones(4, device=CUDA1)
        cycle: list[object] = [x.untyped_storage()]
        cycle.append(cycle)
        del cycle
        gc.collect()
        assert x.device == CUDA1 and (x + 1).device == CUDA1
        before = torch.cuda.memory_allocated(CUDA1)
        del x
        gc.collect()
        assert torch.cuda.memory_allocated(CUDA1) == before - 16


def test_modules_move_and_copy(sim: SimDevice) -> None:
    with sim.entered():
        module = torch.nn.Linear(8, 8).to("cuda:1")
        assert module.weight.device == CUDA1 and module.weight.is_leaf
        assert copy.deepcopy(module).weight.device == CUDA1
        assert copy.deepcopy(torch.ones(2, device=CUDA1)).device == CUDA1
        assert module.cpu().weight.device == CPU
        assert torch.nn.Linear(2, 2).cuda().weight.device == CUDA1
        moved = torch.nn.Linear(2, 2).to(torch.ones(1, device=CUDA1, dtype=torch.float64))
        assert (moved.weight.device, moved.weight.dtype) == (CUDA1, torch.float64)


def test_default_devices(sim: SimDevice) -> None:
    with sim.entered():
        with torch.device("cuda:1"):
            assert torch.zeros(2).device == CUDA1 and torch.tensor([1.0]).device == CUDA1
            assert torch.zeros(2, device="cpu").device == CPU
            assert torch.nn.Linear(2, 2).weight.device == CUDA1
        torch.set_default_device("cuda:1")
        try:
            assert torch.ones(2).device == CUDA1
        finally:
            torch.set_default_device(None)
        assert torch.ones(2).device == CPU


def test_torch_cuda_answers(sim: SimDevice) -> None:
    was_available = torch.cuda.is_available()
    with sim.entered():
        assert torch.cuda.is_available() and torch.cuda.device_count() == 2 and torch.cuda.current_device() == 1
        with torch.cuda.device(0):
            assert torch.cuda.current_device() == 0 and torch.zeros(1, device="cuda").device == CUDA0
        torch.cuda.set_device("cuda:1")
        assert torch.cuda.current_stream() == torch.cuda.default_stream(1)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            assert torch.cuda.current_stream() == side and side.device == CUDA1
        assert torch.cuda.get_device_capability() == (9, 0) and torch.cuda.get_device_properties(1).total_memory > 0
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.zeros(1, device="cuda:2")
    assert torch.cuda.is_available() == was_available


def test_devices_do_not_mix(sim: SimDevice) -> None:
    with sim.entered():
        x = torch.ones(4, device=CUDA1)
        for other in (torch.ones(4), torch.ones(4, device=CUDA0)):
            with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                x + other
        assert (x + torch.tensor(1.0)).device == CUDA1
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.nn.functional.linear(x, torch.ones(2, 4))


def test_each_thread_has_a_current_stream_of_its_own(sim: SimDevice) -> None:
    found = []

    def other() -> None:
        found.append(torch.cuda.current_stream())
        torch.cuda.set_stream(torch.cuda.Stream())

    with sim.entered(), torch.cuda.stream(torch.cuda.Stream()):
        side = torch.cuda.current_stream()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert found[0] == torch.cuda.default_stream() != side
        assert torch.cuda.current_stream() == side


def test_pinned_memory(sim: SimDevice) -> None:
    with sim.entered():
        assert not torch.ones(4).is_pinned()
        assert torch.ones(4).pin_memory().is_pinned()
        assert torch.zeros(4, pin_memory=True)[1:].is_pinned()
        with pytest.raises(RuntimeError, match="cannot pin"):
            torch.ones(4, device=CUDA1).pin_memory()


def test_generators(sim: SimDevice) -> None:
    with sim.entered():
        host = torch.get_rng_state()
        torch.cuda.manual_seed_all(3)
        first, second = torch.randn(4, device=CUDA1), torch.randn(4, device=CUDA1)
        torch.cuda.manual_seed_all(3)
        again = torch.randn(4, device=CUDA1)
        assert digest(sim, first) == digest(sim, again) != digest(sim, second)
        assert torch.equal(host, torch.get_rng_state())
        own = torch.Generator(device=CUDA1)
        assert isinstance(own, torch.Generator) and own.device == CUDA1 and torch.Generator().device == CPU
        own.manual_seed(3)
        assert digest(sim, torch.randn(4, device=CUDA1, generator=own)) == digest(sim, first)
        state = torch.cuda.get_rng_state(1)
        before = torch.rand(2, device=CUDA1)
        torch.cuda.set_rng_state(state, 1)
        assert digest(sim, torch.rand(2, device=CUDA1)) == digest(sim, before)


@pytest.mark.child
def test_memory_is_counted_and_let_go(sim: SimDevice) -> None:
    with sim.entered():
        torch.zeros(1, device=CUDA1)
        gc.collect()
        before = torch.cuda.memory_allocated(1)
        x = torch.zeros(1024, device=CUDA1)
        view = x[:2]
        assert torch.cuda.memory_allocated(1) == before + 4096
        del x
        gc.collect()
        assert torch.cuda.memory_allocated(1) == before + 4096 and view.device == CUDA1
        del view
        gc.collect()
        assert torch.cuda.memory_allocated(1) == before


def test_the_probes_own_access_is_unseen(sim: SimDevice, seen) -> None:
    with sim.entered():
        x = torch.zeros(4, device=CUDA1)

        def access() -> None:
            sim.store(x, torch.arange(4.0))
            assert sim.to_host(x).device == CPU and sim.to_host(x).sum() == 6
            sim.poison(x)
            assert digest(sim, x) == digest(sim, torch.full((4,), float("nan")))

        assert seen(access) == []


def test_checkpoints_are_loaded_to_the_device(sim: SimDevice, tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    with sim.entered():
        assert torch.load(tmp_path / "weights.pt", map_location="cuda:1")["weight"].device == CUDA1


def test_a_module_built_on_meta(sim: SimDevice) -> None:
    with sim.entered():
        with torch.device("meta"):
            module = torch.nn.Linear(2, 2)
        assert module.weight.device == torch.device("meta")
        assert module.to_empty(device="cuda:1").weight.device == CUDA1


def test_inside_vmap(sim: SimDevice) -> None:
    devices = []

    def double(x: torch.Tensor) -> torch.Tensor:
        devices.append(x.device)
        return x * 2

    with sim.entered():
        x = torch.ones(2, 3, device=CUDA1)
        assert torch.vmap(double)(x).device == CUDA1
        assert torch.func.grad(lambda y: (y * y).sum())(x).device == CUDA1
    assert devices == [CUDA1]


class _PassesOn(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_zeros_of_a_backward_lie_on_the_device_under_another_mode_too(sim: SimDevice) -> None:
    with sim.entered():
        weight = torch.randn(4, 1, device="cuda").requires_grad_()
        losses = (torch.randn(8, 4, device="cuda") @ weight).square()
        with _PassesOn():
            (gradient,) = torch.autograd.grad(losses[losses > losses.mean()].mean(), weight)
        assert gradient.device.type == "cuda"


def _coo(device: str) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.ones(3), (3, 3), device=device)


def _csr(device: str) -> torch.Tensor:
    rows, columns = torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 1])
    return torch.sparse_csr_tensor(rows, columns, torch.ones(3), (3, 3), device=device)


def _by_names(device: str) -> torch.Tensor:
    indices, values = torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.ones(3)
    return torch.sparse_coo_tensor(indices=indices, values=values, size=(3, 3), device=device)


@pytest.mark.parametrize("make", [_coo, _csr, _by_names])
def test_a_sparse_tensor_of_host_tensors_lies_where_it_is_asked_for(
    sim: SimDevice, make: Callable[[str], torch.Tensor]
) -> None:
    with sim.entered():
        made = make("cuda:1")
        product = made @ torch.ones(3, 2, device="cuda:1")
        assert (made.device.index, product.device.index) == (1, 1)
        assert make("cpu").device.type == "cpu"
        assert product.cpu().tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
