"""Runs rows of the measured atlas on the simulated device: capture, then three replays on new inputs against eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
        subject, twin = State(), State()
        try:
            for number in range(WARMUP):
                for state in (subject, twin):
                    _refresh(state, number)
                    device.seed(number)
                    _run(code, state)
        except Exception as error:
            return Outcome("eager", error=f"{type(error).__name__}: {error}")
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


def _run(code: Any, state: State) -> torch.Tensor:
    scope = {"s": state, "dev": DEVICE, "torch": torch, "F": F, "np": np}
    exec(code, scope)
    out: torch.Tensor = scope["out"]
    return out


def _refresh(state: State, number: int) -> None:
    source = torch.Generator()
    source.manual_seed(number)
    state.x.copy_(torch.randn(64, 64, generator=source))
    state.v.copy_(torch.randn(64, generator=source))
    state.idx.copy_(torch.randint(0, 64, (64,), generator=source))
    state.mask.copy_(torch.rand(64, generator=source) > 0.5)


DEVICE = torch.device("cuda", 0)


class State:
    """What a row calls `s`: made when first asked for, the same for every state."""

    def __init__(self) -> None:
        self.count = 0
        self.lazy: torch.Tensor | None = None
        self.cache: dict[int, torch.Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        torch.manual_seed(0)
        value = PARTS[name](self)
        setattr(self, name, value)
        return value


def _encoder() -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True, device=DEVICE)
    return torch.nn.TransformerEncoder(layer, 1).eval().requires_grad_(False)


PARTS: dict[str, Callable[[State], Any]] = {
    "x": lambda s: torch.randn(64, 64, device=DEVICE),
    "v": lambda s: torch.randn(64, device=DEVICE),
    "idx": lambda s: torch.randint(0, 64, (64,), device=DEVICE),
    "idx_perm": lambda s: torch.randperm(64, device=DEVICE),
    "mask": lambda s: torch.rand(64, device=DEVICE) > 0.5,
    "tok": lambda s: torch.tensor([3], device=DEVICE),
    "zero": lambda s: torch.zeros((), dtype=torch.int64, device=DEVICE),
    "scale": lambda s: torch.rand((), device=DEVICE) + 1,
    "offs": lambda s: torch.tensor([16, 32, 48, 64], dtype=torch.int32, device=DEVICE),
    "lengths": lambda s: torch.full((4,), 16, device=DEVICE),
    "sorted": lambda s: torch.randn(64, device=DEVICE).sort().values,
    "big": lambda s: torch.randn(1 << 16, device=DEVICE),
    "spd": lambda s: torch.eye(64, device=DEVICE) * 64 + 0.1 * torch.ones(64, 64, device=DEVICE),
    "sp": lambda s: torch.eye(64, device=DEVICE).to_sparse(),
    "q": lambda s: torch.randn(1, 8, 64, 64, device=DEVICE),
    "xh": lambda s: torch.randn(64, 64, device=DEVICE).bfloat16(),
    "cpu": lambda s: torch.randn(64),
    "cpu0": lambda s: torch.tensor(2.0),
    "cpu_idx": lambda s: torch.arange(8),
    "cpu_idx2": lambda s: torch.tensor([8, 16]),
    "np": lambda s: np.ones(64, dtype=np.float32),
    "pin": lambda s: torch.randn(64).pin_memory(),
    "pin_out": lambda s: torch.zeros(64).pin_memory(),
    "buf": lambda s: torch.zeros(64, dtype=torch.int64, device=DEVICE),
    "fbuf": lambda s: torch.zeros(64, device=DEVICE),
    "state": lambda s: torch.zeros(64, device=DEVICE),
    "kv": lambda s: torch.zeros(1, 64, device=DEVICE),
    "kvbuf": lambda s: torch.zeros(8, 64, device=DEVICE),
    "pos": lambda s: torch.zeros(1, dtype=torch.int64, device=DEVICE),
    "gen": lambda s: torch.Generator(device=DEVICE),
    "rng_state": lambda s: torch.cuda.get_rng_state(),
    "side": lambda s: torch.cuda.Stream(DEVICE),
    "param": lambda s: torch.nn.Parameter(torch.randn(64, 64, device=DEVICE)),
    "sgd": lambda s: torch.optim.SGD([s.param], lr=0.1),
    "adam": lambda s: torch.optim.Adam([s.param], lr=0.1),
    "adamc": lambda s: torch.optim.Adam([s.param], lr=0.1, capturable=True),
    "adamwf": lambda s: torch.optim.AdamW([s.param], lr=0.1, fused=True, capturable=True),
    "scaler": lambda s: torch.amp.GradScaler("cuda"),
    "lstm": lambda s: torch.nn.LSTM(64, 8, batch_first=True).to(DEVICE),
    "gru": lambda s: torch.nn.GRU(64, 64, batch_first=True, device=DEVICE),
    "bn": lambda s: torch.nn.BatchNorm1d(64, device=DEVICE),
    "mha": lambda s: torch.nn.MultiheadAttention(64, 4, batch_first=True, device=DEVICE).eval(),
    "encoder": lambda s: _encoder(),
}
