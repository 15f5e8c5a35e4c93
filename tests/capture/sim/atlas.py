"""Runs measured snippets on the simulated device: capture, then three replays on new inputs against eager."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from op_snippets import catalogue
from op_state import State, same

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.device.sim import SimDevice
from graphsafe.optable import OpTable

DEVICE = torch.device("cuda", 0)
WARMUP = 3
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
        subject, twin = State(catalogue(), DEVICE), State(catalogue(), DEVICE)
        try:
            for number in range(WARMUP):
                for state in (subject, twin):
                    state.refresh(number)
                    device.seed(number)
                    state.run(code)
        except Exception as error:
            return Outcome("eager", error=f"{type(error).__name__}: {error}")
        recording = device.record(lambda: subject.run(code))
        unknown = device.unknown_operations()
        generator = "poisoned" if device.draw("sim:0") else "ok"
        if isinstance(recording, CaptureFailure):
            error = f"{recording.type}: {recording.message}"
            return Outcome("fails", error=error, generator=generator, unknown=unknown)
        replays = []
        for number in range(REPLAYS):
            outputs = []
            for state, call in ((subject, recording.replay), (twin, lambda: twin.run(code))):
                state.refresh(10 + number)
                device.seed(10 + number)
                outputs.append(call())
            replayed, eager = device.to_host(recording.outputs), device.to_host(outputs[1])
            replays.append("same" if same(replayed, eager) else "differs")
        return Outcome("ok", tuple(replays), sum(recording.nodes().values()), generator=generator, unknown=unknown)
