"""Runs rows of the measured atlas on the simulated device: capture, then three replays on new inputs against eager."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from graphsafe.capture.device.protocol import CaptureFailure
from graphsafe.capture.device.sim import SimDevice
from graphsafe.optable import OpTable

WARMUP = 2
REPLAYS = 3


@dataclass(frozen=True)
class Outcome:
    """What one row did. `capture` is `ok`, `fails` or `eager` (it does not even run eagerly)."""

    capture: str
    replay: tuple[str, ...] = ()
    nodes: int = 0
    error: str = ""
    generator: str = ""
    unknown: tuple[str, ...] = ()


def run_row(step: str, table: OpTable) -> Outcome:
    device = SimDevice(0, table)
    code = compile(step, "<atlas>", "exec")
    with device.entered():
        subject, twin = _state(), _state()
        try:
            for number in range(WARMUP):
                for state in (subject, twin):
                    _refresh(state, number)
                    device.seed(number)
                    _run(code, state)
        except Exception as error:
            return Outcome("eager", error=f"{type(error).__name__}: {error}")
        device.seed(1)
        recording = device.record(lambda: _run(code, subject))
        unknown = device.unknown_operations()
        generator = "poisoned" if device.draw("sim:0") else "ok"
        if isinstance(recording, CaptureFailure):
            error = f"{recording.error_type}: {recording.message}"
            return Outcome("fails", error=error, generator=generator, unknown=unknown)
        same = []
        for number in range(REPLAYS):
            outputs = []
            for state, call in ((subject, recording.replay), (twin, lambda: _run(code, twin))):
                _refresh(state, 10 + number)
                device.seed(10 + number)
                outputs.append(call())
            replayed, eager = device.to_host(recording.outputs), device.to_host(outputs[1])
            same.append("same" if torch.allclose(replayed, eager, equal_nan=True) else "DIFF")
        return Outcome("ok", tuple(same), sum(recording.nodes().values()), generator=generator, unknown=unknown)


def _run(code: Any, state: SimpleNamespace) -> torch.Tensor:
    scope = {"s": state, "dev": torch.device("cuda", 0), "torch": torch, "F": F, "np": np}
    exec(code, scope)
    return scope["out"]


def _refresh(state: SimpleNamespace, number: int) -> None:
    source = torch.Generator()
    source.manual_seed(number)
    state.x.copy_(torch.randn(64, 64, generator=source))
    state.v.copy_(torch.randn(64, generator=source))
    state.idx.copy_(torch.randint(0, 64, (64,), generator=source))
    state.mask.copy_(torch.rand(64, generator=source) > 0.5)


def _state() -> SimpleNamespace:
    dev = torch.device("cuda", 0)
    torch.manual_seed(0)
    s = SimpleNamespace(count=0, lazy=None, cache={})
    s.x, s.v = torch.randn(64, 64, device=dev), torch.randn(64, device=dev)
    s.idx = torch.randint(0, 64, (64,), device=dev)
    s.idx_perm = torch.randperm(64, device=dev)
    s.mask = torch.rand(64, device=dev) > 0.5
    s.tok = torch.tensor([3], device=dev)
    s.cpu, s.pin = torch.randn(64), torch.randn(64).pin_memory()
    s.pin_out = torch.zeros(64).pin_memory()
    s.cpu_idx, s.cpu_idx2 = torch.arange(8), torch.tensor([8, 16])
    s.np = np.ones(64, dtype=np.float32)
    s.buf, s.fbuf = torch.zeros(64, dtype=torch.int64, device=dev), torch.zeros(64, device=dev)
    s.param = torch.nn.Parameter(torch.randn(64, 64, device=dev))
    s.sgd = torch.optim.SGD([s.param], lr=0.1)
    s.adam = torch.optim.Adam([s.param], lr=0.1)
    s.adamc = torch.optim.Adam([s.param], lr=0.1, capturable=True)
    s.gen = torch.Generator(device=dev)
    s.side = torch.cuda.Stream(dev)
    s.sorted = torch.randn(64, device=dev).sort().values
    s.big = torch.randn(1 << 16, device=dev)
    s.spd = torch.eye(64, device=dev) * 64 + 0.1 * torch.ones(64, 64, device=dev)
    s.sp = torch.eye(64, device=dev).to_sparse()
    s.q = torch.randn(1, 4, 16, 64, device=dev)
    s.lstm = torch.nn.LSTM(64, 8, batch_first=True).to(dev)
    s.xh = torch.randn(64, 64, device=dev).bfloat16()
    s.lengths = torch.full((4,), 16, device=dev)
    s.state = torch.zeros(64, device=dev)
    s.kv = torch.zeros(1, 64, device=dev)
    s.kvbuf, s.pos = torch.zeros(8, 64, device=dev), torch.zeros(1, dtype=torch.int64, device=dev)
    return s
