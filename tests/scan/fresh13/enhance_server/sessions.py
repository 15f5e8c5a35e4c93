"""Callers' sessions: their hidden state lives on the device, their sound on the host."""

from dataclasses import dataclass, field

import numpy as np
import torch
from runner import FRAME, WIDTH


@dataclass
class Session:
    name: str
    hidden: torch.Tensor = field(default_factory=lambda: torch.zeros(1, WIDTH, device="cuda"))
    cleaned: list = field(default_factory=list)

    def sound(self):
        return np.concatenate(self.cleaned) if self.cleaned else np.zeros(0, np.float32)


def microphone(seed, frames):
    """Noise and a tone, in frames as a sound card gives them."""
    source = np.random.default_rng(seed)
    time = np.arange(frames * FRAME) / 16000
    wave = np.sin(2 * np.pi * (200 + 40 * seed) * time) + 0.3 * source.standard_normal(len(time))
    yield from wave.astype(np.float32).reshape(frames, FRAME)
