"""A voice filter fades out after half a minute without a command: faulty, the step reads a clock held in a slot."""
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch


@dataclass(slots=True)
class Presence:
    clock: Callable[[], float] = time.monotonic
    heard: float = field(init=False)

    def __post_init__(self):
        self.heard = self.clock()

    @property
    def is_idle(self):
        return self.clock() - self.heard > 30.0


class Filter:
    def __init__(self, device, taps=9):
        self.presence = Presence()
        self.taps = torch.hann_window(taps, periodic=False).div(4).reshape(1, 1, taps).to(device)

    def __call__(self, sound):
        out = torch.nn.functional.conv1d(sound, self.taps, padding=4)
        if self.presence.is_idle:
            out = out * 0.05
        return out


def build(device):
    return Filter(device), (torch.randn(1, 1, 160, device=device),)
