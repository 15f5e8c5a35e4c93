"""Replacements for functions of `torch.cuda` (and `torch.accelerator`) while a simulated device is entered."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.cuda.amp
import torch.cuda.nvtx

from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.graphs import CUDAGraph, graph, graph_pool_handle
from graphsafe.capture.device.sim.nodes import SimStream
from graphsafe.capture.device.sim.streams import DeviceContext, Event, Stream, StreamContext, device_index
from graphsafe.capture.device.sim.tags import HOST, max_device_index
from graphsafe.capture.device.sim.world import World

TOTAL_BYTES = 141 * 1000**3
"The memory of an H200. The capability and the number of multiprocessors below are also those of an H200."
CAPABILITY = (9, 0)
MULTIPROCESSORS = 132
NAME = "NVIDIA H200 (simulated)"

_TENSOR_TYPES = (
    "FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor ByteTensor "
    "BoolTensor"
).split()


def replacements(world: World) -> Iterator[tuple[Any, str, Any]]:
    """Yield the owner, the name and the new value of every attribute to replace."""
    tables: list[tuple[list[Any], Mapping[str, Any]]] = [
        ([torch.cuda], _devices(world)),
        ([torch.cuda, torch.cuda.streams], {"Stream": Stream, "Event": Event, "ExternalStream": _external_stream}),
        (
            [torch.cuda, torch.cuda.graphs],
            {
                "CUDAGraph": CUDAGraph,
                "graph": graph,
                "graph_pool_handle": graph_pool_handle,
                "is_current_stream_capturing": world.says_capturing,
            },
        ),
        # If code imported `is_current_stream_capturing` before this device was entered, the imported function still
        # calls this private function.
        ([torch.cuda.graphs], {"_cuda_isCurrentStreamCapturing": world.says_capturing}),
        ([torch.cuda, torch.cuda.random], _random(world)),
        ([torch.cuda, torch.cuda.memory], _memory(world)),
        ([torch.cuda], {name: _legacy_type(name) for name in _TENSOR_TYPES}),
        ([torch.cuda.nvtx], dict.fromkeys(("range_push", "range_pop", "mark", "range_start", "range_end"), _nothing)),
        ([torch.backends.cuda], {"is_built": lambda: True}),
        ([torch._C._nn], {"_parse_to": _parse_to}),
        ([torch.backends.cudnn], {"is_acceptable": lambda tensor: False}),
        ([torch.accelerator], _accelerator(world)),
    ]
    for owners, values in tables:
        for owner in owners:
            for name, value in values.items():
                yield owner, name, value
    yield torch, "Stream", _on_any_device(torch.Stream, Stream)
    yield torch, "Event", _on_any_device(torch.Event, Event)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


_real_parse_to = torch._C._nn._parse_to


def _parse_to(*args: Any, **kwargs: Any) -> Any:
    """Parse the arguments of `module.to(...)`. This replaces PyTorch's parser, because the result must be the tensor's
    simulated device."""
    device, *rest = _real_parse_to(*args, **kwargs)
    given = args[0] if args else kwargs.get("tensor")
    if isinstance(given, torch.Tensor):
        index = max_device_index(given)
        device = device if index == HOST else torch.device("cuda", index)
    return device, *rest


def _devices(world: World) -> dict[str, Any]:
    def exchange(index: int) -> int:
        before = world.here.device
        if index >= 0:
            world.here.device = index
        return before

    def properties(device: Any = None) -> Any:
        device_index(device)
        return types.SimpleNamespace(
            name=NAME,
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            total_memory=TOTAL_BYTES,
            multi_processor_count=MULTIPROCESSORS,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=232448,
            shared_memory_per_multiprocessor=233472,
            L2_cache_size=62914560,
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName=NAME,
            uuid="00000000-0000-0000-0000-000000000000",
        )

    def synchronize(device: Any = None) -> None:
        with world.on(device_index(device)):
            world.host_wait("torch.cuda.synchronize", "wait")

    class DeviceOf(DeviceContext):
        def __init__(self, tensor: torch.Tensor) -> None:
            index = max_device_index(tensor) if isinstance(tensor, torch.Tensor) else HOST
            super().__init__(None if index == HOST else index)

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "_lazy_init": _nothing,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: world.count,
        "current_device": lambda: world.here.device,
        "set_device": lambda device: setattr(world.here, "device", device_index(device)),
        "device": DeviceContext,
        "device_of": DeviceOf,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "get_device_properties": properties,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_arch_list": lambda: ["sm_90"],
        "can_device_access_peer": lambda device, peer: True,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "synchronize": synchronize,
        "ipc_collect": _nothing,
        "set_sync_debug_mode": _nothing,
        "get_sync_debug_mode": lambda: 0,
        "current_blas_handle": lambda: 0,
        "_sleep": _nothing,
        "stream": StreamContext,
        "StreamContext": StreamContext,
        "current_stream": lambda device=None: Stream.of(world.current_sim_stream(device_index(device))),
        "default_stream": lambda device=None: Stream.of(world.defaults[device_index(device)]),
        "set_stream": lambda stream: None if stream is None else world.set_current_stream(stream.sim_stream),
    }


def _external_stream(pointer: int, device: Any = None, **_: Any) -> Stream:
    worlds.current().record_unknown_effect("torch.cuda.ExternalStream")
    return Stream.of(SimStream(device_index(device), foreign=True))


def _random(world: World) -> dict[str, Any]:
    defaults = world.generators

    def manual_seed_all(seed: int) -> None:
        for generator in defaults:
            generator.manual_seed(seed)

    def set_rng_state_all(states: Iterable[torch.Tensor]) -> None:
        for generator, state in zip(defaults, states, strict=False):
            generator.set_state(state)

    return {
        "default_generators": defaults,
        "manual_seed": lambda seed: _nothing(defaults[world.here.device].manual_seed(seed)),
        "manual_seed_all": manual_seed_all,
        "seed": lambda: _nothing(defaults[world.here.device].seed()),
        "seed_all": lambda: manual_seed_all(defaults[0].seed()),
        "initial_seed": lambda: defaults[world.here.device].initial_seed(),
        "get_rng_state": lambda device="cuda": defaults[device_index(device)].get_state(),
        "get_rng_state_all": lambda: [generator.get_state() for generator in defaults],
        "set_rng_state": lambda state, device="cuda": _nothing(defaults[device_index(device)].set_state(state)),
        "set_rng_state_all": set_rng_state_all,
    }


def _memory(world: World) -> dict[str, Any]:
    def allocated(device: Any = None) -> int:
        return world.ledgers[device_index(device)].allocated

    def peak(device: Any = None) -> int:
        return world.ledgers[device_index(device)].peak

    def reset_peak(device: Any = None) -> None:
        ledger = world.ledgers[device_index(device)]
        ledger.peak = ledger.allocated

    def statistics(device: Any = None) -> dict[str, int]:
        return {
            "allocated_bytes.all.current": allocated(device),
            "allocated_bytes.all.peak": peak(device),
            "reserved_bytes.all.current": allocated(device),
            "reserved_bytes.all.peak": peak(device),
        }

    return {
        "memory_allocated": allocated,
        "max_memory_allocated": peak,
        "memory_reserved": allocated,
        "max_memory_reserved": peak,
        "reset_peak_memory_stats": reset_peak,
        "reset_max_memory_allocated": reset_peak,
        "reset_accumulated_memory_stats": _nothing,
        "memory_stats": statistics,
        "memory_snapshot": lambda *args, **kwargs: [],
        "memory_summary": lambda device=None, abbreviated=False: f"{allocated(device)} bytes allocated (simulated)",
        "mem_get_info": lambda device=None: (TOTAL_BYTES - allocated(device), TOTAL_BYTES),
        "empty_cache": _nothing,
        "set_per_process_memory_fraction": _nothing,
    }


def _accelerator(world: World) -> dict[str, Any]:
    values: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: world.count,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: world.here.device,
        "current_device_idx": lambda: world.here.device,
        "set_device_index": lambda device: setattr(world.here, "device", device_index(device)),
        "set_device_idx": lambda device: setattr(world.here, "device", device_index(device)),
        "device_index": DeviceContext,
        "current_stream": lambda device=None: Stream.of(world.current_sim_stream(device_index(device))),
        "set_stream": lambda stream: world.set_current_stream(stream.sim_stream),
        "synchronize": lambda device=None: world.host_wait("torch.accelerator.synchronize", "wait"),
    }
    return {name: value for name, value in values.items() if hasattr(torch.accelerator, name)}


def class_of(
    name: str, make: Callable[..., Any], is_instance: Callable[[Any], bool], attributes: Mapping[str, Any] | None = None
) -> type:
    """Return a class. A call of the class calls `make`, and `isinstance` calls `is_instance`."""

    class Kind(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return is_instance(value)

    return Kind(name, (), dict(attributes or {}))


def _on_any_device(real: type, simulated: type) -> type:
    """Return a class that makes simulated streams or events if it is called with `device="cuda"`."""

    def make(device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if device is None or isinstance(device, int) or torch.device(device).type == "cuda":
            return simulated(device, **kwargs) if simulated is Stream else simulated(**kwargs)
        return real(device, *args, **kwargs)

    return class_of(real.__name__, make, lambda value: isinstance(value, (real, simulated)))


def _legacy_type(name: str) -> type:
    """Return a type such as `torch.cuda.FloatTensor`: it constructs tensors and works in `isinstance`."""
    dtype: torch.dtype = getattr(torch, name).dtype

    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        if args and isinstance(args[0], (list, tuple)):
            return torch.tensor(args[0], dtype=dtype, device="cuda")
        return torch.empty(*args, dtype=dtype, device="cuda")

    def is_instance(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == dtype

    return class_of(name, make, is_instance, {"__module__": "torch.cuda", "dtype": dtype, "is_cuda": True})
